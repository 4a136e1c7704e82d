//! PID 1 of a sandbox: starts programs, reaps processes, reports how programs end.
//!
//! It runs behind the same layers as the programs and holds one descriptor, its control socket.
//! When the other side closes it, init ends, and with it everything in its pid namespace.

use std::{
    ffi::CString,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{CWD, Mode, OFlags},
    io::Errno,
};

use crate::{
    SetupError, Stage,
    confine::Locked,
    descendants, processors,
    socket::{self, MAX_FDS, Received},
    stage::At,
    sys::{self, Image, Reaped},
    wire::{Ended, Exec, FromInit, SignalScope, Spent, ToInit},
};

/// Process that an init was before.
pub(crate) enum Origin {
    /// Child of a template, in which every signal has its default action.
    Template,
    /// Child of a zygote, with a worker already forked.
    Zygote { worker: i32 },
}

/// Serves the control socket until its other end closes. Programs see `cpus` processors.
pub(crate) fn serve(control: &OwnedFd, origin: &Origin, cpus: u32) -> ! {
    let (running, reset): (_, fn()) = match origin {
        Origin::Template => (Vec::new(), sys::unblock_signals),
        Origin::Zygote { worker } => (vec![(0, *worker)], sys::reset_signals),
    };
    let mut init = Init { control, running, reaped: 0, setting: StartContext { reset, cpus } };
    let _ = init.run();
    sys::exit_now(0)
}

/// Reports a complete lock-down, handing over the workspace, the descriptor of held calls and the
/// listening sockets.
pub(crate) fn announce(control: &OwnedFd, locked: &Locked) -> Result<(), SetupError> {
    let message = FromInit::Ready(locked.layers);
    let mut fds = vec![locked.workspace.as_fd(), locked.questions.as_fd()];
    fds.extend(locked.listeners.iter().map(AsFd::as_fd));
    let sent = socket::send_with_retries(control.as_fd(), &message, &fds);
    let errno = |error| if let socket::Error::Io(errno) = error { errno } else { Errno::PIPE };
    sent.map_err(errno).at(Stage::HandOver)
}

/// Reports why there is no sandbox, and ends.
pub(crate) fn fail(control: &OwnedFd, error: SetupError) -> ! {
    let _ = socket::send(control.as_fd(), &FromInit::Failed(error), &[]);
    sys::exit_now(1)
}

struct Init<'a> {
    control: &'a OwnedFd,
    /// Number and pid of each running program.
    running: Vec<(u32, i32)>,
    reaped: u32,
    setting: StartContext,
}

/// Settings that are the same for every program of a sandbox.
struct StartContext {
    /// Restores the default action of the signals.
    reset: fn(),
    cpus: u32,
}

impl Init<'_> {
    fn run(&mut self) -> Result<(), socket::Error> {
        let children = sys::child_signals()?;
        // A program that was started before the signal was blocked may have ended already.
        self.reap_all()?;
        loop {
            let mut watched =
                [PollFd::new(self.control, PollFlags::IN), PollFd::new(&children, PollFlags::IN)];
            match poll(&mut watched, None) {
                Err(Errno::INTR) => continue,
                other => other?,
            };
            let [control, child] = watched.map(|fd| !fd.revents().is_empty());
            if child {
                let mut drained = [0; 256];
                let _ = rustix::io::read(&children, &mut drained);
                self.reap_all()?;
            }
            if control {
                let Received { message, fds, .. } = socket::receive(self.control.as_fd())?;
                self.handle_message(message, fds)?;
            }
        }
    }

    fn handle_message(&mut self, message: ToInit, fds: Vec<OwnedFd>) -> Result<(), socket::Error> {
        match message {
            ToInit::Go => Ok(()),
            ToInit::Exec(exec) => self.exec(&exec, fds),
            ToInit::Signal { id, signal, scope } => {
                self.signal(id, signal, scope);
                socket::send_with_retries(self.control.as_fd(), &FromInit::Signalled { id }, &[])
            }
        }
    }

    fn exec(&mut self, exec: &Exec, fds: Vec<OwnedFd>) -> Result<(), socket::Error> {
        let id = exec.id;
        let error = match start(self.control, exec, fds, &self.setting) {
            Ok(Started { pid, terminal }) => {
                let fds: Vec<BorrowedFd<'_>> = terminal.iter().map(AsFd::as_fd).collect();
                let started = FromInit::Started { id, pid };
                match socket::send_with_retries(self.control.as_fd(), &started, &fds) {
                    // The service cannot receive the program's terminal: the program ends, and the
                    // sandbox does not.
                    Err(socket::Error::Io(errno)) => {
                        descendants::signal(pid, libc::SIGKILL, SignalScope::Session);
                        SetupError { stage: Stage::HandOver, errno: errno.raw_os_error() }
                    }
                    sent => {
                        self.running.push((id, pid));
                        return sent;
                    }
                }
            }
            Err(error) => error,
        };
        let not_started = FromInit::NotStarted { id, error };
        socket::send_with_retries(self.control.as_fd(), &not_started, &[])
    }

    fn signal(&self, id: u32, signal: i32, scope: SignalScope) {
        let pid = self.running.iter().find(|(known, _)| *known == id).map(|(_, pid)| *pid);
        if let Some(pid) = pid
            && (1..=64).contains(&signal)
        {
            descendants::signal(pid, signal, scope);
        }
    }

    fn reap_all(&mut self) -> Result<(), socket::Error> {
        while let Some(reaped) = sys::reap() {
            self.reaped += 1;
            if let Some(at) = self.running.iter().position(|(_, pid)| *pid == reaped.pid) {
                let (id, _) = self.running.swap_remove(at);
                let ended = ended(id, &reaped, self.reaped);
                socket::send_with_retries(self.control.as_fd(), &FromInit::Ended(ended), &[])?;
            }
        }
        Ok(())
    }
}

