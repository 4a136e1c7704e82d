//! The control group of one sandbox.

use super::Error;
use super::controllers::Dirs;
use super::layout::Version;
use super::limits::{self, GroupLimits, Swap};
use super::part::Part;
use super::stats::{self, Stats};
use super::{end, file, freeze};
use rustix::fd::OwnedFd;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A group with its limits set, one directory per hierarchy.
///
/// Dropping it leaves the directories in place: they can only be removed after the last process has
/// ended, which only the owner knows. Remaining directories are removed with the base.
#[derive(Debug)]
pub struct Group {
    version: Version,
    dirs: Dirs,
    /// Every directory of `dirs` once.
    distinct: Vec<PathBuf>,
    swap: Swap,
}

/// Result of removing the directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Removal {
    /// All are removed.
    Gone,
    /// A process is still inside, often one that is just exiting: try again.
    Busy,
}

impl Removal {
    pub(super) fn and(self, other: Removal) -> Removal {
        if self == Removal::Gone { other } else { self }
    }
}

impl Group {
    /// Makes the directories and writes the limits; leaves nothing behind on failure.
    pub(super) fn create(
        version: Version,
        dirs: Dirs,
        limits: &GroupLimits,
    ) -> Result<Group, Error> {
        let distinct = dirs.distinct();
        make_all(&distinct)?;
        match limits::write(version, &dirs, limits) {
            Ok(swap) => Ok(Group { version, dirs, distinct, swap }),
            Err(error) => {
                undo(&distinct);
                Err(error)
            }
        }
    }

    /// Version 1: one descriptor per hierarchy; a child of one thread joins by writing `0` to each,
    /// and needs neither a path nor privileges for it. Empty in version 2: see [`Group::dir_fd`].
    pub fn join_fds(&self) -> Result<Vec<OwnedFd>, Error> {
        match self.version {
            Version::V2 => Ok(Vec::new()),
            _ => self.distinct.iter().map(|dir| file::open_for_join(dir)).collect(),
        }
    }

    /// Version 2: descriptor for `CLONE_INTO_CGROUP`, with which a child is in the group from its
    /// start.
    pub fn dir_fd(&self) -> Result<Option<OwnedFd>, Error> {
        match (self.version, self.distinct.first()) {
            (Version::V2, Some(dir)) => file::open_for_clone(dir).map(Some),
            _ => Ok(None),
        }
    }

    /// Whether the process is in the group, in every hierarchy; one file lists all of them.
    pub fn holds(&self, pid: u32) -> Result<bool, Error> {
        let Some(own) = self.distinct.first().and_then(|dir| tail(dir)) else { return Ok(false) };
        let text = file::read(&Path::new("/proc").join(pid.to_string()), "cgroup")?;
        let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        let ours = paths.filter(|path| tail(Path::new(path)) == Some(own)).count();
        Ok(ours == self.distinct.len())
    }

    /// Moves a running process, with all its threads, into the group.
    pub fn attach(&self, pid: u32) -> Result<(), Error> {
        let pid = pid.to_string();
        self.distinct.iter().try_for_each(|dir| file::write(dir, "cgroup.procs", &pid))
    }

    /// Kills every process and waits up to `timeout` for the group to be empty; `true` if it is.
    ///
    /// With [`Duration::ZERO`] it only sends the signals. The group cannot be used afterwards:
    /// where `cgroup.kill` is missing, its process limit is set to zero, so that a fork bomb cannot
    /// outrun us. A frozen group is thawed, because frozen processes cannot die.
    pub fn kill(&self, timeout: Duration) -> Result<bool, Error> {
        end::kill_trees(&self.distinct, timeout)
    }

    /// Freezes every process and returns when all are frozen; after `timeout` the group is thawed
    /// and the error is [`io::ErrorKind::TimedOut`].
    pub fn freeze(&self, timeout: Duration) -> Result<(), Error> {
        freeze::freeze(self.version, self.freezer_dir()?, timeout)
    }

