//! Killing all processes of a set of groups and removing their directories.
//!
//! The set is one group's directories in all hierarchies: a child that was interrupted while joining
//! is in some of them only, so each is searched.

use super::Error;
use super::counters;
use super::file;
use super::group::Removal;
use super::wait;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Descriptors held at a time, far below the usual limit of open files.
const BATCH: usize = 128;

/// Sends SIGKILL until no process is left; `false` if some are left after `timeout`.
///
/// `dirs` are the directories of one base or group in all hierarchies: a process that is frozen in
/// one of them is thawed, because frozen processes cannot die.
pub fn kill_trees(dirs: &[PathBuf], timeout: Duration) -> Result<bool, Error> {
    wait::until(timeout, || kill_once(dirs))
}

/// Like [`kill_trees`], and removes the directories, children first.
pub fn remove_trees(dirs: &[PathBuf], timeout: Duration) -> Result<Removal, Error> {
    let is_gone = wait::until(timeout, || {
        kill_once(dirs)?;
        Ok::<_, Error>(remove_all(dirs)? == Removal::Gone)
    })?;
    Ok(if is_gone { Removal::Gone } else { Removal::Busy })
}

/// Removes the directories and those below; tries each even if another is busy.
pub(super) fn remove_all(dirs: &[PathBuf]) -> Result<Removal, Error> {
    let mut result = Removal::Gone;
    for dir in dirs {
        result = result.and(remove_one(dir)?);
    }
    Ok(result)
}

/// Removes one directory; the common case has no children and costs one system call.
fn remove_one(dir: &Path) -> Result<Removal, Error> {
    match rustix::fs::rmdir(dir) {
        Ok(()) | Err(Errno::NOENT) => Ok(Removal::Gone),
        Err(Errno::BUSY | Errno::NOTEMPTY) => remove_children_then(dir),
        Err(errno) => Err(Error::new("remove", dir, errno)),
    }
}

fn remove_children_then(dir: &Path) -> Result<Removal, Error> {
    let children = children(dir)?;
    if children.is_empty() || remove_all(&children)? == Removal::Busy {
        return Ok(Removal::Busy);
    }
    match rustix::fs::rmdir(dir) {
        Ok(()) | Err(Errno::NOENT) => Ok(Removal::Gone),
        Err(Errno::BUSY | Errno::NOTEMPTY) => Ok(Removal::Busy),
        Err(errno) => Err(Error::new("remove", dir, errno)),
    }
}

/// One round: prevents forks, signals all processes, and thaws frozen ones so that they can die.
/// `true` if there was no process to signal.
pub(super) fn kill_once(dirs: &[PathBuf]) -> Result<bool, Error> {
    let mut everywhere = Vec::with_capacity(dirs.len());
    for dir in dirs {
        collect_tree(dir, &mut everywhere)?;
    }
    let mut is_empty = true;
    for dir in &everywhere {
        is_empty &= pids_in(dir)?.is_empty();
    }
    if is_empty {
        return Ok(true);
    }
    for dir in &everywhere {
        if !gone_is_fine(file::write_if_present(dir, "cgroup.kill", "1"))? {
            gone_is_fine(file::write_if_present(dir, "pids.max", "0"))?;
        }
    }
    for dir in &everywhere {
        signal_all(dir)?;
    }
    for dir in &everywhere {
        gone_is_fine(file::write_if_present(dir, "freezer.state", "THAWED"))?;
    }
    Ok(false)
}

fn signal_all(dir: &Path) -> Result<(), Error> {
    let pids = pids_in(dir)?;
    for batch in pids.chunks(BATCH) {
        let held: Vec<(i32, OwnedFd)> = batch.iter().filter_map(|pid| hold(*pid)).collect();
        // Between reading the file and opening the descriptor the id may have been reused. A
        // process that is still listed now is the one that the descriptor was opened for.
        let present: HashSet<i32> = pids_in(dir)?.into_iter().collect();
        for (_, process) in held.iter().filter(|(pid, _)| present.contains(pid)) {
            match pidfd_send_signal(process, Signal::KILL) {
                Ok(()) | Err(Errno::SRCH) => {}
                Err(errno) => return Err(Error::new("kill the processes of", dir, errno)),
            }
        }
    }
    Ok(())
}

fn hold(pid: i32) -> Option<(i32, OwnedFd)> {
    let process = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    Some((pid, process))
}

fn pids_in(dir: &Path) -> Result<Vec<i32>, Error> {
    match file::read(dir, "cgroup.procs") {
        Ok(text) => Ok(counters::pids(&text).collect()),
        Err(error) if is_gone(&error) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// `dir` and everything below it, parents first.
fn collect_tree(dir: &Path, into: &mut Vec<PathBuf>) -> Result<(), Error> {
    into.push(dir.to_owned());
    for child in children(dir)? {
        collect_tree(&child, into)?;
    }
    Ok(())
}

/// The directories directly below; none if `dir` itself is gone.
pub(super) fn children(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|source| Error::new("list", dir, source))?,
    };
    let directories = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path());
    Ok(directories.collect())
}

/// Treats a missing group as removed: another instance may sweep the same leftovers.
fn gone_is_fine(result: Result<bool, Error>) -> Result<bool, Error> {
    match result {
        Err(error) if is_gone(&error) => Ok(false),
        other => other,
    }
}

/// Whether the group vanished; if its file was open, the error is `ENODEV`.
fn is_gone(error: &Error) -> bool {
    error.is(libc::ENOENT) || error.is(libc::ENODEV)
}