fn ended(id: u32, reaped: &Reaped, processes: u32) -> Ended {
    let all = spent(&sys::children_usage());
    let status = reaped.status;
    Ended {
        id,
        code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
        signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
        user_us: all.user_us,
        system_us: all.system_us,
        max_rss: all.max_rss,
        io_read: all.io_read,
        io_written: all.io_written,
        processes,
        own: spent(&reaped.usage),
    }
}

fn spent(usage: &libc::rusage) -> Spent {
    let micros = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    Spent {
        user_us: micros(usage.ru_utime),
        system_us: micros(usage.ru_stime),
        max_rss: usage.ru_maxrss as u64 * 1024,
        io_read: usage.ru_inblock as u64 * 512,
        io_written: usage.ru_oublock as u64 * 512,
    }
}

struct Started {
    pid: i32,
    terminal: Option<OwnedFd>,
}

fn start(
    control: &OwnedFd,
    exec: &Exec,
    mut fds: Vec<OwnedFd>,
    setting: &StartContext,
) -> Result<Started, SetupError> {
    let part = if exec.joins { Some(fds.pop().ok_or(Errno::INVAL)) } else { None };
    let part = part.transpose().at(Stage::Request)?;
    let program = Program::parse(exec, part).at(Stage::Request)?;
    for (name, content) in &exec.files {
        write_box_file(name, content).at(Stage::Workspace)?;
    }
    let terminal = exec.terminal.map(open_terminal).transpose().at(Stage::Terminals)?;
    let (master, slave) = terminal.unzip();
    let standard = slave.iter().flat_map(|slave| [slave.as_fd(); 3]);
    let all: Vec<BorrowedFd<'_>> = standard.chain(fds.iter().map(AsFd::as_fd)).collect();
    // Above every descriptor number of the program: a failed start is reported on it.
    let answer = rustix::io::fcntl_dupfd_cloexec(control, all.len() as i32);
    let answer = answer.at(Stage::Descriptors)?;
    // The child reports a failed start itself, before the service is told of a process.
    let pid = sys::run_until_exec(&mut || {
        let error = become_program(&program, &all, slave.is_some(), setting);
        let message = FromInit::NotStarted { id: exec.id, error };
        let _ = socket::send(answer.as_fd(), &message, &[]);
        127
    });
    Ok(Started { pid: pid.at(Stage::Fork)?, terminal: master })
}

/// A program with its strings in the kernel's format.
struct Program {
    image: Image,
    cwd: CString,
    /// Part of the cgroup that it joins.
    part: Option<OwnedFd>,
}

impl Program {
    fn parse(exec: &Exec, part: Option<OwnedFd>) -> sys::Result<Self> {
        let strings = |list: &[Vec<u8>]| -> sys::Result<Vec<CString>> {
            list.iter().map(|s| CString::new(s.clone()).map_err(|_| Errno::INVAL)).collect()
        };
        let cwd = CString::new(exec.cwd.clone()).map_err(|_| Errno::INVAL)?;
        Ok(Self { image: Image::new(strings(&exec.argv)?, strings(&exec.env)?)?, cwd, part })
    }
}

impl Program {
    fn join(&self) -> sys::Result<()> {
        self.part.iter().try_for_each(|file| rustix::io::write(file, b"0").map(drop))
    }
}

fn write_box_file(name: &str, content: &[u8]) -> sys::Result<()> {
    if name.contains('/') || name.is_empty() || name == ".." {
        return Err(Errno::INVAL);
    }
    let flags = OFlags::WRONLY
        | OFlags::CREATE
        | OFlags::TRUNC
        | OFlags::CLOEXEC
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK; // A program may have put a FIFO there, which must not hold us.
    let file = rustix::fs::openat(CWD, format!("/box/{name}"), flags, Mode::from_raw_mode(0o644))?;
    let mut rest = content;
    while !rest.is_empty() {
        rest = &rest[rustix::io::write(&file, rest)?..];
    }
    Ok(())
}

