//! Limits as the kernel reads them back, and their effect on programs that reach them.

use super::*;
use std::os::unix::process::ExitStatusExt;

/// The content of the first file of `names` that any directory of the group has.
fn file_of(group: &Group, names: &[&str]) -> String {
    let candidates = group.paths().iter().flat_map(|dir| names.iter().map(|name| dir.join(name)));
    let text = candidates.map(std::fs::read_to_string).find_map(Result::ok);
    text.unwrap_or_else(|| panic!("none of {names:?} in {:?}", group.paths())).trim().to_owned()
}

const MEMORY: &[&str] = &["memory.max", "memory.limit_in_bytes"];

#[test]
fn limits_read_back_as_written() {
    let scratch = Scratch::new();
    let group = scratch.group(GroupLimits { memory: 64 * MIB, cpu_millis: 250, pids: 17 });
    assert_eq!(file_of(&group, MEMORY), (64 * MIB).to_string());
    assert_eq!(file_of(&group, &["pids.max"]), "17");
    let cpu = file_of(&group, &["cpu.max", "cpu.cfs_quota_us"]);
    assert!(["25000 100000", "25000"].contains(&cpu.as_str()), "{cpu}");
    // The period is not written, because a new group has this one.
    let period = file_of(&group, &["cpu.max", "cpu.cfs_period_us"]);
    assert!(period.ends_with("100000"), "{period}");
}

#[test]
fn all_sandboxes_together_leave_memory_to_the_host() {
    let scratch = Scratch::new();
    let limit = scratch.base().paths().iter().find_map(|dir| {
        MEMORY.iter().find_map(|name| std::fs::read_to_string(dir.join(name)).ok())
    });
    let limit: u64 = limit.expect("a memory limit of the base").trim().parse().expect("a number");
    let total = super::super::limits::host_memory().expect("a host with memory");
    assert!(limit > 0 && limit <= total - total / 10, "{limit} of {total}");
}

#[test]
fn usage_is_the_part_of_all_counters_that_says_what_was_used() {
    let scratch = Scratch::new();
    let group = scratch.group(ROOMY);
    let mut worked = Held::shell("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done").go_in(&group);
    assert!(worked.status().success());
    let (used, all) = (group.usage().unwrap(), group.stats().unwrap());
    assert!(used.cpu_total.is_some_and(|time| !time.is_zero()), "{used:?}");
    assert_eq!(
        (used.cpu_total, used.cpu_user, used.cpu_system, used.memory_peak, used.pids_peak),
        (all.cpu_total, all.cpu_user, all.cpu_system, all.memory_peak, all.pids_peak),
    );
    assert_eq!((used.oom_kills, used.pids_refused, used.memory_failures), (None, None, None));
}

#[test]
fn swap_is_refused_where_it_is_counted() {
    let scratch = Scratch::new();
    let group = scratch.group(ROOMY);
    match group.swap() {
        Swap::Refused => {
            let names = ["memory.memsw.limit_in_bytes", "memory.swap.max"];
            let given: u64 = file_of(&group, &names).parse().unwrap();
            assert!(given.saturating_sub(ROOMY.memory) <= 64 << 10, "{given}");
        }
        Swap::Discouraged => assert_eq!(file_of(&group, &["memory.swappiness"]), "0"),
        Swap::Unlimited => panic!("the memory controller is a prerequisite"),
    }
}

#[test]
fn the_largest_and_the_smallest_limits_are_taken() {
    let scratch = Scratch::new();
    let largest = GroupLimits { memory: u64::MAX, cpu_millis: u32::MAX, pids: u32::MAX };
    let smallest = GroupLimits { memory: 0, cpu_millis: 0, pids: 0 };
    scratch.base().new_group("largest", &largest, true).unwrap();
    scratch.base().new_group("smallest", &smallest, true).unwrap();
}

#[test]
fn the_memory_limit_can_be_raised_and_lowered() {
    let scratch = Scratch::new();
    let group = scratch.group(ROOMY);
    for memory in [512 * MIB, 32 * MIB, 128 * MIB] {
        group.set_memory(memory).unwrap();
        assert_eq!(file_of(&group, MEMORY), memory.to_string());
    }
}

