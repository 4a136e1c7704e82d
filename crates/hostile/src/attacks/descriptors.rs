//! Descriptors that a program inherits.

use std::fs;

use ringfence_jail::attack;

use crate::{
    AttackContext, Case, Finding, Group,
    finding::{escaped, held},
};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            Group::Filesystem,
            "F22",
            "a program starts with its declared descriptors only",
            extra_descriptors,
        ),
        Case::new(
            Group::Filesystem,
            "F22.stdio",
            "the standard streams lead to no file of the host",
            host_streams,
        ),
    ]
}

/// Looks for undeclared descriptors. The control opens the host's root first, as a careless
/// launcher would have left it, at an undeclared number.
fn extra_descriptors(context: &AttackContext) -> Finding {
    let root = context.is_outside().then(|| fs::File::open("/").ok()).flatten();
    let _leak = root.map(|root| rustix::io::fcntl_dupfd_cloexec(&root, 100));
    let declared: Vec<i32> = context
        .fact("declared")
        .unwrap_or_default()
        .split(',')
        .filter_map(|number| number.parse().ok())
        .collect();
    let extra: Vec<i32> = attack::open_descriptors(4096)
        .into_iter()
        .filter(|fd| *fd > 2 && !declared.contains(fd))
        .collect();
    match extra.as_slice() {
        [] => held("0, 1, 2 and what was declared"),
        [first, ..] => {
            let target = fs::read_link(format!("/proc/self/fd/{first}")).unwrap_or_default();
            escaped(format!("descriptors {extra:?}, the first is `{}`", target.display()))
        }
    }
}

/// Looks for a stream that is a file or a directory of the host.
fn host_streams(context: &AttackContext) -> Finding {
    let leak = context.is_outside().then(|| fs::File::open("/etc/passwd")).and_then(Result::ok);
    let leak = leak.map(|file| std::os::fd::AsRawFd::as_raw_fd(&file));
    let _kept = leak.and_then(|_| fs::File::open("/etc/passwd").ok());
    let streams = [0, 1, 2].into_iter().chain(leak);
    let host_file = |fd: &i32| {
        let target = fs::read_link(format!("/proc/self/fd/{fd}")).unwrap_or_default();
        target.is_absolute() && !target.starts_with("/dev")
    };
    match streams.into_iter().find(host_file) {
        Some(fd) => escaped(format!("descriptor {fd} is a file of the host")),
        None => held("pipes and devices only"),
    }
}
