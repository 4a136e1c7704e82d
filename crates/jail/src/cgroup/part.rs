//! Part of a group: the processes of one program, which can be killed together.
//!
//! A process can leave its parent, its process group and its session, but not its control group. A
//! part limits and counts nothing: in version 1 it is below the freezer's directory alone, in
//! version 2 it has no controllers, so its processes still count for the whole group.

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

/// Time limit of one attempt to freeze a part; processes that do not freeze are killed as well.
const FREEZE_TIMEOUT: Duration = Duration::from_millis(50);

/// Some processes of a group. Dropping it leaves the directory, which is removed with the group's.
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

    /// Descriptor to which a process of one thread writes `0` to join this part, with all it
    /// starts.
    pub fn join_fd(&self) -> Result<OwnedFd, Error> {
        file::open_for_join(&self.dir)
    }

    /// Kills every process and waits up to `timeout` for the part to be empty; `true` if it is.
    ///
    /// Version 2 kills them in one step. Version 1 freezes them first, so that none is forked
    /// during the search.
    pub fn kill(&self, timeout: Duration) -> Result<bool, Error> {
        let dirs = std::slice::from_ref(&self.dir);
        wait::until(timeout, || {
            if self.version != Version::V2 {
                // Fails if the whole group is about to be frozen or is gone.
                let _ = freeze::freeze(self.version, &self.dir, FREEZE_TIMEOUT);
            }
            end::kill_once(dirs)
        })
    }

    /// Removes the directory; [`Removal::Busy`] while a process is in it.
    pub fn remove(&self) -> Result<Removal, Error> {
        end::remove_all(std::slice::from_ref(&self.dir))
    }
}
