//! Handling of crashes by the kernel.
//!
//! A piped `core_pattern` starts a program of the host, as root and outside of every sandbox, with
//! data from inside. `RLIMIT_CORE` zero does not prevent that: it applies to files (core(5)).

use super::Finding;
use std::fs;

pub(super) fn finding() -> Finding {
    finding_for(fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default().trim())
}

fn finding_for(pattern: &str) -> Finding {
    let handler = match pattern.as_bytes() {
        [b'|', ..] => "the program",
        [b'@', ..] => "the socket",
        _ => return Finding::ok("core-pattern", format!("cores go to files: `{pattern}`")),
    };
    Finding::degraded(
        "core-pattern",
        format!("a crash is handed to {handler} `{}` on the host", &pattern[1..]),
        Some("sysctl -w kernel.core_pattern=core".to_owned()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Status;

    #[test]
    fn handlers_on_the_host_are_a_weakness() {
        for (pattern, status) in [
            ("core", Status::Ok),
            ("/var/crash/core.%p", Status::Ok),
            ("", Status::Ok),
            ("|/usr/lib/systemd/systemd-coredump %P", Status::Degraded),
            ("@/run/coredump.socket", Status::Degraded),
        ] {
            assert_eq!(finding_for(pattern).status, status, "{pattern}");
        }
    }
}
