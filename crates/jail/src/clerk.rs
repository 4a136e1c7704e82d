//! Decides about a sandbox's calls in the kernel's place.
//!
//! The filter hands a few calls to the service. `sysinfo` would tell a program the memory of the
//! whole machine, and libc, Java and others size themselves by it: the service answers with the
//! sandbox's own limit. File locks and connections take kernel memory that is charged to nobody: the
//! service counts them, and lets the kernel carry out the call or refuses it.
//!
//! The asker is hostile, and other threads of it change its memory and its descriptors while it
//! waits. So a call is allowed to go on ([`Answer::Proceed`]) only by what cannot change any more:
//! its number, values in registers, and what the kernel tells about the sandbox as a whole. A `listen`
//! for a longer queue than a sandbox may have is carried out by the service with a shorter one, on
//! whatever socket the descriptor is at that moment: it is one of the asker's own. The
//! one thing used of an asker's memory is the address for the answer to `sysinfo`, which is written
//! to through the asker's own memory, where a bad address harms it alone.

use std::{
    os::{
        fd::{AsRawFd, BorrowedFd},
        unix::fs::FileExt,
    },
    time::Duration,
};

use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open},
};

const RECEIVE: libc::c_ulong = 0xc050_2100; // SECCOMP_IOCTL_NOTIF_RECV
const SEND: libc::c_ulong = 0xc018_2101; // SECCOMP_IOCTL_NOTIF_SEND
const ID_VALID: libc::c_ulong = 0x4008_2102; // SECCOMP_IOCTL_NOTIF_ID_VALID
const CONTINUE: u32 = 1; // SECCOMP_USER_NOTIF_FLAG_CONTINUE

/// What the sandbox is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Its memory limit in bytes.
    pub memory: u64,
    /// The part of it that is not used.
    pub free: u64,
    /// Processes and threads inside.
    pub processes: u16,
    /// How long it has been there.
    pub uptime: Duration,
}

/// A call that waits for its answer.
#[derive(Debug)]
pub struct Question {
    id: u64,
    /// The thread that waits, by its number in our own pid namespace.
    pub pid: u32,
    /// What is asked.
    pub subject: Subject,
}

/// What a call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// `sysinfo`; the answer goes to this address of the asker.
    Memory {
        /// Where the asker wants it.
        address: u64,
    },
    /// `fcntl` with `F_SETLK` or `F_SETLKW`.
    FileLock,
    /// `socket` for an internet protocol, or `connect`.
    Network,
    /// `listen`, on a socket of any family: the descriptor can mean another one by now.
    Listen {
        /// The asker's descriptor.
        socket: i32,
        /// How many connections may wait, as the asker wants it.
        backlog: i32,
    },
    /// A call that no filter of ours asks about.
    Unknown,
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It returns these facts. Of [`Subject::Memory`] only.
    Memory(Facts),
    /// The kernel carries it out. Only for decisions that the asker cannot undo meanwhile.
    Proceed,
    /// The service carries it out, with at most this many connections waiting. Of
    /// [`Subject::Listen`] only.
    Listen {
        /// The most that may wait.
        max_backlog: i32,
    },
    /// It fails with this error.
    Refuse(Errno),
}

/// Takes one question from a listener that is ready; none if the asker is gone by then.
pub fn receive(listener: BorrowedFd<'_>) -> Result<Option<Question>, Errno> {
    // SAFETY: the structure is plain data, and the kernel wants it zeroed.
    let mut asked: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `seccomp_notif`, which is what the pointer is to.
    ioctl(unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE, &raw mut asked) }).or_else(gone)?;
    let subject = match i64::from(asked.data.nr) {
        libc::SYS_sysinfo => Subject::Memory { address: asked.data.args[0] },
        libc::SYS_fcntl => Subject::FileLock,
        libc::SYS_socket | libc::SYS_connect => Subject::Network,
        libc::SYS_listen => Subject::Listen {
            socket: asked.data.args[0] as i32,
            backlog: asked.data.args[1] as i32,
        },
        _ => Subject::Unknown,
    };
    Ok((asked.id != 0).then_some(Question { id: asked.id, pid: asked.pid, subject }))
}

