//! Types of namespaces, each tried.

use super::Finding;
use super::probe::{Failure, Step, check, in_child};
use std::io;
use std::path::Path;

/// One type: its finding, its file in `/proc/self/ns`, its flag, its limit in `/proc/sys/user`.
struct Kind {
    name: &'static str,
    file: &'static str,
    flag: libc::c_int,
    limit: &'static str,
}

const KINDS: [Kind; 7] = [
    Kind::new("namespace-mount", "mnt", libc::CLONE_NEWNS, "user.max_mnt_namespaces"),
    Kind::new("namespace-pid", "pid", libc::CLONE_NEWPID, "user.max_pid_namespaces"),
    Kind::new("namespace-net", "net", libc::CLONE_NEWNET, "user.max_net_namespaces"),
    Kind::new("namespace-ipc", "ipc", libc::CLONE_NEWIPC, "user.max_ipc_namespaces"),
    Kind::new("namespace-uts", "uts", libc::CLONE_NEWUTS, "user.max_uts_namespaces"),
    Kind::new("namespace-cgroup", "cgroup", libc::CLONE_NEWCGROUP, "user.max_cgroup_namespaces"),
    Kind::new("namespace-time", "time", libc::CLONE_NEWTIME, "user.max_time_namespaces"),
];

impl Kind {
    const fn new(
        name: &'static str,
        file: &'static str,
        flag: libc::c_int,
        limit: &'static str,
    ) -> Kind {
        Kind { name, file, flag, limit }
    }
}

/// One finding per type. Without privileges a namespace can only be made inside a user namespace.
pub(super) fn findings(is_privileged: bool) -> Vec<Finding> {
    let beside = if is_privileged { 0 } else { libc::CLONE_NEWUSER };
    KINDS.iter().map(|kind| finding_for(kind, attempt(kind.flag | beside))).collect()
}

fn attempt(flags: libc::c_int) -> Result<(), Failure> {
    // SAFETY: the child makes one system call that takes a number, and exits.
    unsafe { in_child(|| check(Step::Unshare, libc::unshare(flags).into())) }
}

fn finding_for(kind: &Kind, outcome: Result<(), Failure>) -> Finding {
    let Err(Failure { errno, .. }) = outcome else { return Finding::ok(kind.name, "available") };
    if !Path::new("/proc/self/ns").join(kind.file).exists() {
        let what = format!("this kernel has no {} namespaces", kind.file);
        return Finding::missing(kind.name, what, None);
    }
    let fix = (errno == libc::ENOSPC).then(|| format!("sysctl -w {}=15000", kind.limit));
    let error = io::Error::from_raw_os_error(errno);
    Finding::missing(kind.name, format!("unshare is refused: {error}"), fix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_used_up_count_names_its_setting() {
        let finding =
            finding_for(&KINDS[2], Err(Failure { step: Step::Unshare, errno: libc::ENOSPC }));
        assert_eq!(finding.fix.as_deref(), Some("sysctl -w user.max_net_namespaces=15000"));
    }

    #[test]
    fn every_kind_names_a_file_of_this_kernel() {
        for kind in &KINDS {
            assert!(Path::new("/proc/self/ns").join(kind.file).exists(), "{}", kind.file);
        }
    }
}
