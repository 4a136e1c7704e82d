//! Attacks on other processes: starting, tracing, reading, signalling.

use std::{
    io,
    os::fd::{AsFd, FromRawFd, OwnedFd},
};

pub use rustix::process::Pid;
use rustix::process::{WaitOptions, WaitStatus, waitpid};

use super::{Answer, answer, call};

/// End of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildEnd {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// `fork` without handlers; `None` in the child.
///
/// For the attack role only: with a second thread the child could find a lock held for ever.
pub fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: the role has a single thread, so no lock is held by a thread the child lacks.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Pid::from_raw(pid))
}

/// Waits for one child.
pub fn wait(child: Pid) -> io::Result<ChildEnd> {
    loop {
        match waitpid(Some(child), WaitOptions::empty()) {
            Ok(Some((_, status))) => return Ok(ended(status)),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn ended(status: WaitStatus) -> ChildEnd {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => ChildEnd::Code(code),
        (None, signal) => ChildEnd::Signal(signal.unwrap_or(0)),
    }
}

/// Seizes a process as a debugger and lets it go.
pub fn trace(target: Pid) -> Answer {
    let pid = target.as_raw_nonzero().get();
    // SAFETY: PTRACE_SEIZE and PTRACE_DETACH read no memory of this process.
    answer(unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid, 0, 0) })?;
    // A running tracee cannot be detached; it is freed when this process ends, which is soon.
    // SAFETY: as above.
    unsafe { libc::ptrace(libc::PTRACE_DETACH, pid, 0, 0) };
    Ok(0)
}

/// Asks the parent to be this process's debugger.
pub fn trace_me() -> Answer {
    // SAFETY: PTRACE_TRACEME uses no argument.
    answer(unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) })
}

/// Copies `buffer.len()` bytes at `address` of another process.
pub fn read_memory(target: Pid, address: usize, buffer: &mut [u8]) -> Answer {
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let remote = libc::iovec { iov_base: address as *mut _, iov_len: buffer.len() };
    let pid = target.as_raw_nonzero().get();
    // SAFETY: the kernel writes at most `buffer.len()` bytes into the exclusively borrowed
    // `buffer`; the remote address is checked by the kernel.
    answer(unsafe { libc::process_vm_readv(pid, &local, 1, &remote, 1, 0) } as i64)
}

/// Writes `bytes` at `address` of a child made by [`fork`], whose copy of the memory is its own.
pub fn write_memory(target: Pid, address: usize, bytes: &[u8]) -> Answer {
    let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: address as *mut _, iov_len: bytes.len() };
    let pid = target.as_raw_nonzero().get();
    assert_ne!(pid, std::process::id().cast_signed(), "the target is another process");
    // SAFETY: the kernel only reads the borrowed `bytes`, and what it writes is another process's
    // memory, as just asserted.
    answer(unsafe { libc::process_vm_writev(pid, &local, 1, &remote, 1, 0) } as i64)
}

/// Takes a descriptor out of another process.
pub fn steal_descriptor(target: Pid, number: i32) -> io::Result<OwnedFd> {
    let pid = target.as_raw_nonzero().get();
    // SAFETY: takes no pointer.
    let process = unsafe { call!(libc::SYS_pidfd_open, pid, 0) }?;
    // SAFETY: the kernel just gave this descriptor to us alone.
    let process = unsafe { OwnedFd::from_raw_fd(process as i32) };
    let raw = std::os::fd::AsRawFd::as_raw_fd(&process.as_fd());
    // SAFETY: takes no pointer.
    let stolen = unsafe { call!(libc::SYS_pidfd_getfd, raw, number, 0) }?;
    // SAFETY: the kernel just gave this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(stolen as i32) })
}

/// `kill(-1, signal)`: all processes that this one may signal. Signal 0 only checks.
pub fn signal_all(signal: i32) -> Answer {
    // SAFETY: takes no pointer.
    answer(i64::from(unsafe { libc::kill(-1, signal) }))
}

/// `kill(pid, signal)`.
pub fn send_signal(pid: i32, signal: i32) -> Answer {
    // SAFETY: takes no pointer.
    answer(i64::from(unsafe { libc::kill(pid, signal) }))
}

/// `tgkill(pid, pid, signal)`.
pub fn signal_thread(pid: i32, signal: i32) -> Answer {
    // SAFETY: takes no pointer.
    unsafe { call!(libc::SYS_tgkill, pid, pid, signal) }
}

/// `rt_sigqueueinfo(pid, signal)` with a sender's note.
pub fn queue_signal(pid: i32, signal: i32) -> Answer {
    let mut note = [0_i32; 32];
    (note[0], note[2]) = (signal, -1);
    // SAFETY: `note` is 128 bytes, the size of `siginfo_t`, and outlives the call.
    unsafe { call!(libc::SYS_rt_sigqueueinfo, pid, signal, note.as_ptr()) }
}

/// Blocks every signal that can be blocked, for this process and its later children.
pub fn block_signals() {
    // SAFETY: `every` is initialised by `sigfillset` before it is read, and outlives both calls.
    unsafe {
        let mut every = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(every.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, every.as_ptr(), std::ptr::null_mut());
    }
}

/// Closes standard input, as a program without input does.
pub fn close_input() {
    // SAFETY: descriptor 0 has no owner in Rust; the role reads no input afterwards.
    unsafe { libc::close(0) };
}

/// Replaces the standard streams by `/dev/null` (or closes them), so that a reader sees their end.
pub fn detach_streams() {
    // SAFETY: the path is a constant; descriptors 0 to 2 have no owner in Rust, and what takes
    // their numbers here is `/dev/null`.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        for stream in 0..3 {
            if null < 0 || libc::dup2(null, stream) < 0 {
                libc::close(stream);
            }
        }
    }
}