/// Answers a question. An asker that is gone by then is no error.
pub fn answer(listener: BorrowedFd<'_>, question: &Question, answer: Answer) -> Result<(), Errno> {
    let outcome = match (answer, question.subject) {
        (Answer::Proceed, _) => Ok(CONTINUE),
        (Answer::Refuse(errno), _) => Err(errno),
        (Answer::Memory(facts), Subject::Memory { address }) => {
            write_facts(listener, question, facts, address).map(|()| 0)
        }
        (Answer::Listen { max_backlog }, Subject::Listen { socket, backlog }) => {
            // The kernel takes a negative number for a very large one.
            if (0..=max_backlog).contains(&backlog) {
                Ok(CONTINUE)
            } else {
                listen_for(listener, question, socket, max_backlog).map(|()| 0)
            }
        }
        (Answer::Memory(_) | Answer::Listen { .. }, _) => Err(Errno::NOSYS),
    };
    let (flags, error) = match outcome {
        Ok(flags) => (flags, 0),
        Err(errno) => (0, -errno.raw_os_error()),
    };
    let answer = libc::seccomp_notif_resp { id: question.id, val: 0, error, flags };
    // SAFETY: the kernel reads one `seccomp_notif_resp`, which is what the pointer is to.
    ioctl(unsafe { libc::ioctl(listener.as_raw_fd(), SEND, &raw const answer) }).or_else(gone)
}

/// Calls `listen` on the socket that the asker's descriptor is now.
fn listen_for(
    listener: BorrowedFd<'_>,
    question: &Question,
    socket: i32,
    backlog: i32,
) -> Result<(), Errno> {
    let process = process_of(question.pid).ok_or(Errno::NOBUFS)?;
    let process = pidfd_open(process, PidfdFlags::empty())?;
    is_valid(listener, question)?;
    let socket = pidfd_getfd(&process, socket, PidfdGetfdFlags::empty())?;
    rustix::net::listen(&socket, backlog)
}

/// The process that a thread belongs to. Its threads share one table of descriptors: the filter
/// refuses what would part them.
fn process_of(thread: u32) -> Option<Pid> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let number = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    Pid::from_raw(number.trim().parse().ok()?)
}

/// Whether the asker still waits; if not, its numbers may be another's.
fn is_valid(listener: BorrowedFd<'_>, question: &Question) -> Result<(), Errno> {
    // SAFETY: the kernel reads one u64, which is what the pointer is to.
    ioctl(unsafe { libc::ioctl(listener.as_raw_fd(), ID_VALID, &raw const question.id) })
}

/// Opens the asker's memory, makes sure that it is still the asker's, then writes.
fn write_facts(
    listener: BorrowedFd<'_>,
    question: &Question,
    facts: Facts,
    address: u64,
) -> Result<(), Errno> {
    if question.pid == 0 {
        return Err(Errno::NOSYS);
    }
    let path = format!("/proc/{}/mem", question.pid);
    let memory = std::fs::OpenOptions::new().write(true).open(path).map_err(|_| Errno::NOSYS)?;
    is_valid(listener, question)?;
    let info = facts.as_sysinfo();
    // SAFETY: `info` is plain data without padding that matters: it was zeroed as a whole.
    let bytes = unsafe {
        std::slice::from_raw_parts((&raw const info).cast::<u8>(), size_of::<libc::sysinfo>())
    };
    memory.write_all_at(bytes, address).map_err(|_| Errno::FAULT)
}

impl Facts {
    fn as_sysinfo(self) -> libc::sysinfo {
        // SAFETY: the structure is plain data, for which zero is a value.
        let mut info: libc::sysinfo = unsafe { std::mem::zeroed() };
        info.uptime = self.uptime.as_secs().cast_signed();
        info.totalram = self.memory;
        info.freeram = self.free;
        info.procs = self.processes;
        info.mem_unit = 1;
        info
    }
}

fn ioctl(result: libc::c_int) -> Result<(), Errno> {
    if result >= 0 {
        return Ok(());
    }
    let raw = std::io::Error::last_os_error().raw_os_error();
    Err(Errno::from_raw_os_error(raw.unwrap_or(libc::EIO)))
}

/// The asker was killed while it waited.
fn gone(errno: Errno) -> Result<(), Errno> {
    if errno == Errno::NOENT { Ok(()) } else { Err(errno) }
}
