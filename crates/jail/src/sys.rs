//! System calls that no library wraps in the needed form. One function, one call.

use std::{
    ffi::{CStr, CString},
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

use libc::{c_int, c_long, c_uint};
use rustix::io::Errno;

pub(crate) type Result<T> = core::result::Result<T, Errno>;

/// Namespaces that every sandbox is cloned into. The network comes from the parent, which made a
/// fresh one ahead of time; the cgroup namespace follows once the cgroup is joined.
pub(crate) const BIRTH_NAMESPACES: c_int =
    libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;

fn check(ret: c_long) -> Result<c_long> {
    if ret < 0 { Err(last()) } else { Ok(ret) }
}

fn last() -> Errno {
    Errno::from_raw_os_error(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

fn fd(ret: c_long) -> Result<OwnedFd> {
    // SAFETY: the kernel just returned this descriptor, so it has no other owner.
    check(ret).map(|raw| unsafe { OwnedFd::from_raw_fd(raw as c_int) })
}

/// Side of a fork.
#[derive(Debug)]
pub(crate) enum Forked {
    Child,
    Parent { pid: i32, pidfd: OwnedFd },
}

#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Forks into new namespaces, straight into a v2 cgroup if one is given.
///
/// The child continues on a copy of the stack, as after `fork`. The caller must have one thread: a
/// lock held by another would stay locked in the child for ever.
pub(crate) fn clone3(flags: c_int, into_cgroup: Option<BorrowedFd<'_>>) -> Result<Forked> {
    let mut pidfd: c_int = -1;
    let mut args = CloneArgs {
        flags: flags as u32 as u64 | libc::CLONE_PIDFD as u64,
        pidfd: &raw mut pidfd as u64,
        exit_signal: libc::SIGCHLD as u64,
        ..CloneArgs::default()
    };
    if let Some(cgroup) = into_cgroup {
        args.flags |= 0x2_0000_0000; // CLONE_INTO_CGROUP, which libc has in a type too small.
        args.cgroup = cgroup.as_raw_fd() as u64;
    }
    // SAFETY: without CLONE_VM the child has its own copy of memory and stack, as with fork;
    // `args` and `pidfd` outlive the call.
    let pid =
        check(unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) })?;
    if pid == 0 {
        return Ok(Forked::Child);
    }
    // SAFETY: CLONE_PIDFD stored a descriptor that is ours alone.
    Ok(Forked::Parent { pid: pid as i32, pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) } })
}

/// Fork of the C library, which keeps its internal state consistent for an interpreter.
pub(crate) fn fork() -> Result<Option<i32>> {
    // SAFETY: the process has one thread, so the child's copy of every lock is free.
    let pid = check(unsafe { libc::fork() } as c_long)?;
    Ok((pid != 0).then_some(pid as i32))
}

/// Stack size of a child that lives until it executes another program.
const LENT_STACK: usize = 256 << 10;

/// Runs `work` in a child that shares our memory, and sleeps until it has executed another program
/// or ended; the return value of `work` is then its exit code. Nothing is copied for a child that
/// is about to be replaced anyway. Messages that it sent over a socket come before those that the
/// parent sends next.
///
/// Descriptors, signals and the working directory are the child's own; memory is not. So `work`
/// must leave it unchanged: it frees what it allocates, and only borrows from us. The caller must
/// have one thread.
pub(crate) fn run_until_exec(work: &mut dyn FnMut() -> i32) -> Result<i32> {
    extern "C" fn enter(work: *mut libc::c_void) -> c_int {
        // SAFETY: the pointer below is to `work`, whose owner sleeps while we run.
        let work = unsafe { &mut *work.cast::<&mut dyn FnMut() -> i32>() };
        work()
    }
    let mut work = work;
    // Pages that the child does not touch are never allocated.
    let mut stack = Vec::<u128>::with_capacity(LENT_STACK / size_of::<u128>());
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the stack is this frame's, is aligned, grows down from its end, and outlives the
    // child's use of it: CLONE_VFORK keeps us here until then. `work` outlives the call likewise.
    let pid = check(c_long::from(unsafe {
        let top = stack.as_mut_ptr().add(stack.capacity());
        libc::clone(enter, top.cast(), flags, (&raw mut work).cast())
    }))?;
    Ok(pid as i32)
}

pub(crate) fn unshare(flags: c_int) -> Result<()> {
    // SAFETY: takes no pointers; the process has one thread.
    check(unsafe { libc::unshare(flags) } as c_long).map(drop)
}

pub(crate) fn prctl(op: c_int, a: u64, b: u64) -> Result<i64> {
    // SAFETY: every caller passes an operation whose arguments are plain numbers.
    check(unsafe { libc::prctl(op, a, b, 0_u64, 0_u64) } as c_long)
}

