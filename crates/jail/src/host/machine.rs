//! Open files and the processor.

use super::Finding;
use std::fs;

/// Whether threads of one core are shared: they share caches, so a sandbox on one can observe the
/// other.
pub(super) fn threads() -> Finding {
    let state = fs::read_to_string("/sys/devices/system/cpu/smt/active").unwrap_or_default();
    threads_finding(state.trim(), has_core_scheduling())
}

fn threads_finding(active: &str, has_core_scheduling: bool) -> Finding {
    match (active, has_core_scheduling) {
        ("0", _) => Finding::ok("smt", "one thread per core"),
        ("1", true) => Finding::ok("smt", "cores are shared; core scheduling can keep them apart"),
        ("1", false) => Finding::degraded(
            "smt",
            "threads of different sandboxes share cores, and this kernel cannot keep them apart",
            Some("echo off > /sys/devices/system/cpu/smt/control".to_owned()),
        ),
        _ => Finding::degraded("smt", "the kernel does not say whether cores are shared", None),
    }
}

/// Whether the kernel has core scheduling; if not, it answers `EINVAL`, or `ENODEV` without SMT.
fn has_core_scheduling() -> bool {
    let mut cookie: u64 = 0;
    // SAFETY: the kernel writes eight bytes to `cookie`, which lives in this frame.
    let result =
        unsafe { libc::prctl(libc::PR_SCHED_CORE, libc::PR_SCHED_CORE_GET, 0, 0, &raw mut cookie) };
    result == 0
}

/// Finding about the open-files limit of the whole host: when it is reached, only root can open
/// files.
pub(super) fn open_files_finding(limit: Option<u64>, sandboxes: u64, each: u64) -> Finding {
    let Some(limit) = limit else {
        return Finding::degraded("open-files", "the kernel does not tell fs.file-max", None);
    };
    let all = sandboxes.saturating_mul(each);
    if all <= limit {
        let detail = format!("fs.file-max is {limit}, {sandboxes} sandboxes may open {all}");
        return Finding::ok("open-files", detail);
    }
    Finding::degraded(
        "open-files",
        format!(
            "{} sandboxes of {each} files (processes × open files) reach fs.file-max, which is \
             {limit}; up to {sandboxes} may run",
            limit / each.max(1) + 1
        ),
        Some(format!(
            "sysctl -w fs.file-max={all} (open files count as memory of their sandbox), or lower \
             `sandbox.most` or the limits `processes` and `open_files`"
        )),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Status;

    #[test]
    fn more_files_than_the_host_can_open_are_a_weakness() {
        let rated = |limit| open_files_finding(limit, 1024, 65_536);
        assert_eq!(rated(Some(i64::MAX as u64)).status, Status::Ok);
        assert_eq!(rated(Some(1024 * 65_536)).status, Status::Ok);
        let small = rated(Some(98_000));
        assert_eq!(small.status, Status::Degraded);
        assert!(small.detail.starts_with("2 sandboxes of 65536 files"), "{}", small.detail);
        assert!(small.fix.is_some_and(|fix| fix.contains("fs.file-max=67108864")));
        assert_eq!(rated(None).status, Status::Degraded);
    }

    #[test]
    fn shared_cores_without_a_remedy_are_a_weakness() {
        for (active, has_core_scheduling, status) in [
            ("0", false, Status::Ok),
            ("1", true, Status::Ok),
            ("1", false, Status::Degraded),
            ("", true, Status::Degraded),
        ] {
            assert_eq!(threads_finding(active, has_core_scheduling).status, status);
        }
    }
}
