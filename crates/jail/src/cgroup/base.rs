//! Directories of this service instance, below which every sandbox has its group.

use super::Error;
use super::controllers::{Absent, Dirs};
use super::group::{self, Group, Removal};
use super::instance::Instance;
use super::layout::Version;
use super::limits::{self, GroupLimits};
use super::sweep::{self, Swept};
use super::{Host, end, remedy, stats, unified};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time that removal waits for killed processes to end.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest group name; the kernel allows 255, and sandbox ids are far shorter.
const MAX_NAME: usize = 128;

/// One directory per hierarchy, named after this process (see [`Instance`]).
///
/// Dropping it removes nothing: leftovers of a crash are removed by [`Base::sweep`].
#[derive(Debug)]
pub struct Base {
    version: Version,
    instance: Instance,
    dirs: Dirs,
    absent: Vec<Absent>,
}

impl Base {
    /// Makes the directories; in version 2 also hands the controllers down to them.
    ///
    /// That may move this process, or in a container its neighbours too, one level down into the
    /// group `ringfence-host`, because a version 2 group has either processes or controllers.
    pub fn create(host: &Host) -> Result<Base, Error> {
        let instance = Instance::ours()?;
        let sites = host.sites();
        let distinct = sites.distinct();
        if distinct.is_empty() {
            let error = Error::new(
                "find a usable control group",
                Path::new("/sys/fs/cgroup"),
                io::ErrorKind::NotFound,
            );
            return Err(error.with_hint(remedy::delegation(host.version)));
        }
        let dirs = sites.below(&instance.to_string());
        if host.version == Version::V2 {
            unified::make_base(host, &dirs)?;
        } else {
            group::make_all(&dirs.distinct())?;
        }
        let base = Base { version: host.version, instance, dirs, absent: host.absent() };
        match base.limit_memory() {
            Ok(()) => Ok(base),
            Err(error) => {
                let _ = base.remove();
                Err(error)
            }
        }
    }

    /// Limits the memory of all sandboxes together, so that the host keeps some: when they want
    /// more, the kernel kills one of them and nothing else.
    fn limit_memory(&self) -> Result<(), Error> {
        let (Some(dir), Some(total)) = (&self.dirs.memory, limits::host_memory()) else {
            return Ok(());
        };
        limits::write_base_memory(self.version, dir, limits::for_all_sandboxes(total))
    }

    /// Makes directories again that were removed by another process, with their controllers and
    /// limits. New groups can then be made; groups that were removed with the base stay gone.
    pub fn restore(&self) -> Result<(), Error> {
        group::make_missing(&self.dirs.distinct())?;
        if self.version == Version::V2 {
            unified::hand_down(&self.dirs)?;
        }
        self.limit_memory()
    }

    /// Removes leftovers of dead instances of our own pid namespace, processes included. Checks
    /// `goes_on` before each instance.
    pub fn sweep(host: &Host, goes_on: impl Fn() -> bool) -> Result<Swept, Error> {
        sweep::sweep(host, goes_on)
    }

    /// Bytes of kernel memory (objects and network buffers) charged to all sandboxes together; all
    /// their charged memory if the kernel does not separate it.
    pub fn kernel_memory(&self) -> Option<u64> {
        stats::kernel_memory(self.version, &self.dirs)
    }

    /// Makes the group of one sandbox, with its limits.
    ///
    /// In version 1 a `freezer` costs one more directory; in version 2 every group can freeze.
    /// Limits of an absent controller are not set: the caller checks [`Base::absent`].
    pub fn new_group(
        &self,
        name: &str,
        limits: &GroupLimits,
        freezer: bool,
    ) -> Result<Group, Error> {
        if !is_plain(name) {
            return Err(Error::new(
                "use the group name",
                Path::new(name),
                io::ErrorKind::InvalidInput,
            ));
        }
        let mut dirs = self.dirs.below(name);
        if !freezer && self.version != Version::V2 {
            dirs.freezer = None;
        }
        Group::create(self.version, dirs, limits)
    }

    /// Controllers that are not available on this host, with reasons.
    pub fn absent(&self) -> &[Absent] {
        &self.absent
    }

    /// Name of the directories, which other instances can parse.
    pub fn instance(&self) -> &Instance {
        &self.instance
    }

    /// The directories, one per hierarchy.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.dirs.distinct()
    }

    /// Kills the remaining processes and removes everything; [`Removal::Busy`] if a process does
    /// not end within five seconds.
    pub fn remove(self) -> Result<Removal, Error> {
        end::remove_trees(&self.dirs.distinct(), REMOVE_TIMEOUT)
    }
}

/// Whether the name is one path component that cannot be a kernel file: those have dots, except
/// `tasks`.
fn is_plain(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !name.is_empty() && name.len() <= MAX_NAME && name != "tasks" && name.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::is_plain;

    #[test]
    fn a_group_name_is_one_plain_component() {
        for name in ["a", "sandbox-01_x", &"n".repeat(128)] {
            assert!(is_plain(name), "{name}");
        }
        for name in [
            "",
            ".",
            "..",
            "a/b",
            "../x",
            "cgroup.procs",
            "tasks",
            "a b",
            "é",
            "a\0",
            &"n".repeat(129),
        ] {
            assert!(!is_plain(name), "{name:?}");
        }
    }
}
