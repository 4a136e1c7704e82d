//! Description of this host for the result table.

use std::fs;

/// Whether this process is uid 0.
pub fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    effective_uid(&status) == Some(0)
}

/// Description, for example `kernel 6.18.5, cgroup v1, uid 0`.
pub fn describe(identity: &str) -> String {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    format!("kernel {}, {}, {identity}", kernel.trim(), cgroups(&mounts))
}

/// Identity of this process, as in the table.
pub fn identity() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    effective_uid(&status).map_or_else(|| "unknown uid".to_owned(), |uid| format!("uid {uid}"))
}

fn effective_uid(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Version of the control groups. Hybrid hosts count as v1: the limiting controllers are there.
fn cgroups(mountinfo: &str) -> &'static str {
    let kinds: Vec<&str> = mountinfo
        .lines()
        .filter_map(|line| line.split_once(" - "))
        .filter_map(|(_, rest)| rest.split_whitespace().next())
        .collect();
    match (kinds.contains(&"cgroup"), kinds.contains(&"cgroup2")) {
        (true, true) => "cgroup v1 (hybrid)",
        (true, false) => "cgroup v1",
        (false, true) => "cgroup v2",
        (false, false) => "no cgroups",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_uid_is_the_second_number() {
        assert_eq!(effective_uid("Name:\tx\nUid:\t1000\t0\t1000\t1000\n"), Some(0));
        assert_eq!(effective_uid("Name:\tx\n"), None);
    }

    #[test]
    fn control_groups_are_told_apart() {
        let v1 = "30 24 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let v2 = "31 24 0:27 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n";
        assert_eq!(cgroups(v1), "cgroup v1");
        assert_eq!(cgroups(v2), "cgroup v2");
        assert_eq!(cgroups(&format!("{v1}{v2}")), "cgroup v1 (hybrid)");
        assert_eq!(cgroups(""), "no cgroups");
    }
}
