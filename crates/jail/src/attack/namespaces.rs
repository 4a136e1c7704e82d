//! New namespaces, made in three ways; and the way into an own one, which controls need as ordinary
//! users.

use std::{fs, io, os::fd::AsFd};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::{Answer, Pid, call, wait};

/// The flag of a user namespace, with which ordinary users get all the others.
pub const CLONE_NEWUSER: i32 = libc::CLONE_NEWUSER;

/// A kind of namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Namespace {
    /// Its name in `/proc/self/ns`.
    pub name: &'static str,
    /// Its flag.
    pub flag: i32,
}

impl Namespace {
    /// Every kind the kernel has.
    pub const ALL: [Namespace; 8] = [
        Namespace { name: "user", flag: libc::CLONE_NEWUSER },
        Namespace { name: "mnt", flag: libc::CLONE_NEWNS },
        Namespace { name: "net", flag: libc::CLONE_NEWNET },
        Namespace { name: "pid", flag: libc::CLONE_NEWPID },
        Namespace { name: "ipc", flag: libc::CLONE_NEWIPC },
        Namespace { name: "uts", flag: libc::CLONE_NEWUTS },
        Namespace { name: "cgroup", flag: libc::CLONE_NEWCGROUP },
        // Within the bits of `clone`'s exit signal, so only the other two calls can use it.
        Namespace { name: "time", flag: 0x80 },
    ];
}

/// `unshare(flags)` in this process.
pub fn unshare_into(flags: i32) -> Answer {
    // SAFETY: takes no pointer, and file tables are not among the flags the suite passes.
    unsafe { call!(libc::SYS_unshare, flags) }
}

/// `clone(flags)`; the child ends at once and is reaped here.
pub fn clone_into(flags: i32) -> Answer {
    // SAFETY: without CLONE_VM and with a null stack this is `fork`: the child runs on its own
    // copy of this stack, and leaves through `_exit` before it touches anything else.
    let pid = unsafe { call!(libc::SYS_clone, i64::from(flags | libc::SIGCHLD), 0, 0, 0, 0) }?;
    leave_or_reap(pid)
}

/// `clone3(flags)`; the child ends at once and is reaped here.
pub fn clone3_into(flags: i32) -> Answer {
    let mut arguments = [0_u64; 11];
    arguments[0] = u64::from(flags.cast_unsigned());
    arguments[4] = libc::SIGCHLD as u64;
    // SAFETY: `arguments` is as large as the size given and outlives the call; without CLONE_VM and
    // with a null stack this is `fork`, and the child leaves through `_exit` at once.
    let pid = unsafe { call!(libc::SYS_clone3, arguments.as_ptr(), size_of_val(&arguments)) }?;
    leave_or_reap(pid)
}

/// `clone3` without any flag: a filter cannot read its arguments, so it must refuse even this.
pub fn clone3_plain() -> Answer {
    clone3_into(0)
}

fn leave_or_reap(pid: i64) -> Answer {
    if pid == 0 {
        // SAFETY: ends the child without running destructors of state that it only has a copy of.
        unsafe { libc::_exit(0) }
    }
    let child = Pid::from_raw(pid as i32).ok_or_else(|| io::Error::other("no child"))?;
    wait(child)?;
    Ok(pid)
}

/// `setns` through a link under `/proc/*/ns`.
pub fn join(namespace: impl AsFd) -> io::Result<()> {
    Ok(move_into_link_name_space(namespace.as_fd(), None::<LinkNameSpaceType>)?)
}

/// Gives this process root's abilities: as root it only leaves the host's namespaces of these
/// flags, otherwise it also becomes root of a user namespace of its own.
///
/// Controls use it to show the effect of an attack where it is allowed, without touching the host.
pub fn enter_own(flags: i32) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        unshare_into(flags | libc::CLONE_NEWUSER)?;
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("0 {} 1", uid.as_raw()))?;
        fs::write("/proc/self/gid_map", format!("0 {} 1", gid.as_raw()))?;
    } else if flags != 0 {
        unshare_into(flags)?;
    }
    Ok(())
}
