//! Version 2 on a host whose controllers are still in version 1: killing, freezing, counting time
//! and moving aside need none of them. On a host without the unified hierarchy there is nothing to
//! test, which its version shows.

use super::super::remedy;
use super::super::unified::{LEAF, Movers, give};
use super::*;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

/// A base in the unified hierarchy; `None` where it is not mounted.
pub(super) fn unified() -> Option<Scratch> {
    let host = Host::detect_unified();
    if Host::detect().version == Version::V1 {
        assert!(host.freezer.is_err(), "version 1 alone has no unified hierarchy");
        return None;
    }
    Some(Scratch(Some(Base::create(&host).expect("a base in the unified hierarchy"))))
}

#[test]
fn a_unified_group_freezes_thaws_and_dies_as_a_whole() {
    let Some(scratch) = unified() else { return };
    let group = scratch.group(ROOMY);
    let mut running = Held::shell("sleep 1000 & echo up; while :; do :; done").go_in(&group);
    assert_eq!(running.line(), "up");
    group.freeze(TEST_TIMEOUT).unwrap();
    let used = || group.stats().unwrap().cpu_total.unwrap();
    let frozen_at = used();
    group.thaw().unwrap();
    eventually("the thawed group runs on", || used() > frozen_at);
    group.freeze(TEST_TIMEOUT).unwrap();
    assert!(group.kill(TEST_TIMEOUT).unwrap(), "a frozen group can be killed");
    assert_eq!(running.status().signal(), Some(libc::SIGKILL));
    eventually("the directory can be removed", || group.remove().unwrap() == Removal::Gone);
}

#[test]
fn a_unified_group_is_entered_by_its_directory() {
    let Some(scratch) = unified() else { return };
    let group = scratch.group(ROOMY);
    let dir = group.dir_fd().unwrap().expect("version 2 has one");
    assert_eq!(rustix::fs::fstatfs(&dir).unwrap().f_type as u64, libc::CGROUP2_SUPER_MAGIC as u64);
    assert_eq!(group.join_fds().unwrap().len(), 0);
}

/// Controllers that a group may hand down although it holds processes.
const THREADED: [&str; 4] = ["cpu", "cpuset", "pids", "perf_event"];

/// A group with one process in it and a controller that it could hand down.
struct Inhabited {
    scratch: Option<Scratch>,
    top: PathBuf,
    site: PathBuf,
    /// Controller as written to `cgroup.subtree_control`, with its plus sign.
    wanted: String,
    /// Whether this test switched it on at the top, and has to switch it off.
    is_ours: bool,
    child: Held,
}

impl Inhabited {
    /// `None` if version 1 has left no controller to the unified hierarchy.
    fn new() -> Option<Inhabited> {
        let scratch = unified()?;
        let base = scratch.base().paths().remove(0);
        let top = base.parent()?.to_owned();
        let offered = words(&top, "cgroup.controllers");
        let wanted =
            format!("+{}", offered.iter().find(|name| !THREADED.contains(&name.as_str()))?);
        let is_ours = !words(&top, "cgroup.subtree_control").contains(&wanted[1..].to_owned());
        file::write(&top, "cgroup.subtree_control", &wanted).ok()?;
        file::write(&base, "cgroup.subtree_control", &wanted).unwrap();
        let site = base.join("site");
        std::fs::create_dir(&site).unwrap();
        let child = Held::shell("read forever");
        let inhabited = Inhabited { scratch: Some(scratch), top, site, wanted, is_ours, child };
        inhabited.take_in(&inhabited.child);
        Some(inhabited)
    }

    fn take_in(&self, child: &Held) {
        file::write(&self.site, "cgroup.procs", &child.0.id().to_string()).unwrap();
    }
}

impl Drop for Inhabited {
    fn drop(&mut self) {
        drop(self.scratch.take());
        self.child.0.wait().expect("our own child, killed with its group");
        if self.is_ours {
            // Refused while another test still uses it, which then does this itself.
            let off = self.wanted.replace('+', "-");
            let _ = file::write(&self.top, "cgroup.subtree_control", &off);
        }
    }
}

#[test]
fn a_group_with_processes_gives_controllers_after_they_stepped_aside() {
    for is_alone in [true, false] {
        let Some(Inhabited { site, wanted, child, .. }) = &Inhabited::new() else { return };
        let refused = file::write(site, "cgroup.subtree_control", wanted).unwrap_err();
        assert!(refused.is(libc::EBUSY), "the control: {refused:?}");
        let pid = child.0.id().to_string();
        give(site, wanted, if is_alone { Movers::Only(&pid) } else { Movers::Everyone }).unwrap();
        assert_eq!(words(site, "cgroup.subtree_control"), [&wanted[1..]]);
        assert_eq!(words(&site.join(LEAF), "cgroup.procs"), [pid]);
    }
}

#[test]
fn a_neighbour_that_may_not_be_moved_keeps_the_controllers_away() {
    let Some(inhabited) = Inhabited::new() else { return };
    let mut ours = Held::shell("read forever");
    inhabited.take_in(&ours);
    let pid = ours.0.id().to_string();
    let refused = give(&inhabited.site, &inhabited.wanted, Movers::Only(&pid)).unwrap_err();
    assert!(refused.is(libc::EBUSY), "{refused:?}");
    // The fix that this host has, if it has one.
    assert_eq!(refused.hint, remedy::delegation(Version::V2));
    drop(inhabited);
    ours.0.wait().unwrap();
}
