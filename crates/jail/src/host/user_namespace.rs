//! User namespaces: really tried, and explained when refused.
//!
//! Ubuntu's AppArmor lets `unshare` succeed and refuses the first mount, and a container with masked
//! parts of `/proc` lets that succeed and refuses a fresh `/proc`; so the attempt goes that far.

use super::Finding;
use super::capabilities;
use super::probe::{Failure, Step, check, in_child, last_errno, reap, write_file};
use std::fs;
use std::io;
use std::ptr::null;

/// The kernel's overflow user: nobody special.
const ORDINARY: u32 = 65534;

/// The settings that can stand in the way; `None` where this kernel has no such setting.
#[derive(Debug, Default)]
struct Settings {
    unprivileged_clone: Option<u64>,
    most_namespaces: Option<u64>,
    apparmor_restricts: Option<u64>,
    is_filtered: bool,
}

/// What the child shall try; built before it exists, because it must not allocate.
struct Plan {
    become_ordinary: bool,
    /// Root mounts in the host's user namespace; everybody else needs one of their own.
    in_user_namespace: bool,
    user_map: Vec<u8>,
    group_map: Vec<u8>,
    mount_proc: bool,
}

pub(super) fn findings(user: u32, is_privileged: bool) -> Vec<Finding> {
    let settings = Settings::read();
    let as_we_are = attempt(&Plan::new(user, false));
    let mut findings = vec![judge("user-namespaces", as_we_are, &settings)];
    if user == 0 && is_privileged {
        // For the operator who wants to run rootless: root itself is refused by none of these.
        let ordinary = attempt(&Plan::new(ORDINARY, true));
        findings.push(judge("unprivileged-user-namespaces", ordinary, &settings));
    }
    let proc =
        Plan { in_user_namespace: !is_privileged, mount_proc: true, ..Plan::new(user, false) };
    findings.push(judge_proc(attempt(&proc)));
    findings
}

impl Plan {
    fn new(user: u32, become_ordinary: bool) -> Plan {
        let group = if become_ordinary { ORDINARY } else { rustix::process::getegid().as_raw() };
        let map = |id: u32| format!("0 {id} 1").into_bytes();
        Plan {
            become_ordinary,
            in_user_namespace: true,
            user_map: map(user),
            group_map: map(group),
            mount_proc: false,
        }
    }
}

impl Settings {
    fn read() -> Settings {
        let number = |path| fs::read_to_string(path).ok()?.trim().parse().ok();
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Settings {
            unprivileged_clone: number("/proc/sys/kernel/unprivileged_userns_clone"),
            most_namespaces: number("/proc/sys/user/max_user_namespaces"),
            apparmor_restricts: number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
            is_filtered: capabilities::field(&status, "Seccomp") == Some("2"),
        }
    }
}

fn attempt(plan: &Plan) -> Result<(), Failure> {
    // SAFETY: `follow` makes system calls only and reads `plan`, which is complete before the fork.
    unsafe { in_child(|| follow(plan)) }
}

/// Runs in the child: no allocation from here on.
fn follow(plan: &Plan) -> Result<(), Failure> {
    if plan.become_ordinary {
        become_ordinary()?;
    }
    let flags = libc::CLONE_NEWNS | libc::CLONE_NEWPID;
    if plan.in_user_namespace {
        unshare(flags | libc::CLONE_NEWUSER)?;
        write_file(Step::MapUser, c"/proc/self/setgroups", b"deny")?;
        write_file(Step::MapUser, c"/proc/self/uid_map", &plan.user_map)?;
        write_file(Step::MapUser, c"/proc/self/gid_map", &plan.group_map)?;
    } else {
        unshare(flags)?;
    }
    make_mounts_private()?;
    if plan.mount_proc { mount_proc() } else { Ok(()) }
}

fn unshare(flags: libc::c_int) -> Result<(), Failure> {
    // SAFETY: `unshare` takes no memory; this process has one thread and ends after the attempt.
    check(Step::Unshare, unsafe { libc::unshare(flags) }.into())
}

fn make_mounts_private() -> Result<(), Failure> {
    let flags = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: the path is a constant, and null is allowed for the rest with these flags.
    let result = unsafe { libc::mount(null(), c"/".as_ptr(), null(), flags, null()) };
    check(Step::Mount, result.into())
}