    /// Thaws the group.
    pub fn thaw(&self) -> Result<(), Error> {
        freeze::thaw(self.version, self.freezer_dir()?)
    }

    /// Makes a part of this group; see [`Part`]. In version 1 it needs a freezer.
    pub fn part(&self, name: &str) -> Result<Part, Error> {
        Part::create(self.version, self.freezer_dir()?.join(name))
    }

    /// Reads the counters of usage without those of refusals: half the files, for a program that
    /// ended well and needs no explanation.
    pub fn usage(&self) -> Result<Stats, Error> {
        stats::read_usage(self.version, &self.dirs)
    }

    /// Reads the current memory and number of processes only.
    pub fn present(&self) -> Result<Stats, Error> {
        stats::read_present(self.version, &self.dirs)
    }

    /// Bytes of kernel objects charged to the group that cannot be reclaimed; `None` in version 1,
    /// which counts them together with caches of file names.
    pub fn kernel_objects(&self) -> Option<u64> {
        stats::kernel_objects(self.version, &self.dirs)
    }

    /// Reads all counters.
    pub fn stats(&self) -> Result<Stats, Error> {
        stats::read(self.version, &self.dirs)
    }

    /// Changes the memory limit of the running group.
    ///
    /// Below the current use, version 1 refuses with `EBUSY` if it cannot reclaim enough; version 2
    /// accepts it and kills.
    pub fn set_memory(&self, bytes: u64) -> Result<(), Error> {
        match &self.dirs.memory {
            Some(dir) => limits::write_memory(self.version, dir, bytes).map(drop),
            None => Err(self.without("memory")),
        }
    }

    /// Changes all limits of the running group.
    pub fn set_limits(&self, limits: &GroupLimits) -> Result<(), Error> {
        limits::write(self.version, &self.dirs, limits).map(drop)
    }

    /// Treatment of swap, for the receipt.
    pub fn swap(&self) -> Swap {
        self.swap
    }

    /// The directories, one per hierarchy, for evidence and tests.
    pub fn paths(&self) -> &[PathBuf] {
        &self.distinct
    }

    /// Whether its directories still exist.
    pub fn is_there(&self) -> bool {
        self.distinct.iter().all(|dir| dir.exists())
    }

    /// Removes the directories; the caller kills the processes before.
    pub fn remove(&self) -> Result<Removal, Error> {
        end::remove_all(&self.distinct)
    }

    fn freezer_dir(&self) -> Result<&Path, Error> {
        self.dirs.freezer.as_deref().ok_or_else(|| self.without("freezer"))
    }

    fn without(&self, controller: &'static str) -> Error {
        let any = self.distinct.first().map_or(Path::new(""), PathBuf::as_path);
        Error::new(
            "use a controller this group was made without",
            &any.join(controller),
            io::ErrorKind::Unsupported,
        )
    }
}

/// Names of the instance and of the group, which identify it in every hierarchy.
fn tail(path: &Path) -> Option<(&OsStr, &OsStr)> {
    Some((path.parent()?.file_name()?, path.file_name()?))
}

/// Makes each directory; on failure removes those already made.
pub(super) fn make_all(dirs: &[PathBuf]) -> Result<(), Error> {
    for (made, dir) in dirs.iter().enumerate() {
        if let Err(error) = file::make_dir(dir) {
            undo(&dirs[..made]);
            return Err(error);
        }
    }
    Ok(())
}

/// Makes the missing directories.
pub(super) fn make_missing(dirs: &[PathBuf]) -> Result<(), Error> {
    dirs.iter().try_for_each(|dir| match file::make_dir(dir) {
        Err(error) if error.is(libc::EEXIST) => Ok(()),
        other => other,
    })
}

/// Removes directories after a failure; errors are ignored, because the first failure is reported.
fn undo(dirs: &[PathBuf]) {
    for dir in dirs {
        let _ = rustix::fs::rmdir(dir);
    }
}