pub(crate) fn umount_detach(path: &CStr) -> Result<()> {
    // SAFETY: `path` is a valid C string for the duration of the call.
    check(unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) } as c_long).map(drop)
}

pub(crate) fn pivot_root(new: &CStr, old: &CStr) -> Result<()> {
    // SAFETY: both are valid C strings for the duration of the call.
    check(unsafe { libc::syscall(libc::SYS_pivot_root, new.as_ptr(), old.as_ptr()) }).map(drop)
}

pub(crate) fn fsopen(kind: &CStr) -> Result<OwnedFd> {
    // SAFETY: `kind` is a valid C string for the duration of the call.
    fd(unsafe {
        libc::syscall(libc::SYS_fsopen, kind.as_ptr(), 1 /* FSOPEN_CLOEXEC */)
    })
}

/// Sets `key=value` on a filesystem being made, or the flag `key` without a value.
pub(crate) fn fsconfig(fs: &OwnedFd, key: &CStr, value: Option<&CStr>) -> Result<()> {
    let (command, value) = match value {
        Some(value) => (1 /* FSCONFIG_SET_STRING */, value.as_ptr()),
        None => (0 /* FSCONFIG_SET_FLAG */, std::ptr::null()),
    };
    // SAFETY: `key` and `value` are valid C strings, or null where the command takes none.
    check(unsafe {
        libc::syscall(libc::SYS_fsconfig, fs.as_raw_fd(), command, key.as_ptr(), value, 0)
    })
    .map(drop)
}

/// Makes the filesystem and a mount of it that is not attached yet.
pub(crate) fn fsmount(fs: &OwnedFd, attributes: u64) -> Result<OwnedFd> {
    let null = std::ptr::null::<u8>();
    // SAFETY: FSCONFIG_CMD_CREATE takes no key and no value.
    check(unsafe { libc::syscall(libc::SYS_fsconfig, fs.as_raw_fd(), 6, null, null, 0) })?;
    // SAFETY: takes no pointers.
    fd(unsafe { libc::syscall(libc::SYS_fsmount, fs.as_raw_fd(), 1, attributes) })
}

pub(crate) fn move_mount(mount: &OwnedFd, to: &CStr) -> Result<()> {
    // SAFETY: both paths are valid C strings; the first is empty, as the flag demands.
    check(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_FDCWD,
            to.as_ptr(),
            4, // MOVE_MOUNT_F_EMPTY_PATH
        )
    })
    .map(drop)
}

/// A detached copy of the mount at `path`, with everything mounted below it if `recursive`.
pub(crate) fn open_tree(dir: BorrowedFd<'_>, path: &CStr, recursive: bool) -> Result<OwnedFd> {
    const OPEN_TREE_CLONE: c_uint = 1;
    const AT_RECURSIVE: c_uint = 0x8000;
    let flags = OPEN_TREE_CLONE
        | libc::O_CLOEXEC as c_uint
        | libc::AT_SYMLINK_NOFOLLOW as c_uint
        | if recursive { AT_RECURSIVE } else { 0 };
    // SAFETY: `path` is a valid C string for the duration of the call.
    fd(unsafe { libc::syscall(libc::SYS_open_tree, dir.as_raw_fd(), path.as_ptr(), flags) })
}

/// Attributes of a mount, as `mount_setattr` takes them.
pub(crate) mod attr {
    pub(crate) const RDONLY: u64 = 0x1;
    pub(crate) const NOSUID: u64 = 0x2;
    pub(crate) const NODEV: u64 = 0x4;
    pub(crate) const NOEXEC: u64 = 0x8;
    pub(crate) const NOSYMFOLLOW: u64 = 0x20_0000;
}

/// Adds attributes to a mount, and to all below it if `recursive`; makes it private.
pub(crate) fn mount_setattr(mount: &OwnedFd, set: u64, recursive: bool) -> Result<()> {
    #[repr(C)]
    struct MountAttr {
        set: u64,
        clear: u64,
        propagation: u64,
        userns: u64,
    }
    let attr = MountAttr { set, clear: 0, propagation: libc::MS_PRIVATE, userns: 0 };
    let flags = libc::AT_EMPTY_PATH as c_uint | if recursive { 0x8000 } else { 0 };
    // SAFETY: `attr` has the layout of the first version of struct mount_attr and its size.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    })
    .map(drop)
}

/// Mount without data: a bind, a change of propagation.
pub(crate) fn mount(source: &CStr, target: &CStr, flags: u64) -> Result<()> {
    let null = std::ptr::null();
    // SAFETY: the paths are valid C strings; type and data may be null for these flags.
    check(unsafe { libc::mount(source.as_ptr(), target.as_ptr(), null, flags, null.cast()) }
        as c_long)
    .map(drop)
}