/// Both ends of a new terminal in the sandbox's own devpts.
fn open_terminal((rows, columns): (u16, u16)) -> sys::Result<(OwnedFd, OwnedFd)> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let master = rustix::fs::openat(CWD, c"/dev/pts/ptmx", flags, Mode::empty())?;
    rustix::pty::unlockpt(&master)?;
    let name = rustix::pty::ptsname(&master, Vec::new())?;
    let slave = rustix::fs::openat(CWD, &name, flags, Mode::empty())?;
    let size =
        rustix::termios::Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&master, size)?;
    Ok((master, slave))
}

/// Replaces the child by the program; returns only on failure. The child has borrowed its parent's
/// memory, so nothing here allocates or frees.
fn become_program(
    program: &Program,
    fds: &[BorrowedFd<'_>],
    has_terminal: bool,
    setting: &StartContext,
) -> SetupError {
    let attempt = || -> Result<(), SetupError> {
        (setting.reset)();
        // First, so that everything it starts is in the part and can be killed with it.
        program.join().at(Stage::Cgroup)?;
        rustix::process::setsid().at(Stage::Fork)?;
        Moved::above(fds).and_then(Moved::settle).at(Stage::Descriptors)?;
        if has_terminal {
            sys::take_terminal().at(Stage::Terminals)?;
        }
        processors::narrow(setting.cpus).at(Stage::Affinity)?;
        rustix::process::chdir(&program.cwd).at(Stage::WorkingDirectory)
    };
    if let Err(error) = attempt() {
        return error;
    }
    SetupError { stage: Stage::Exec, errno: program.image.exec().raw_os_error() }
}

/// Puts the descriptors at 0, 1, 2, … and marks all others to be closed by `exec`.
pub(crate) fn arrange(fds: Vec<OwnedFd>) -> sys::Result<()> {
    let moved = Moved::above(&fds.iter().map(AsFd::as_fd).collect::<Vec<_>>())?;
    // Closed before others take their numbers.
    drop(fds);
    moved.settle()
}

/// Descriptors to be placed at 0, 1, 2, …: copied to higher numbers first, so that none is
/// overwritten before it is placed.
struct Moved {
    fds: [Option<OwnedFd>; MAX_FDS + 3],
    count: usize,
}

impl Moved {
    fn above(fds: &[BorrowedFd<'_>]) -> sys::Result<Self> {
        let mut moved = Self { fds: [const { None }; MAX_FDS + 3], count: fds.len() };
        if fds.len() > moved.fds.len() {
            return Err(Errno::MFILE);
        }
        for (place, fd) in moved.fds.iter_mut().zip(fds) {
            *place = Some(rustix::io::fcntl_dupfd_cloexec(fd, fds.len() as i32)?);
        }
        Ok(moved)
    }

    fn settle(self) -> sys::Result<()> {
        for (target, fd) in self.fds.iter().flatten().enumerate() {
            // SAFETY: dup2 onto a small number; the descriptor there belonged to a process image
            // that is about to be replaced, and no owner of it is used again.
            if unsafe { libc::dup2(fd.as_raw_fd(), target as i32) } < 0 {
                return Err(Errno::MFILE);
            }
        }
        sys::cloexec_from(self.count as u32)
    }
}

/// First descriptor after standard input, output and error.
const FIRST_KEPT: i32 = 3;

/// Keeps standard input, output and error and, moved to 3, 4, …, the given descriptors; all other
/// inherited ones are closed. [`kept`] returns them.
pub(crate) fn keep_only(fds: Vec<BorrowedFd<'_>>) -> sys::Result<()> {
    let mut moved = Vec::new();
    for fd in &fds {
        moved.push(rustix::io::fcntl_dupfd_cloexec(fd, FIRST_KEPT + fds.len() as i32)?);
    }
    for (index, fd) in moved.iter().enumerate() {
        let target = FIRST_KEPT + index as i32;
        // SAFETY: the descriptor at `target` is inherited from the process we were forked from; its
        // owner lives in memory that this process never returns to.
        if unsafe { libc::dup3(fd.as_raw_fd(), target, libc::O_CLOEXEC) } < 0 {
            return Err(Errno::MFILE);
        }
    }
    std::mem::forget(moved); // Closed with all others in the next step.
    sys::close_from((FIRST_KEPT + fds.len() as i32) as u32)
}

/// The `index`th descriptor that [`keep_only`] kept.
pub(crate) fn kept(index: i32) -> OwnedFd {
    // SAFETY: `keep_only` put it there, and each is fetched once.
    unsafe { OwnedFd::from_raw_fd(FIRST_KEPT + index) }
}

/// Points standard input, output and error at `/dev/null`, so that forked processes inherit nothing
/// of the service's.
pub(crate) fn redirect_to_null() -> sys::Result<()> {
    let null =
        rustix::fs::openat(CWD, c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    for target in 0..3 {
        // SAFETY: the three standard descriptors have no owner in this process.
        if unsafe { libc::dup2(null.as_raw_fd(), target) } < 0 {
            return Err(Errno::MFILE);
        }
    }
    Ok(())
}
