//! User and capabilities of this process.

use super::Finding;
use std::fs;

pub(super) const ADMIN: &str = "SYS_ADMIN";

/// Capabilities for building a sandbox as root, with the reason.
const NEEDED: [&str; 7] = [
    ADMIN,          // Namespaces and mounts.
    "SETUID",       // Becoming the sandbox's user.
    "SETGID",       // The same for groups.
    "SETPCAP",      // Emptying the bounding set.
    "CHOWN",        // Giving the workspace to the sandbox's user.
    "KILL",         // Ending processes of that user.
    "DAC_OVERRIDE", // Reading what that user left behind.
];

/// Names by number, from `linux/capability.h`.
const NAMES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    ADMIN,
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// Effective capabilities; none if `/proc` cannot be read.
pub(super) fn effective() -> Vec<&'static str> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    field(&status, "CapEff").and_then(|hex| u64::from_str_radix(hex, 16).ok()).map_or(vec![], names)
}

/// Capabilities that root would need and does not have.
pub(super) fn missing(capabilities: &[&str]) -> Vec<&'static str> {
    NEEDED.into_iter().filter(|needed| !capabilities.contains(needed)).collect()
}

pub(super) fn finding(user: u32, capabilities: &[&str]) -> Finding {
    if user != 0 {
        return Finding::ok("privileges", format!("user {user}: sandboxes are built rootless"));
    }
    let missing = missing(capabilities);
    if missing.is_empty() {
        return Finding::ok("privileges", "root with every capability it takes");
    }
    Finding::degraded(
        "privileges",
        format!("root without {}: to the kernel an ordinary user", missing.join(", ")),
        Some("start the outer container with `--privileged`, or start as an ordinary user".into()),
    )
}

/// The first word of a field of `/proc/<pid>/status`.
pub(super) fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let lines = status.lines().filter_map(|line| line.split_once(':'));
    lines.into_iter().find(|(key, _)| *key == name)?.1.split_ascii_whitespace().next()
}

fn names(bits: u64) -> Vec<&'static str> {
    let set = NAMES.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
    set.map(|(_, name)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_have_the_names_of_the_header() {
        assert_eq!(names(1 << libc_sys_admin() | 1), ["CHOWN", ADMIN]);
        assert_eq!(names(0x1ff_ffff_ffff).len(), 41);
        assert_eq!(names(1 << 63), Vec::<&str>::new());
    }

    /// `CAP_SYS_ADMIN`.
    fn libc_sys_admin() -> u32 {
        21
    }

    #[test]
    fn a_container_root_is_told_what_it_lacks() {
        // Docker's default set.
        let docker = names(0xa804_25fb);
        assert_eq!(missing(&docker), [ADMIN]);
        assert_eq!(finding(0, &docker).status, crate::host::Status::Degraded);
    }

    #[test]
    fn a_status_field_is_matched_whole() {
        let status = "Seccomp_filters:\t1\nSeccomp:\t2\n";
        assert_eq!(field(status, "Seccomp"), Some("2"));
        assert_eq!(field(status, "Sec"), None);
    }
}
