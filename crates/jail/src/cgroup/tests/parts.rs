//! Parts of a group: separate for killing, and for nothing else.

use super::unified_alone::unified;
use super::*;

/// Reads a line, then starts a child in the background and one in a session of its own.
const FAMILY: &str = "echo up; read go; sleep 1000 & \
                      setsid sh -c 'kill -STOP $$; sleep 1000' & echo forked; sleep 1000";

#[test]
fn a_part_is_ended_with_all_that_its_processes_started_and_no_others() {
    for scratch in [Some(Scratch::new()), unified()].into_iter().flatten() {
        let group = scratch.group(ROOMY);
        let mut other = Held::shell("echo up; read forever").go_in(&group);
        let mut running = Held::shell(FAMILY).go_in(&group);
        assert_eq!((other.line(), running.line()), ("up".to_owned(), "up".to_owned()));
        let part = group.part("program").unwrap();
        let pid = running.child.id().to_string();
        rustix::io::write(part.join_fd().unwrap(), pid.as_bytes()).unwrap();
        running.input.write_all(b"go\n").unwrap();
        assert_eq!(running.line(), "forked");
        let dir = group.paths().iter().map(|path| path.join("program")).find(|path| path.is_dir());
        let dir = dir.expect("one hierarchy has the part");
        eventually("three are in it", || words(&dir, "cgroup.procs").len() >= 3);
        assert_eq!(part.remove().unwrap(), Removal::Busy);
        assert!(part.kill(TEST_TIMEOUT).unwrap(), "no process is left in it");
        running.status();
        assert!(other.child.try_wait().unwrap().is_none(), "the other one runs on");
        eventually("the directory can be removed", || part.remove().unwrap() == Removal::Gone);
    }
}

#[test]
fn what_a_part_s_processes_do_is_limited_and_counted_in_the_group() {
    let scratch = Scratch::new();
    let group = scratch.group(GroupLimits { pids: 4, ..ROOMY });
    let script = "echo up; read go; for i in 1 2 3 4 5 6; do sleep 1000 & done; wait";
    let mut running = Held::shell(script).go_in(&group);
    assert_eq!(running.line(), "up");
    let part = group.part("program").unwrap();
    let pid = running.child.id().to_string();
    rustix::io::write(part.join_fd().unwrap(), pid.as_bytes()).unwrap();
    running.input.write_all(b"go\n").unwrap();
    eventually("the limit is met", || group.stats().unwrap().pids_refused.is_some_and(|n| n > 0));
    let stats = group.stats().unwrap();
    assert_eq!(stats.pids_peak, Some(4), "{stats:?}");
    assert!(part.kill(TEST_TIMEOUT).unwrap());
    running.status();
    eventually("none is counted", || group.stats().unwrap().pids_now == Some(0));
}

#[test]
fn a_group_without_a_freezer_says_that_it_has_no_parts() {
    let scratch = Scratch::new();
    let group = scratch.base().new_group("sandbox", &ROOMY, false).unwrap();
    match Host::detect().version {
        Version::V2 => drop(group.part("program").expect("every group can freeze")),
        _ => {
            let error = group.part("program").expect_err("made without");
            assert_eq!(error.source.kind(), std::io::ErrorKind::Unsupported);
        }
    }
}
