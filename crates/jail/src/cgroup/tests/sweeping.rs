//! Leftovers of a dead instance are removed; those of a living one are not touched.

use super::*;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

/// An instance of our own pid namespace whose process is certainly gone: ours, started at another
/// time. Its number keeps concurrent tests apart.
fn dead(base: &Base) -> Instance {
    Instance { start_time: base.instance().start_time + 1, ..base.instance().clone() }
}

/// Directories beside those of the base, named after `instance`.
fn siblings(base: &Base, instance: &Instance) -> Vec<PathBuf> {
    base.paths().iter().map(|path| path.with_file_name(instance.to_string())).collect()
}

fn make(paths: &[PathBuf]) {
    for path in paths {
        std::fs::create_dir_all(path.join("sandbox/nested")).unwrap();
    }
}

#[test]
fn a_dead_instance_is_removed_with_its_processes() {
    let scratch = Scratch::new();
    let left = siblings(scratch.base(), &dead(scratch.base()));
    make(&left);
    let mut child = Held::shell("read forever");
    for path in &left {
        let procs = path.join("sandbox/nested/cgroup.procs");
        std::fs::write(procs, child.0.id().to_string()).unwrap();
    }
    Base::sweep(&Host::detect(), || true).unwrap();
    assert_eq!(child.0.wait().unwrap().signal(), Some(libc::SIGKILL));
    // A sweep by another test may run at the same time; then ours found less to do.
    eventually("the leftovers are gone", || left.iter().all(|path| !path.exists()));
}

#[test]
fn a_living_instance_keeps_its_processes_and_directories() {
    let scratch = Scratch::new();
    let group = scratch.group(ROOMY);
    let mut running = Held::shell("echo up; read line; echo still $line").go_in(&group);
    assert_eq!(running.line(), "up");
    let swept = Base::sweep(&Host::detect(), || true).unwrap();
    let name = scratch.base().instance().to_string();
    assert!(!swept.removed.contains(&name) && !swept.busy.contains(&name), "{swept:?}");
    assert!(group.paths().iter().all(|path| path.is_dir()));
    running.input.write_all(b"here\n").unwrap();
    assert_eq!(running.line(), "still here");
}

#[test]
fn an_instance_of_another_pid_namespace_is_left_alone() {
    let scratch = Scratch::new();
    let foreign = Instance { pid_namespace: 1, ..dead(scratch.base()) };
    let left = siblings(scratch.base(), &foreign);
    make(&left);
    Base::sweep(&Host::detect(), || true).unwrap();
    let are_there = left.iter().all(|path| path.is_dir());
    remove_trees(&left, TEST_TIMEOUT).map(drop).unwrap();
    assert!(are_there);
}

#[test]
fn a_sweep_that_is_told_to_end_removes_nothing_more() {
    let scratch = Scratch::new();
    let left = siblings(scratch.base(), &dead(scratch.base()));
    make(&left);
    let swept = Base::sweep(&Host::detect(), || false).unwrap();
    remove_trees(&left, TEST_TIMEOUT).map(drop).unwrap();
    assert!(swept.removed.is_empty() && swept.busy.is_empty(), "{swept:?}");
}
