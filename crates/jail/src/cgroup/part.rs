//! Part of a group: the processes of one program, told apart so that they can be ended together.
//!
//! A process leaves its parent, its process group and its session as it likes, but not its control
//! group. A part limits and counts nothing: in version 1 it is below the freezer's directory alone,
//! in version 2 it has no controllers, so that what its processes use is the whole group's as ever.

use super::Error;
use super::end;
use super::file;
use super::freeze;
use super::group::Removal;
use super::layout::Version;
use super::wait;
use rustix::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

/// How long one attempt to stop a part may take; what does not stop is killed all the same.
const STOPPING: Duration = Duration::from_millis(50);

/// Some processes of a group. Dropping it leaves the directory, which goes with the group's.
#[derive(Debug)]
pub struct Part {
    version: Version,
    dir: PathBuf,
}

impl Part {
    pub(super) fn create(version: Version, dir: PathBuf) -> Result<Self, Error> {
        file::make_dir(&dir)?;
        Ok(Self { version, dir })
    }

    /// What a process of one thread writes `0` to in order to be in this part, with all it starts.
    pub fn join_fd(&self) -> Result<OwnedFd, Error> {
        file::open_for_join(&self.dir)
    }

    /// Kills every process and waits up to `patience` for the part to be empty; `true` if it is.
    ///
    /// Version 2 kills them in one step. Version 1 stops them first, so that none is forked while
    /// we look for them.
    pub fn kill(&self, patience: Duration) -> Result<bool, Error> {
        let dirs = std::slice::from_ref(&self.dir);
        wait::until(patience, || {
            if self.version != Version::V2 {
                // In vain while the whole group is about to be paused or is gone.
                let _ = freeze::freeze(self.version, &self.dir, STOPPING);
            }
            end::kill_once(dirs)
        })
    }

    /// Removes the directory; [`Removal::Busy`] while a process is in it.
    pub fn remove(&self) -> Result<Removal, Error> {
        end::remove_all(std::slice::from_ref(&self.dir))
    }
}
