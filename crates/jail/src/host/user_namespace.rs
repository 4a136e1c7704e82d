//! User namespaces: tried, and explained when refused.
//!
//! Ubuntu's AppArmor lets `unshare` succeed and refuses the first mount, and a container with masked
//! parts of `/proc` lets that succeed and refuses a fresh `/proc`; so the attempt goes that far.

use super::Finding;
use super::capabilities;
use super::probe::{Failure, Step, check, in_child, last_errno, reap, write_file};
use std::fs;
use std::io;
use std::ptr::null;

/// Overflow uid of the kernel, for an ordinary user.
const ORDINARY: u32 = 65534;

/// Settings that can prevent user namespaces; `None` where this kernel has no such setting.
#[derive(Debug, Default)]
struct Settings {
    unprivileged_clone: Option<u64>,
    most_namespaces: Option<u64>,
    apparmor_restricts: Option<u64>,
    is_filtered: bool,
}

/// Steps of the child; built before it exists, because it must not allocate.
struct Attempt {
    become_ordinary: bool,
    /// Whether to make a user namespace first: root can mount in the host's, all others need their
    /// own.
    in_user_namespace: bool,
    user_map: Vec<u8>,
    group_map: Vec<u8>,
    mount_proc: bool,
}

pub(super) fn findings(user: u32, is_privileged: bool) -> Vec<Finding> {
    let settings = Settings::read();
    let as_we_are = attempt(&Attempt::new(user, false));
    let mut findings = vec![finding_for("user-namespaces", as_we_are, &settings)];
    if user == 0 && is_privileged {
        // For the operator who wants to run rootless: root itself passes all of these.
        let ordinary = attempt(&Attempt::new(ORDINARY, true));
        findings.push(finding_for("unprivileged-user-namespaces", ordinary, &settings));
    }
    let proc = Attempt {
        in_user_namespace: !is_privileged,
        mount_proc: true,
        ..Attempt::new(user, false)
    };
    findings.push(proc_finding(attempt(&proc)));
    findings
}

impl Attempt {
    fn new(user: u32, become_ordinary: bool) -> Attempt {
        let group = if become_ordinary { ORDINARY } else { rustix::process::getegid().as_raw() };
        let map = |id: u32| format!("0 {id} 1").into_bytes();
        Attempt {
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

fn attempt(plan: &Attempt) -> Result<(), Failure> {
    // SAFETY: `run_attempt` makes system calls only and reads `plan`, which is complete before the fork.
    unsafe { in_child(|| run_attempt(plan)) }
}

/// Runs in the child: no allocation from here on.
fn run_attempt(plan: &Attempt) -> Result<(), Failure> {
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

/// Becomes an ordinary user with raw calls: the C library's would try to notify threads that the
/// child does not have.
fn become_ordinary() -> Result<(), Failure> {
    let id = ORDINARY;
    // SAFETY: numbers alone; an empty group list may be null.
    unsafe {
        check(Step::BecomeOrdinary, libc::syscall(libc::SYS_setgroups, 0, null::<u32>()))?;
        check(Step::BecomeOrdinary, libc::syscall(libc::SYS_setresgid, id, id, id))?;
        check(Step::BecomeOrdinary, libc::syscall(libc::SYS_setresuid, id, id, id))?;
        // A process that changed its user no longer owns its files in `/proc`; this restores that.
        check(Step::BecomeOrdinary, libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0).into())
    }
}

/// Mounts `proc` in the first child after `unshare`, which is in the new pid namespace; it works
/// only there.
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

fn proc_finding(outcome: Result<(), Failure>) -> Finding {
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

fn finding_for(name: &'static str, outcome: Result<(), Failure>, settings: &Settings) -> Finding {
    match outcome {
        Ok(()) => Finding::ok(name, "created, mapped and mounted in one"),
        Err(failure) => {
            let (why, fix) = explain(failure, settings);
            Finding::missing(name, why, fix.map(str::to_owned))
        }
    }
}

/// Most likely cause: a setting that forbids it comes before a guess from the errno.
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
