//! Making, joining, pausing, killing and removing a group.

use super::*;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;

#[test]
fn two_groups_of_one_name_are_refused_and_the_first_survives() {
    let scratch = Scratch::new();
    let first = scratch.group(ROOMY);
    let error = scratch.base().new_group("sandbox", &ROOMY, true).unwrap_err();
    assert_eq!(error.source.kind(), ErrorKind::AlreadyExists);
    assert!(first.paths().iter().all(|path| path.is_dir()), "{:?}", first.paths());
}

#[test]
fn a_name_that_would_leave_the_base_is_refused() {
    let scratch = Scratch::new();
    let error = scratch.base().new_group("../outside", &ROOMY, true).unwrap_err();
    assert_eq!(error.source.kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_failed_creation_leaves_no_directory() {
    let scratch = Scratch::new();
    let group = scratch.group(ROOMY);
    // One hierarchy keeps the name; where there are several, those made before must go again.
    let (last, others) = group.paths().split_last().unwrap();
    for path in others {
        std::fs::remove_dir(path).unwrap();
    }
    scratch.base().new_group("sandbox", &ROOMY, true).unwrap_err();
    assert!(last.is_dir());
    for path in others {
        assert!(!path.exists(), "{}", path.display());
    }
}

#[test]
fn an_attached_process_is_listed_in_every_hierarchy_and_counted() {
    let scratch = Scratch::new();
    let group = scratch.group(ROOMY);
    let mut running = Held::shell("echo here; read forever").go_in(&group);
    assert_eq!(running.line(), "here");
    let pid = running.child.id().to_string();
    assert!(group.holds(running.child.id()).unwrap());
    assert!(!group.holds(std::process::id()).unwrap());
    for path in group.paths() {
        let listed = std::fs::read_to_string(path.join("cgroup.procs")).unwrap();
        assert!(listed.lines().any(|line| line == pid), "{} lists {listed:?}", path.display());
    }
    assert_eq!(group.stats().unwrap().pids_now, Some(1));
}

#[test]
fn a_child_joins_through_the_descriptors_it_was_given() {
    let scratch = Scratch::new();
    let group = scratch.group(ROOMY);
    let mut child = Held::shell("read forever");
    let join = group.join_fds().unwrap();
    match group.dir_fd().unwrap() {
        // `CLONE_INTO_CGROUP` takes a directory of the unified hierarchy and nothing else.
        Some(dir) => {
            assert!(join.is_empty());
            let kind = rustix::fs::fstatfs(&dir).unwrap().f_type;
            assert_eq!(kind as u64, libc::CGROUP2_SUPER_MAGIC as u64);
        }
        None => {
            for fd in &join {
                // The child itself writes `0`; from here the same descriptor takes its id.
                rustix::io::write(fd.as_fd(), child.0.id().to_string().as_bytes()).unwrap();
            }
            assert_eq!(join.len(), group.paths().len());
            assert_eq!(group.stats().unwrap().pids_now, Some(1));
        }
    }
    child.0.kill().unwrap();
    child.0.wait().unwrap();
}

#[test]
fn attaching_a_process_that_is_gone_is_an_error() {
    let scratch = Scratch::new();
    let group = scratch.group(ROOMY);
    let mut child = Held::shell("true");
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    let error = group.attach(child.0.id()).unwrap_err();
    assert_eq!(error.source.raw_os_error(), Some(libc::ESRCH), "{error}");
}

#[test]
fn a_frozen_group_uses_no_cpu_until_it_is_thawed() {
    let scratch = Scratch::new();
    let group = scratch.group(ROOMY);
    let mut running = Held::shell("echo up; while :; do :; done").go_in(&group);
    assert_eq!(running.line(), "up");
    group.freeze(TEST_TIMEOUT).unwrap();
    let used = || group.stats().unwrap().cpu_total.unwrap();
    let (before, started) = (used(), std::time::Instant::now());
    while started.elapsed() < Duration::from_millis(60) {
        assert_eq!(used(), before, "a frozen group ran");
    }
    group.thaw().unwrap();
    eventually("the thawed group runs on", || used() > before);
}

#[test]
fn killing_ends_a_whole_tree_even_when_frozen() {
    let scratch = Scratch::new();
    for (name, is_frozen) in [("awake", false), ("frozen", true)] {
        let group = scratch.base().new_group(name, &ROOMY, true).unwrap();
        // `setsid` leaves the session and the process group: only the group finds these.
        let tree = "for i in 1 2 3; do setsid sh -c 'setsid sleep 1000 & sleep 1000' & done; echo up; wait";
        let mut running = Held::shell(tree).go_in(&group);
        assert_eq!(running.line(), "up");
        eventually("the tree has grown", || group.stats().unwrap().pids_now >= Some(7));
        if is_frozen {
            group.freeze(TEST_TIMEOUT).unwrap();
        }
        assert_eq!(group.remove().unwrap(), Removal::Busy);
        assert!(group.kill(TEST_TIMEOUT).unwrap());
        assert_eq!(running.status().signal(), Some(libc::SIGKILL));
        eventually("the directories can be removed", || group.remove().unwrap() == Removal::Gone);
        assert!(group.paths().iter().all(|path| !path.exists()), "{name}");
    }
}

#[test]
fn killing_outruns_a_program_that_forks_without_end() {
    let scratch = Scratch::new();
    // No freezer: in version 1 only the process limit can stop it.
    let group = scratch.base().new_group("bomb", &ROOMY, false).unwrap();
    let bomb =
        "import os\nprint('up', flush=True)\nwhile True:\n try: os.fork()\n except OSError: pass\n";
    let mut running = Held::python(bomb).go_in(&group);
    assert_eq!(running.line(), "up");
    eventually("the bomb fills the group", || group.stats().unwrap().pids_refused > Some(0));
    assert!(group.kill(TEST_TIMEOUT).unwrap());
    running.status();
    eventually("the directories can be removed", || group.remove().unwrap() == Removal::Gone);
}

#[test]
fn killing_an_empty_or_removed_group_is_no_error() {
    let scratch = Scratch::new();
    let group = scratch.group(ROOMY);
    assert!(group.kill(Duration::ZERO).unwrap());
    assert_eq!(group.remove().unwrap(), Removal::Gone);
    assert!(group.kill(Duration::ZERO).unwrap());
    assert_eq!(group.remove().unwrap(), Removal::Gone);
}

#[test]
fn removing_the_base_takes_running_groups_with_it() {
    let base = Base::create(&Host::detect()).unwrap();
    let paths = base.paths();
    let group = base.new_group("left", &ROOMY, true).unwrap();
    let mut running = Held::shell("echo up; read forever").go_in(&group);
    assert_eq!(running.line(), "up");
    assert_eq!(base.remove().unwrap(), Removal::Gone);
    assert_eq!(running.status().signal(), Some(libc::SIGKILL));
    assert!(paths.iter().all(|path| !path.exists()), "{paths:?}");
}