pub(crate) fn sethostname(name: &[u8]) -> Result<()> {
    // SAFETY: pointer and length describe `name`.
    check(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) } as c_long).map(drop)
}

/// Drops all supplementary groups.
pub(crate) fn drop_groups() -> Result<()> {
    // SAFETY: an empty list needs no pointer. The raw call acts on this thread, which is the only one.
    check(unsafe { libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<u32>()) }).map(drop)
}

/// Sets real, effective and saved ids to `gid` and `uid`.
pub(crate) fn become_user(uid: u32, gid: u32) -> Result<()> {
    // SAFETY: both take no pointers. The raw calls act on this thread, which is the only one.
    unsafe {
        check(libc::syscall(libc::SYS_setresgid, gid, gid, gid))?;
        check(libc::syscall(libc::SYS_setresuid, uid, uid, uid))?;
    }
    Ok(())
}

/// The three capability sets, 64 bits each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Caps {
    pub(crate) effective: u64,
    pub(crate) permitted: u64,
    pub(crate) inheritable: u64,
}

#[repr(C)]
struct CapHeader {
    version: u32,
    pid: i32,
}

const CAP_VERSION_3: u32 = 0x2008_0522;

pub(crate) fn capget() -> Result<Caps> {
    let header = CapHeader { version: CAP_VERSION_3, pid: 0 };
    let mut data = [[0_u32; 3]; 2];
    // SAFETY: version 3 writes two entries of three words each.
    check(unsafe { libc::syscall(libc::SYS_capget, &raw const header, data.as_mut_ptr()) })?;
    let join = |i: usize| u64::from(data[0][i]) | u64::from(data[1][i]) << 32;
    Ok(Caps { effective: join(0), permitted: join(1), inheritable: join(2) })
}

pub(crate) fn capset(caps: Caps) -> Result<()> {
    let header = CapHeader { version: CAP_VERSION_3, pid: 0 };
    let half = |shift: u32| {
        [caps.effective, caps.permitted, caps.inheritable].map(|set| (set >> shift) as u32)
    };
    let data = [half(0), half(32)];
    // SAFETY: version 3 reads two entries of three words each.
    check(unsafe { libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) }).map(drop)
}

pub(crate) fn setrlimit(resource: u32, value: u64) -> Result<()> {
    let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
    // SAFETY: `limit` outlives the call.
    check(unsafe { libc::setrlimit(resource, &raw const limit) } as c_long).map(drop)
}