/// Touches 96 MiB and says so.
const HUNGRY: &str =
    "held = bytearray(96 << 20)\nheld[::4096] = b'x' * len(held[::4096])\nprint('fed')";

#[test]
fn too_much_memory_is_killed_and_counted() {
    let scratch = Scratch::new();
    let group = scratch.group(GroupLimits { memory: 32 * MIB, ..ROOMY });
    let mut running = Held::python(HUNGRY).go_in(&group);
    assert_eq!(running.status().signal(), Some(libc::SIGKILL));
    let stats = group.stats().unwrap();
    assert!(stats.oom_kills >= Some(1), "{stats:?}");
    assert!(stats.memory_failures >= Some(1), "{stats:?}");
    assert!(stats.memory_peak.is_none_or(|peak| peak <= 32 * MIB), "{stats:?}");
    // The evidence names files that exist.
    for source in [stats.sources.oom_kills, stats.sources.memory_failures] {
        file_of(&group, &[source.split(' ').next().unwrap()]);
    }
}

#[test]
fn the_same_program_with_enough_memory_succeeds() {
    let scratch = Scratch::new();
    let group = scratch.group(ROOMY);
    let mut running = Held::python(HUNGRY).go_in(&group);
    assert_eq!(running.line(), "fed");
    assert!(running.status().success());
    let stats = group.stats().unwrap();
    assert_eq!((stats.oom_kills, stats.memory_failures), (Some(0), Some(0)));
    assert!(stats.memory_peak.is_none_or(|peak| peak >= 96 * MIB), "{stats:?}");
}

/// Starts eight children at once and prints how many it got.
const FORKS: &str = "import os, signal
children = []
try:
    for _ in range(8):
        pid = os.fork()
        if pid == 0:
            signal.pause()
        children.append(pid)
except BlockingIOError:
    pass
print(len(children), flush=True)
for pid in children:
    os.kill(pid, 9)
    os.wait()
";

fn forks_with(pids: u32) -> (String, Stats) {
    let scratch = Scratch::new();
    let group = scratch.group(GroupLimits { pids, ..ROOMY });
    let mut running = Held::python(FORKS).go_in(&group);
    let line = running.line();
    assert!(running.status().success());
    (line, group.stats().unwrap())
}

#[test]
fn processes_beyond_the_limit_are_refused_and_counted() {
    let (children, stats) = forks_with(4);
    assert_eq!(children, "3");
    assert!(stats.pids_refused >= Some(1), "{stats:?}");
    assert!(stats.pids_peak.is_none_or(|peak| peak <= 4), "{stats:?}");
}

#[test]
fn the_same_forks_below_the_limit_all_succeed() {
    let (children, stats) = forks_with(64);
    assert_eq!(children, "8");
    assert_eq!(stats.pids_refused, Some(0));
    assert!(stats.pids_peak.is_none_or(|peak| peak >= 9), "{stats:?}");
}

/// Uses a fifth of a second of cpu time.
const BUSY: &str = "import time\nwhile time.process_time() < 0.2: pass\nprint('done')";

#[test]
fn cpu_time_is_counted_and_the_quota_throttles() {
    let scratch = Scratch::new();
    // So little that even a busy machine offers more.
    let group = scratch.group(GroupLimits { cpu_millis: 100, ..ROOMY });
    let mut running = Held::python(BUSY).go_in(&group);
    assert_eq!(running.line(), "done");
    running.status();
    let stats = group.stats().unwrap();
    let total = stats.cpu_total.unwrap();
    assert!(total >= Duration::from_millis(190), "{stats:?}");
    assert!(stats.cpu_user.unwrap() + stats.cpu_system.unwrap() >= total / 2, "{stats:?}");
    assert!(stats.throttled.unwrap() > Duration::ZERO, "{stats:?}");
    assert!(stats.throttled_periods > Some(0), "{stats:?}");
}

#[test]
fn with_a_whole_cpu_and_little_to_do_nothing_is_throttled() {
    let scratch = Scratch::new();
    let group = scratch.group(GroupLimits { cpu_millis: 64_000, ..ROOMY });
    let mut running = Held::python(BUSY).go_in(&group);
    assert_eq!(running.line(), "done");
    running.status();
    assert_eq!(group.stats().unwrap().throttled_periods, Some(0));
}