/// The raw calls: the C library's would try to tell threads that the child does not have.
fn become_ordinary() -> Result<(), Failure> {
    let id = ORDINARY;
    // SAFETY: numbers alone; an empty group list may be null.
    unsafe {
        check(Step::BecomeOrdinary, libc::syscall(libc::SYS_setgroups, 0, null::<u32>()))?;
        check(Step::BecomeOrdinary, libc::syscall(libc::SYS_setresgid, id, id, id))?;
        check(Step::BecomeOrdinary, libc::syscall(libc::SYS_setresuid, id, id, id))?;
        // A process that changed its user no longer owns its files in `/proc`; this returns them.
        check(Step::BecomeOrdinary, libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0).into())
    }
}

/// The first child after `unshare` is in the new pid namespace; only there `proc` can be mounted.
fn mount_proc() -> Result<(), Failure> {
    // SAFETY: the child makes one system call with constant strings and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
        let (kind, point) = (c"proc".as_ptr(), c"/proc".as_ptr());
        // SAFETY: as above.
        unsafe {
            let failed = libc::mount(kind, point, kind, flags, null()) == -1;
            libc::_exit(if failed { last_errno() } else { 0 })
        }
    }
    check(Step::MountProc, child.into())?;
    match libc::WEXITSTATUS(reap(child)) {
        0 => Ok(()),
        errno => Err(Failure { step: Step::MountProc, errno }),
    }
}

fn judge_proc(outcome: Result<(), Failure>) -> Finding {
    match outcome {
        Ok(()) => Finding::ok("private-proc", "a fresh /proc can be mounted in a pid namespace"),
        Err(Failure { step: Step::MountProc, errno }) => Finding::missing(
            "private-proc",
            format!("mounting /proc is refused ({}): parts of ours are masked", reason(errno)),
            Some("start the outer container with `--security-opt systempaths=unconfined`".into()),
        ),
        Err(_) => Finding::missing("private-proc", "needs other namespaces that are missing", None),
    }
}

fn judge(name: &'static str, outcome: Result<(), Failure>, settings: &Settings) -> Finding {
    match outcome {
        Ok(()) => Finding::ok(name, "created, mapped and mounted in one"),
        Err(failure) => {
            let (why, fix) = explain(failure, settings);
            Finding::missing(name, why, fix.map(str::to_owned))
        }
    }
}

/// The most likely cause first: a setting that forbids it beats a guess from the error number.
fn explain(failure: Failure, settings: &Settings) -> (String, Option<&'static str>) {
    let Failure { step, errno } = failure;
    let at = match step {
        Step::Start => "starting a child",
        Step::BecomeOrdinary => "becoming an ordinary user",
        Step::Unshare => "unshare",
        Step::MapUser => "mapping the user",
        Step::Mount | Step::MountProc => "the first mount",
    };
    let (cause, fix) = cause(step, errno, settings);
    (format!("{at} is refused ({}): {cause}", reason(errno)), fix)
}

fn cause(step: Step, errno: i32, settings: &Settings) -> (&'static str, Option<&'static str>) {
    if settings.most_namespaces == Some(0) || errno == libc::ENOSPC {
        let fix = "sysctl -w user.max_user_namespaces=15000";
        return ("user.max_user_namespaces is used up", Some(fix));
    }
    if settings.unprivileged_clone == Some(0) {
        let fix = "sysctl -w kernel.unprivileged_userns_clone=1";
        return ("kernel.unprivileged_userns_clone is 0", Some(fix));
    }
    if settings.apparmor_restricts == Some(1) {
        let fix = "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0";
        return ("AppArmor restricts user namespaces", Some(fix));
    }
    if settings.is_filtered && matches!(step, Step::Unshare | Step::Mount | Step::Start) {
        let fix = "start the outer container with `--security-opt seccomp=unconfined`";
        return ("the seccomp filter of an outer container forbids it", Some(fix));
    }
    if errno == libc::EINVAL && step == Step::Unshare {
        return ("this kernel has no user namespaces", Some("use a kernel with CONFIG_USER_NS=y"));
    }
    ("a security module or an outer container forbids it", None)
}

fn reason(errno: i32) -> String {
    match errno {
        0 => "the child was killed".to_owned(),
        errno => io::Error::from_raw_os_error(errno).to_string(),
    }
}

#[cfg(test)]
mod tests;
