//! Responses to system calls that the filter hands to the service.
//!
//! `sysinfo` would show a program the memory of the whole machine, and libc, Java and others size
//! themselves by it: the service answers with the sandbox's own limit. File locks and connections
//! take kernel memory that is charged to no cgroup: the service counts them, and lets the kernel
//! carry out the call or refuses it.
//!
//! The client is hostile, and its other threads can change its memory and its descriptors while it
//! waits. So a call is allowed to proceed ([`Response::Proceed`]) only by facts that cannot change:
//! its number, values in registers, and what the kernel reports about the sandbox as a whole. A
//! `listen` with a longer queue than a sandbox may have is carried out by the service with a
//! shorter one, on the socket that the descriptor refers to at that moment, which is one of the
//! client's own. The only use of the client's memory is the address for the answer to `sysinfo`,
//! which is written through the client's own address space, where a bad address harms only the
//! client.

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

/// Values of the answer to `sysinfo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Memory limit in bytes.
    pub memory: u64,
    /// Unused part of it.
    pub free: u64,
    /// Processes and threads inside.
    pub processes: u16,
    /// Age of the sandbox.
    pub uptime: Duration,
}

/// A system call that waits for its response.
#[derive(Debug)]
pub struct HeldCall {
    id: u64,
    /// Waiting thread, in our own pid namespace.
    pub pid: u32,
    /// Kind of the call.
    pub kind: CallKind,
}

/// Kind of a call, with the arguments that are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// `sysinfo`; the answer is written to this address of the client.
    Memory {
        /// Address in the client's memory.
        address: u64,
    },
    /// `fcntl` with `F_SETLK` or `F_SETLKW`.
    FileLock,
    /// `socket` for an internet protocol, or `connect`.
    Network,
    /// `listen`, on a socket of any family: the descriptor may refer to another one by now.
    Listen {
        /// Descriptor of the client.
        socket: i32,
        /// Requested length of the queue.
        backlog: i32,
    },
    /// A call that our filters do not hand over.
    Unknown,
}

/// Response to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Response {
    /// Returns this information; for [`CallKind::Memory`] only.
    Memory(MemoryInfo),
    /// The kernel carries it out. Only for decisions that the client cannot invalidate meanwhile.
    Proceed,
    /// The service carries it out, with at most this queue length; for [`CallKind::Listen`] only.
    Listen {
        /// Largest queue length.
        max_backlog: i32,
    },
    /// It fails with this error.
    Refuse(Errno),
}

/// Receives one call from a listener that is ready; `None` if the client is gone.
pub fn receive(listener: BorrowedFd<'_>) -> Result<Option<HeldCall>, Errno> {
    // SAFETY: the structure is plain data, and the kernel wants it zeroed.
    let mut asked: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `seccomp_notif`, which is what the pointer is to.
    ioctl(unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE, &raw mut asked) }).or_else(gone)?;
    let kind = match i64::from(asked.data.nr) {
        libc::SYS_sysinfo => CallKind::Memory { address: asked.data.args[0] },
        libc::SYS_fcntl => CallKind::FileLock,
        libc::SYS_socket | libc::SYS_connect => CallKind::Network,
        libc::SYS_listen => CallKind::Listen {
            socket: asked.data.args[0] as i32,
            backlog: asked.data.args[1] as i32,
        },
        _ => CallKind::Unknown,
    };
    Ok((asked.id != 0).then_some(HeldCall { id: asked.id, pid: asked.pid, kind }))
}

/// Responds to a call. A client that is gone is not an error.
pub fn respond(listener: BorrowedFd<'_>, call: &HeldCall, response: Response) -> Result<(), Errno> {
    let outcome = match (response, call.kind) {
        (Response::Proceed, _) => Ok(CONTINUE),
        (Response::Refuse(errno), _) => Err(errno),
        (Response::Memory(facts), CallKind::Memory { address }) => {
            write_memory_info(listener, call, facts, address).map(|()| 0)
        }
        (Response::Listen { max_backlog }, CallKind::Listen { socket, backlog }) => {
            // The kernel treats a negative number as a very large one.
            if (0..=max_backlog).contains(&backlog) {
                Ok(CONTINUE)
            } else {
                listen_for(listener, call, socket, max_backlog).map(|()| 0)
            }
        }
        (Response::Memory(_) | Response::Listen { .. }, _) => Err(Errno::NOSYS),
    };
    let (flags, error) = match outcome {
        Ok(flags) => (flags, 0),
        Err(errno) => (0, -errno.raw_os_error()),
    };
    let answer = libc::seccomp_notif_resp { id: call.id, val: 0, error, flags };
    // SAFETY: the kernel reads one `seccomp_notif_resp`, which is what the pointer is to.
    ioctl(unsafe { libc::ioctl(listener.as_raw_fd(), SEND, &raw const answer) }).or_else(gone)
}

/// Calls `listen` on the socket that the client's descriptor refers to now.
fn listen_for(
    listener: BorrowedFd<'_>,
    call: &HeldCall,
    socket: i32,
    backlog: i32,
) -> Result<(), Errno> {
    let process = process_of(call.pid).ok_or(Errno::NOBUFS)?;
    let process = pidfd_open(process, PidfdFlags::empty())?;
    is_valid(listener, call)?;
    let socket = pidfd_getfd(&process, socket, PidfdGetfdFlags::empty())?;
    rustix::net::listen(&socket, backlog)
}

/// Process of a thread. Its threads share one table of descriptors: the filter refuses calls that
/// would separate them.
fn process_of(thread: u32) -> Option<Pid> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let number = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    Pid::from_raw(number.trim().parse().ok()?)
}

/// Checks that the client still waits; otherwise its ids may have been reused.
fn is_valid(listener: BorrowedFd<'_>, call: &HeldCall) -> Result<(), Errno> {
    // SAFETY: the kernel reads one u64, which is what the pointer is to.
    ioctl(unsafe { libc::ioctl(listener.as_raw_fd(), ID_VALID, &raw const call.id) })
}

/// Opens the client's memory, checks that it is still the client's, then writes.
fn write_memory_info(
    listener: BorrowedFd<'_>,
    call: &HeldCall,
    info: MemoryInfo,
    address: u64,
) -> Result<(), Errno> {
    if call.pid == 0 {
        return Err(Errno::NOSYS);
    }
    let path = format!("/proc/{}/mem", call.pid);
    let memory = std::fs::OpenOptions::new().write(true).open(path).map_err(|_| Errno::NOSYS)?;
    is_valid(listener, call)?;
    let info = info.as_sysinfo();
    // SAFETY: `info` is plain data without padding that matters: it was zeroed as a whole.
    let bytes = unsafe {
        std::slice::from_raw_parts((&raw const info).cast::<u8>(), size_of::<libc::sysinfo>())
    };
    memory.write_all_at(bytes, address).map_err(|_| Errno::FAULT)
}

impl MemoryInfo {
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

/// Accepts the error of a client that was killed while it waited.
fn gone(errno: Errno) -> Result<(), Errno> {
    if errno == Errno::NOENT { Ok(()) } else { Err(errno) }
}