/// Hard limit: raising it needs a capability.
pub(crate) fn hard_limit(resource: u32) -> Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` outlives the call.
    check(unsafe { libc::getrlimit(resource, &raw mut limit) } as c_long)?;
    Ok(limit.rlim_max)
}

/// Closes every descriptor from `first` on.
pub(crate) fn close_from(first: u32) -> Result<()> {
    // SAFETY: callers own every descriptor they leave open and use none above `first` again.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) }).map(drop)
}

/// Marks every descriptor from `first` on as closed by `exec`.
pub(crate) fn cloexec_from(first: u32) -> Result<()> {
    // SAFETY: only a flag of the descriptors changes.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 4) }).map(drop)
}

/// Descriptor that becomes readable when a child changes state; blocks normal delivery.
pub(crate) fn child_signals() -> Result<OwnedFd> {
    // SAFETY: the sets are local and initialised by sigemptyset before use.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        check(libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) as c_long)?;
        fd(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) as c_long)
    }
}

/// Unblocks all signals and restores every default action, as a new program expects.
pub(crate) fn reset_signals() {
    // SAFETY: sets dispositions of this process only; unknown numbers fail harmlessly.
    unsafe {
        for signal in 1..=64 {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
    clear_signal_mask();
}

/// Unblocks all signals in a process whose parent has reset them, and restores that of broken
/// pipes.
pub(crate) fn unblock_signals() {
    // SAFETY: sets a disposition of this process only.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
    clear_signal_mask();
}

/// Ignores SIGPIPE: a write to a closed socket is an error and not our end.
pub(crate) fn ignore_broken_pipes() {
    // SAFETY: sets a disposition of this process only.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
}

/// Termination signals, which a service manager or a terminal may send to every process of a
/// service.
const END_REQUESTS: [c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

/// Ignores termination signals: a helper ends when its socket closes, and running programs with it.
pub(crate) fn ignore_end_requests() {
    // SAFETY: sets dispositions of this process only.
    unsafe {
        for signal in END_REQUESTS {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}

/// Blocks termination signals without changing their actions, for an interpreter with handlers of
/// its own. Children inherit the mask; see [`clear_signal_mask`].
pub(crate) fn block_end_requests() {
    // SAFETY: the set is local and initialised by sigemptyset before use.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in END_REQUESTS {
            libc::sigaddset(&raw mut set, signal);
        }
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
}

/// Unblocks all signals.
pub(crate) fn clear_signal_mask() {
    // SAFETY: the set is local and initialised by sigemptyset before use.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}

/// Ignores the end of children, so that the kernel reaps them.
pub(crate) fn ignore_children() {
    // SAFETY: sets a disposition of this process only.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
    }
}

/// Restores the default for a process that waits for its children itself.
pub(crate) fn reset_child_signal() {
    // SAFETY: sets a disposition of this process only.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
    }
}

/// A child that ended, with its raw wait status and the usage of it and its children.
pub(crate) struct Reaped {
    pub(crate) pid: i32,
    pub(crate) status: i32,
    pub(crate) usage: libc::rusage,
}

/// Reaps one ended child, if there is one.
pub(crate) fn reap() -> Option<Reaped> {
    let mut status = 0;
    // SAFETY: rusage is plain data, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointers are to locals that outlive the call.
    let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut usage) };
    (pid > 0).then_some(Reaped { pid, status, usage })
}

/// Kills every process of the pid namespace but its first, which calls this.
pub(crate) fn kill_everything() {
    // SAFETY: takes no pointers; the first process of a namespace is spared by the kernel.
    unsafe { libc::kill(-1, libc::SIGKILL) };
}

/// Usage of this process and its ended children.
pub(crate) fn children_usage() -> libc::rusage {
    // SAFETY: rusage is plain data; the pointer is to a local.
    unsafe {
        let mut rusage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut rusage);
        rusage
    }
}

/// Ends the process at once: no destructors, no buffers, no handlers of the process we were forked
/// from.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: never returns and touches nothing.
    unsafe { libc::_exit(code) }
}

/// A program with all arguments of `execve`, prepared ahead: executing it allocates nothing.
#[derive(Debug)]
pub(crate) struct Image {
    /// Candidate paths, in order.
    paths: Vec<CString>,
    argv: Pointers,
    env: Pointers,
}

/// Strings and the null-terminated list of pointers to them.
#[derive(Debug)]
struct Pointers {
    list: Vec<*const libc::c_char>,
    /// Never touched again: the list points into these.
    _strings: Vec<CString>,
}

impl Pointers {
    fn new(strings: Vec<CString>) -> Self {
        let ends = std::iter::once(std::ptr::null());
        let list = strings.iter().map(|string| string.as_ptr()).chain(ends).collect();
        Self { list, _strings: strings }
    }
}

impl Image {
    /// Prepares the program. A name without a slash is looked up in `PATH` of `env`.
    pub(crate) fn new(argv: Vec<CString>, env: Vec<CString>) -> Result<Self> {
        let paths = candidates(argv.first().ok_or(Errno::INVAL)?, &env);
        Ok(Self { paths, argv: Pointers::new(argv), env: Pointers::new(env) })
    }

    /// Executes the program; returns only on failure.
    pub(crate) fn exec(&self) -> Errno {
        let mut answer = Errno::NOENT;
        for path in &self.paths {
            // SAFETY: the lists are null-terminated and their strings outlive the call.
            unsafe { libc::execve(path.as_ptr(), self.argv.list.as_ptr(), self.env.list.as_ptr()) };
            let errno = last();
            if !matches!(errno, Errno::NOENT | Errno::NOTDIR) {
                answer = errno;
                if errno != Errno::ACCESS {
                    break;
                }
            }
        }
        answer
    }
}

fn candidates(name: &CStr, env: &[CString]) -> Vec<CString> {
    if name.to_bytes().is_empty() || name.to_bytes().contains(&b'/') {
        return vec![name.to_owned()];
    }
    let path = env.iter().find_map(|entry| entry.to_bytes().strip_prefix(b"PATH="));
    path.unwrap_or(b"/usr/bin:/bin")
        .split(|byte| *byte == b':')
        .filter(|dir| !dir.is_empty())
        .filter_map(|dir| CString::new([dir, b"/", name.to_bytes()].concat()).ok())
        .collect()
}

/// Makes the terminal on descriptor 0 the controlling one of this session.
pub(crate) fn take_terminal() -> Result<()> {
    // SAFETY: TIOCSCTTY takes a number.
    check(unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) } as c_long).map(drop)
}

/// Brings up the loopback interface of the current network namespace.
pub(crate) fn loopback_up() -> Result<()> {
    // SAFETY: plain creation of a socket.
    let socket =
        fd(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) }
            as c_long)?;
    // SAFETY: ifreq is plain data, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = libc::IFF_UP as i16;
    // SAFETY: `request` names an interface and outlives the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) }
        as c_long)
    .map(drop)
}
