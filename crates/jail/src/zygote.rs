//! Interpreters that are started ahead, and the sandboxes forked from them.
//!
//! A zygote loads libraries, and perhaps a skill's own code, so it is not trusted: it lives in its
//! own user, pid, mount, network, ipc and uts namespaces under a filter, with capabilities only
//! over those namespaces. That is just enough to give each child fresh ones. The child locks itself
//! down by the same code as every other sandbox before it reads its first job.

use std::{
    ffi::CString,
    mem::ManuallyDrop,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use rustix::{
    fs::{CWD, Mode as FileMode, OFlags},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
};

use crate::{
    SetupError, Stage, confine, init, processors,
    seccomp::{Filter, Profile},
    socket::{self, Received},
    stage::At,
    sys::{self, Forked, Image, attr},
    template,
    wire::{ForkRequest, FromInit, Join, ToInit},
};

/// Start parameters of a zygote.
pub(crate) struct Start {
    pub(crate) uid: u32,
    pub(crate) ids: u32,
    pub(crate) argv: Vec<Vec<u8>>,
    pub(crate) env: Vec<Vec<u8>>,
}

/// Starts a zygote from a template. Descriptors: its control socket (3 inside), standard input and
/// error.
pub(crate) fn spawn(
    start: Start,
    join: Join,
    mut fds: Vec<OwnedFd>,
    filter: &Filter,
) -> Result<OwnedFd, SetupError> {
    if fds.len() < 3 {
        return Err(Errno::INVAL).at(Stage::Request);
    }
    let cgroup = fds.split_off(3);
    let (born_into, procs) = template::joining(join, cgroup).at(Stage::Request)?;
    let (wait, go) = pipe_with(PipeFlags::CLOEXEC).at(Stage::Zygote)?;
    let flags = sys::BIRTH_NAMESPACES | libc::CLONE_NEWUSER | libc::CLONE_NEWNET;
    match sys::clone3(flags, born_into.as_ref().map(AsFd::as_fd)).at(Stage::Clone)? {
        Forked::Child => {
            drop(go);
            let joined = template::join_all(&procs).at(Stage::Cgroup);
            let error =
                joined.map_or_else(|error| error, |()| become_zygote(&start, &fds, &wait, filter));
            let _ = socket::send(fds[0].as_fd(), &FromInit::Failed(error), &[]);
            sys::exit_now(1)
        }
        Forked::Parent { pid, pidfd } => {
            map_child(pid, start.uid, start.ids).at(Stage::IdMaps)?;
            rustix::io::write(&go, b"1").at(Stage::IdMaps)?;
            Ok(pidfd)
        }
    }
}

/// Maps the zygote's uid 0 to an unprivileged id outside, and the next ids to those of its
/// children.
fn map_child(pid: i32, outside: u32, ids: u32) -> sys::Result<()> {
    let map = format!("0 {outside} {ids}");
    for (file, content) in [("setgroups", "deny"), ("uid_map", &map), ("gid_map", &map)] {
        let path = CString::new(format!("/proc/{pid}/{file}")).map_err(|_| Errno::INVAL)?;
        confine::write_file(&path, content.as_bytes())?;
    }
    Ok(())
}

/// Runs in the child: becomes root of its own namespaces and runs the interpreter. Returns on
/// failure.
fn become_zygote(start: &Start, fds: &[OwnedFd], wait: &OwnedFd, filter: &Filter) -> SetupError {
    let attempt = || -> Result<Image, SetupError> {
        let mut byte = [0];
        if rustix::io::read(wait, &mut byte) != Ok(1) {
            return Err(Errno::PIPE).at(Stage::IdMaps);
        }
        own_ids().at(Stage::Ids)?;
        sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64, 0).at(Stage::Clone)?;
        sys::unshare(libc::CLONE_NEWCGROUP).at(Stage::CgroupNamespace)?;
        own_proc().at(Stage::Proc)?;
        sys::sethostname(b"zygote").at(Stage::Hostname)?;
        confine::no_core_dumps().at(Stage::Rlimits)?;
        sys::reset_signals();
        // Python handles SIGINT, and would end with it while calls run below.
        sys::block_end_requests();
        rustix::process::setsid().at(Stage::Zygote)?;
        settle(fds).at(Stage::Descriptors)?;
        sys::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0).at(Stage::NoNewPrivs)?;
        filter.install().at(Stage::Seccomp)?;
        let strings = |list: &[Vec<u8>]| -> Result<Vec<CString>, SetupError> {
            let parsed: Result<Vec<_>, _> = list.iter().cloned().map(CString::new).collect();
            parsed.map_err(|_| Errno::INVAL).at(Stage::Request)
        };
        Image::new(strings(&start.argv)?, strings(&start.env)?).at(Stage::Request)
    };
    let errno = match attempt() {
        Ok(image) => image.exec(),
        Err(error) => return error,
    };
    SetupError { stage: Stage::Exec, errno: errno.raw_os_error() }
}

