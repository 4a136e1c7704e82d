//! File systems, virtualisation and the processor.

use super::Finding;
use super::probe::last_errno;
use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use std::fs;

pub(super) fn overlay() -> Finding {
    let text = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if knows_file_system(&text, "overlay") {
        return Finding::ok("overlayfs", "known to the kernel");
    }
    let fix = Some("modprobe overlay".to_owned());
    Finding::missing("overlayfs", "not in /proc/filesystems", fix)
}

/// Lines are `nodev\tname` or `\tname`.
fn knows_file_system(text: &str, name: &str) -> bool {
    text.lines().any(|line| line.split_ascii_whitespace().next_back() == Some(name))
}

/// A device that opens but makes no machine is common inside other machines, so one is made.
pub(super) fn kvm() -> Finding {
    let made = openat(CWD, c"/dev/kvm", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .and_then(|device| make_virtual_machine(&device));
    match made {
        Ok(()) => Finding::ok("kvm", "/dev/kvm makes virtual machines"),
        Err(Errno::ACCESS | Errno::PERM) => Finding::missing(
            "kvm",
            "/dev/kvm may not be opened",
            Some("usermod -aG kvm $(id -un), then log in again".to_owned()),
        ),
        Err(errno) => Finding::missing("kvm", format!("/dev/kvm: {errno}"), None),
    }
}

fn make_virtual_machine(device: &OwnedFd) -> Result<(), Errno> {
    /// `_IO(0xAE, 0x01)`: a descriptor of an empty machine of the default type.
    const KVM_CREATE_VM: libc::Ioctl = 0xAE01;
    // SAFETY: this request takes a number and no memory.
    let machine = unsafe { libc::ioctl(device.as_raw_fd(), KVM_CREATE_VM, 0) };
    if machine == -1 {
        return Err(Errno::from_raw_os_error(last_errno()));
    }
    // SAFETY: the kernel has just made this descriptor for us alone; dropping it ends the machine.
    drop(unsafe { OwnedFd::from_raw_fd(machine) });
    Ok(())
}

/// Two threads of one core share caches; a sandbox on one can listen to the other.
pub(super) fn threads() -> Finding {
    let state = fs::read_to_string("/sys/devices/system/cpu/smt/active").unwrap_or_default();
    judge_threads(state.trim(), has_core_scheduling())
}

fn judge_threads(active: &str, has_core_scheduling: bool) -> Finding {
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

/// Asks for our own cookie: supported kernels answer, others say `EINVAL`, or `ENODEV` without SMT.
fn has_core_scheduling() -> bool {
    let mut cookie: u64 = 0;
    // SAFETY: the kernel writes eight bytes to `cookie`, which lives in this frame.
    let result =
        unsafe { libc::prctl(libc::PR_SCHED_CORE, libc::PR_SCHED_CORE_GET, 0, 0, &raw mut cookie) };
    result == 0
}

/// The limit on open files of the whole host: whoever reaches it keeps everybody but root from
/// opening files.
pub(super) fn judge_open_files(limit: Option<u64>, sandboxes: u64, each: u64) -> Finding {
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
    fn a_file_system_is_matched_whole() {
        let text = "nodev\tsysfs\n\text4\nnodev\toverlay\n";
        assert!(knows_file_system(text, "overlay") && knows_file_system(text, "ext4"));
        assert!(!knows_file_system(text, "over") && !knows_file_system("", "overlay"));
    }

    #[test]
    fn more_files_than_the_host_can_open_are_a_weakness() {
        let judge = |limit| judge_open_files(limit, 1024, 65_536);
        assert_eq!(judge(Some(i64::MAX as u64)).status, Status::Ok);
        assert_eq!(judge(Some(1024 * 65_536)).status, Status::Ok);
        let small = judge(Some(98_000));
        assert_eq!(small.status, Status::Degraded);
        assert!(small.detail.starts_with("2 sandboxes of 65536 files"), "{}", small.detail);
        assert!(small.fix.is_some_and(|fix| fix.contains("fs.file-max=67108864")));
        assert_eq!(judge(None).status, Status::Degraded);
    }

    #[test]
    fn shared_cores_without_a_remedy_are_a_weakness() {
        for (active, has_core_scheduling, status) in [
            ("0", false, Status::Ok),
            ("1", true, Status::Ok),
            ("1", false, Status::Degraded),
            ("", true, Status::Degraded),
        ] {
            assert_eq!(judge_threads(active, has_core_scheduling).status, status);
        }
    }
}
