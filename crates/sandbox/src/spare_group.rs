//! Cgroups of sandboxes, one of them made ahead.
//!
//! Making a group takes the kernel longer than anything else that a cold sandbox waits for before
//! it is cloned. So the next one is made in idle time, with the limits of the last; a call with
//! other limits changes them. No process was ever in it: its counters begin with its sandbox.

use std::{
    path::PathBuf,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use ringfence_jail::cgroup::{Base, Error, Group, GroupLimits};

/// Factory of the groups below one base.
#[derive(Debug)]
pub(crate) struct GroupMaker {
    base: Base,
    next: AtomicU64,
    spare: Mutex<Spare>,
}

#[derive(Debug, Default)]
struct Spare {
    /// Limits of the last request. Nothing is made ahead before the first request.
    like: Option<GroupLimits>,
    ready: Option<(GroupLimits, Group)>,
}

impl Spare {
    /// Limits of the spare to make, if there is none.
    fn wanted(&self) -> Option<GroupLimits> {
        self.like.filter(|_| self.ready.is_none())
    }
}

impl GroupMaker {
    pub(crate) fn new(base: Base) -> Self {
        Self { base, next: AtomicU64::new(1), spare: Mutex::default() }
    }

    /// Directories of the base.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.base.paths()
    }

    /// Unused group with these limits.
    pub(crate) fn make(&self, limits: &GroupLimits, freezer: bool) -> Result<Group, Error> {
        if freezer {
            return self.new_group(limits, true);
        }
        match self.take(limits).filter(|(_, group)| group.is_there()) {
            Some((have, group)) if have == *limits => Ok(group),
            Some((_, group)) => self.changed(group, limits),
            None => self.new_group(limits, false),
        }
    }

    /// Whether more than one was made, those made ahead included.
    pub(crate) fn was_asked_before(&self) -> bool {
        self.next.load(Ordering::Relaxed) > 2
    }

    /// Makes a spare group for the next request, unless there is one. A failure is reported by that
    /// request.
    pub(crate) fn make_spare(&self) {
        let Some(like) = self.spare().wanted() else { return };
        if let Ok(group) = self.new_group(&like, false) {
            self.spare().ready = Some((like, group));
        }
    }

    /// A spare with other limits; one that does not take them is dropped.
    fn changed(&self, spare: Group, limits: &GroupLimits) -> Result<Group, Error> {
        match spare.set_limits(limits) {
            Ok(()) => Ok(spare),
            Err(_) => {
                let _ = spare.remove();
                self.new_group(limits, false)
            }
        }
    }

    fn take(&self, limits: &GroupLimits) -> Option<(GroupLimits, Group)> {
        let mut spare = self.spare();
        spare.like = Some(*limits);
        spare.ready.take()
    }

    fn new_group(&self, limits: &GroupLimits, freezer: bool) -> Result<Group, Error> {
        let name = format!("box-{}", self.next.fetch_add(1, Ordering::Relaxed));
        match self.base.new_group(&name, limits, freezer) {
            Err(error) if error.is_missing() => {
                tracing::warn!(
                    path = %error.path.display(),
                    "the cgroup of this service was removed; it is made again"
                );
                self.base.restore()?;
                self.base.new_group(&name, limits, freezer)
            }
            other => other,
        }
    }

    /// Kernel memory; see [`Base::kernel_memory`].
    pub(crate) fn kernel_memory(&self) -> Option<u64> {
        self.base.kernel_memory()
    }

    fn spare(&self) -> MutexGuard<'_, Spare> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use ringfence_jail::cgroup::{Host, Removal, remove_trees};

    use super::*;

    fn limits(pids: u32) -> GroupLimits {
        GroupLimits { memory: 64 << 20, cpu_millis: 1000, pids }
    }

    /// Name of the group and its process limit as the kernel shows it.
    fn found(group: &Group) -> (String, String) {
        let most =
            group.paths().iter().find_map(|dir| fs::read_to_string(dir.join("pids.max")).ok());
        let name = group.paths()[0].file_name().expect("a name").to_string_lossy().into_owned();
        (name, most.expect("a pids controller").trim().to_owned())
    }

    #[test]
    fn a_group_made_ahead_is_used_once_and_with_the_limits_of_its_request() {
        let maker = GroupMaker::new(Base::create(&Host::detect()).expect("control groups"));
        maker.make_spare();
        let make = |pids, freezer| found(&maker.make(&limits(pids), freezer).expect("a group"));
        let pair = |name: &str, most: &str| (name.to_owned(), most.to_owned());
        assert_eq!(make(5, false), pair("box-1", "5"), "nothing is made before the first request");
        maker.make_spare();
        maker.make_spare();
        assert_eq!(make(5, true), pair("box-3", "5"), "box-2 has no freezer");
        assert_eq!(make(7, false), pair("box-2", "7"), "made for 5");
        assert_eq!(make(7, false), pair("box-4", "7"), "each is used once");
        let removed = remove_trees(&maker.paths(), Duration::from_secs(5)).expect("removed");
        assert_eq!(removed, Removal::Gone);
    }

    #[test]
    fn a_base_that_was_removed_is_made_again_with_its_limits() {
        let maker = GroupMaker::new(Base::create(&Host::detect()).expect("control groups"));
        let make = || found(&maker.make(&limits(5), false).expect("a group"));
        make();
        maker.make_spare();
        for _ in 0..2 {
            let removed = remove_trees(&maker.paths(), Duration::from_secs(5)).expect("removed");
            assert_eq!(removed, Removal::Gone);
            assert_eq!(make().1, "5", "neither the base nor the spare is there");
        }
        let removed = remove_trees(&maker.paths(), Duration::from_secs(5)).expect("removed");
        assert_eq!(removed, Removal::Gone);
    }
}
