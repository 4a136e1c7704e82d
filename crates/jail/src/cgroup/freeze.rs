//! Pausing a group and being sure that it is paused.

use super::Error;
use super::counters;
use super::file;
use super::layout::Version;
use super::wait;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Stops every process of the group; thaws again and fails if that takes longer than `patience`.
pub(super) fn freeze(version: Version, dir: &Path, patience: Duration) -> Result<(), Error> {
    let is_frozen = match version {
        Version::V2 => freeze_v2(dir, patience)?,
        _ => freeze_v1(dir, patience)?,
    };
    if is_frozen {
        return Ok(());
    }
    thaw(version, dir)?;
    Err(Error::new("freeze", dir, io::ErrorKind::TimedOut))
}

/// Lets the group run again.
pub(super) fn thaw(version: Version, dir: &Path) -> Result<(), Error> {
    match version {
        Version::V2 => file::write(dir, "cgroup.freeze", "0"),
        _ => file::write(dir, "freezer.state", "THAWED"),
    }
}

/// The version 1 freezer looks again at its tasks whenever the state is read, and tells nobody.
fn freeze_v1(dir: &Path, patience: Duration) -> Result<bool, Error> {
    file::write(dir, "freezer.state", "FROZEN")?;
    wait::until(patience, || Ok(file::read(dir, "freezer.state")?.trim_ascii() == "FROZEN"))
}

/// Version 2 announces the change of `cgroup.events` to whoever polls it.
fn freeze_v2(dir: &Path, patience: Duration) -> Result<bool, Error> {
    file::write(dir, "cgroup.freeze", "1")?;
    let path = dir.join("cgroup.events");
    wait_for_frozen(&path, patience).map_err(|errno| Error::new("watch", &path, errno))
}

fn wait_for_frozen(path: &Path, patience: Duration) -> Result<bool, Errno> {
    let events = openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let deadline = Instant::now() + patience;
    while !says_frozen(&events)? {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        let timeout = Timespec::try_from(left).map_err(|_| Errno::INVAL)?;
        match poll(&mut [PollFd::new(&events, PollFlags::PRI)], Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(true)
}

fn says_frozen(events: &OwnedFd) -> Result<bool, Errno> {
    let mut bytes = [0; 256];
    let count = rustix::io::pread(events, &mut bytes[..], 0)?;
    let text = String::from_utf8_lossy(&bytes[..count]);
    Ok(counters::keyed(&text, "frozen") == Some(1))
}
