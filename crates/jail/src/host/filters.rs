//! The two filters a sandbox puts on itself: seccomp and Landlock.

use super::Finding;
use rustix::io::Errno;

/// Landlock ABI that scopes signals and abstract sockets; older ones cover files and ports.
const WANTED_ABI: u32 = 6;

/// Actions that our filters use.
const ACTIONS: [(u32, &str); 3] = [
    (libc::SECCOMP_RET_KILL_PROCESS, "kill_process"),
    (libc::SECCOMP_RET_ERRNO, "errno"),
    (libc::SECCOMP_RET_ALLOW, "allow"),
];

pub(super) fn seccomp() -> Finding {
    let lacking: Vec<&str> = ACTIONS
        .iter()
        .filter(|(action, _)| !is_available(*action))
        .map(|(_, name)| *name)
        .collect();
    if lacking.is_empty() {
        return Finding::ok("seccomp", "filters with every action we use");
    }
    Finding::missing(
        "seccomp",
        format!("no filters with {}", lacking.join(", ")),
        Some("use a kernel with CONFIG_SECCOMP_FILTER=y, 4.14 or newer".to_owned()),
    )
}

fn is_available(action: u32) -> bool {
    // SAFETY: the kernel reads four bytes of `action`, which lives in this frame.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action)
    };
    result == 0
}

pub(super) fn landlock(abi: Result<u32, Errno>) -> Finding {
    match abi {
        Ok(abi) if abi >= WANTED_ABI => Finding::ok("landlock", format!("ABI {abi}")),
        Ok(abi) => Finding::degraded(
            "landlock",
            format!("ABI {abi}: without scopes for signals and abstract sockets"),
            Some("use Linux 6.12 or newer".to_owned()),
        ),
        Err(Errno::OPNOTSUPP) => Finding::missing(
            "landlock",
            "built into the kernel, but not switched on",
            Some("add `landlock` to the `lsm=` list of the kernel command line".to_owned()),
        ),
        Err(Errno::NOSYS) => Finding::missing(
            "landlock",
            "this kernel has no Landlock",
            Some("use Linux 5.13 or newer with CONFIG_SECURITY_LANDLOCK=y".to_owned()),
        ),
        Err(errno) => {
            Finding::missing("landlock", format!("refused by an outer container: {errno}"), None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Status;

    #[test]
    fn an_action_that_does_not_exist_is_not_available() {
        assert!(!is_available(0x1234_0000));
        assert!(is_available(libc::SECCOMP_RET_ALLOW), "the control");
    }

    #[test]
    fn each_state_of_landlock_has_its_own_answer() {
        for (abi, status) in [
            (Ok(7), Status::Ok),
            (Ok(1), Status::Degraded),
            (Err(Errno::OPNOTSUPP), Status::Missing),
            (Err(Errno::NOSYS), Status::Missing),
            (Err(Errno::PERM), Status::Missing),
        ] {
            assert_eq!(landlock(abi).status, status, "{abi:?}");
        }
    }
}