/// Takes the mapped ids: until here our ids outside are still those of the template.
fn own_ids() -> sys::Result<()> {
    // SAFETY: takes no pointers; acts on the only thread.
    let failed = unsafe {
        libc::syscall(libc::SYS_setresgid, 0, 0, 0) < 0
            || libc::syscall(libc::SYS_setresuid, 0, 0, 0) < 0
    };
    if failed { Err(Errno::PERM) } else { Ok(()) }
}

/// Mounts our own `/proc` over the template's, which cannot be unmounted in here.
fn own_proc() -> sys::Result<()> {
    let fs = sys::fsopen(c"proc")?;
    let mount = sys::fsmount(&fs, attr::NOSUID | attr::NODEV | attr::NOEXEC)?;
    sys::move_mount(&mount, c"/proc")
}

/// Standard input and error as given, output on `/dev/null`, the control socket at 3.
fn settle(fds: &[OwnedFd]) -> sys::Result<()> {
    let [control, stdin, stderr] = fds else { return Err(Errno::INVAL) };
    let null =
        rustix::fs::openat(CWD, c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, FileMode::empty())?;
    let dup = |fd: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd, 3);
    init::arrange(vec![
        dup(stdin.as_fd())?,
        dup(null.as_fd())?,
        dup(stderr.as_fd())?,
        dup(control.as_fd())?,
    ])
}

/// Result of [`next`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// This is the zygote, and a child was made.
    Made,
    /// This is the child's worker: locked down, with standard input, output and error at 0 to 2,
    /// the result channel at 3 and the job channel at 4.
    Worker {
        /// Whether its job waits already.
        at_once: bool,
    },
    /// The service is gone or sent an invalid message: end.
    Stop,
}

/// Waits for a request for a child, and makes it. Called by the interpreter, which must have one
/// thread.
pub fn next(control: BorrowedFd<'_>) -> Next {
    static PROGRAM: OnceLock<Filter> = OnceLock::new();
    static LOOPBACK: OnceLock<Filter> = OnceLock::new();
    static NETWORK: AtomicBool = AtomicBool::new(false);
    let program = PROGRAM.get_or_init(|| Filter::compile(Profile::Program));
    if !NETWORK.swap(true, Ordering::Relaxed) && template::fresh_network().is_err() {
        return Next::Stop;
    }
    sys::ignore_children();
    let Ok(Received { message, fds, .. }) = socket::receive::<ForkRequest>(control) else {
        return Next::Stop;
    };
    if fds.len() != KEPT + message.join as usize {
        return Next::Stop;
    }
    let filter = match message.confine.loopback {
        true => LOOPBACK.get_or_init(|| Filter::compile(Profile::Loopback)),
        false => program,
    };
    match sys::clone3(sys::BIRTH_NAMESPACES, None) {
        Ok(Forked::Child) => become_child(&message, fds, filter),
        Ok(Forked::Parent { .. }) => {
            NETWORK.store(false, Ordering::Relaxed);
            if template::fresh_network().is_ok() {
                NETWORK.store(true, Ordering::Relaxed);
            }
            Next::Made
        }
        Err(errno) => {
            let error = SetupError { stage: Stage::Clone, errno: errno.raw_os_error() };
            let _ = socket::send(fds[0].as_fd(), &FromInit::Failed(error), &[]);
            Next::Made
        }
    }
}

/// Descriptors of a request that the child keeps: control socket, streams and channels.
const KEPT: usize = 6;

/// Runs in the child: returns in the worker only.
fn become_child(request: &ForkRequest, mut fds: Vec<OwnedFd>, filter: &Filter) -> Next {
    sys::reset_child_signal();
    // The service checks this before it lets us go on; if it failed, the service moves us itself.
    let _ = template::join_all(&fds.split_off(KEPT));
    if init::keep_only(fds.iter().map(AsFd::as_fd).collect()).is_err() {
        sys::exit_now(1);
    }
    // From here on these numbers refer to other descriptors, which dropping the owners would close.
    std::mem::forget(fds);
    let control = ManuallyDrop::new(init::kept(0));
    let forked = join(&control)
        .and_then(|()| confine::lock_down(&request.confine, filter))
        .and_then(|locked| init::announce(&control, &locked))
        .and_then(|()| sys::fork().at(Stage::Fork));
    match forked {
        Err(error) => init::fail(&control, error),
        Ok(Some(pid)) => {
            for index in 1..6 {
                drop(init::kept(index));
            }
            init::serve(&control, &init::Origin::Zygote { worker: pid }, request.confine.cpus)
        }
        Ok(None) => {
            CPUS.store(request.confine.cpus, Ordering::Relaxed);
            become_worker(request.at_once)
        }
    }
}

/// Number of processors of the worker's program; set in the worker.
static CPUS: AtomicU32 = AtomicU32::new(0);

/// Sends a hello and waits until the service has seen us in our cgroup.
fn join(control: &OwnedFd) -> Result<(), SetupError> {
    let said = socket::send(control.as_fd(), &FromInit::Hello, &[]);
    let heard = said.and_then(|()| socket::receive::<ToInit>(control.as_fd()));
    match heard {
        Ok(Received { message: ToInit::Go, .. }) => Ok(()),
        _ => Err(Errno::PIPE).at(Stage::Cgroup),
    }
}

/// Descriptors 4 to 8 become 0 to 4; the control socket and all others are closed. Unlike its init
/// the worker is dumpable, as every program is after `exec`: otherwise `/proc/self` would belong to
/// the zygote's user.
fn become_worker(at_once: bool) -> Next {
    let settled = rustix::process::setsid()
        .and_then(|_| sys::prctl(libc::PR_SET_DUMPABLE, 1, 0))
        .map(drop)
        .and_then(|()| init::arrange((1..6).map(init::kept).collect()))
        .and_then(|()| sys::close_from(5));
    if settled.is_err() {
        sys::exit_now(127);
    }
    // Signals that the zygote blocked are unblocked for the program.
    sys::clear_signal_mask();
    Next::Worker { at_once }
}

/// [`next`] for an interpreter: 1 for a child made, -1 to stop; in the worker 0, or 2 if its job
/// waits.
#[unsafe(no_mangle)]
pub extern "C" fn rf_zygote_next(control: i32) -> i32 {
    // SAFETY: the caller owns this descriptor and keeps it open while it calls us.
    let control = unsafe { BorrowedFd::borrow_raw(control) };
    match next(control) {
        Next::Made => 1,
        Next::Worker { at_once: false } => 0,
        Next::Worker { at_once: true } => 2,
        Next::Stop => -1,
    }
}

/// Restricts a worker's interpreter to its program's processors once its job has come. Returns 0 on
/// success, else an errno.
#[unsafe(no_mangle)]
pub extern "C" fn rf_zygote_narrow() -> i32 {
    processors::narrow(CPUS.load(Ordering::Relaxed)).map_or_else(Errno::raw_os_error, |()| 0)
}
