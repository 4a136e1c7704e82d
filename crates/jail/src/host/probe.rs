//! Attempts in a child process, so that this one stays as it is.

use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use std::ffi::CStr;

/// Failed step of an attempt, with its errno; zero if the child was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) step: Step,
    pub(super) errno: i32,
}

/// The steps of all attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Step {
    Start,
    BecomeOrdinary,
    Unshare,
    MapUser,
    Mount,
    MountProc,
}

const STEPS: [Step; 6] =
    [Step::Start, Step::BecomeOrdinary, Step::Unshare, Step::MapUser, Step::Mount, Step::MountProc];

/// Runs `body` in a child and returns its result.
///
/// # Safety
///
/// This process may have threads. Until it returns, `body` may only make system calls and touch
/// memory that existed before: a lock or the allocator may be held by a thread that the child
/// lacks.
pub(super) unsafe fn in_child(body: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    let at_start = |errno: Errno| Failure { step: Step::Start, errno: errno.raw_os_error() };
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).map_err(at_start)?;
    // SAFETY: the child below only runs `body`, for which the caller is responsible, and system
    // calls.
    match unsafe { libc::fork() } {
        0 => tell_and_exit(&writer, body()),
        -1 => Err(Failure { step: Step::Start, errno: last_errno() }),
        child => {
            drop(writer);
            let answer = listen(&reader);
            reap(child);
            answer
        }
    }
}

/// Result of a system call that returns -1 on failure, with its step.
pub(super) fn check(step: Step, result: libc::c_long) -> Result<(), Failure> {
    if result == -1 { Err(Failure { step, errno: last_errno() }) } else { Ok(()) }
}

/// Writes to an existing file without allocating.
pub(super) fn write_file(step: Step, path: &CStr, content: &[u8]) -> Result<(), Failure> {
    use rustix::fs::{CWD, Mode, OFlags, openat};
    let file = openat(CWD, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
    let written = file.and_then(|file| rustix::io::write(&file, content));
    written.map(drop).map_err(|errno| Failure { step, errno: errno.raw_os_error() })
}

/// Waits for the child with this id only.
pub(super) fn reap(child: libc::pid_t) -> i32 {
    let mut status = 0;
    loop {
        // SAFETY: `status` lives in this frame; `child` is our own and not yet waited for.
        let result = unsafe { libc::waitpid(child, &raw mut status, 0) };
        if result != -1 || last_errno() != libc::EINTR {
            return status;
        }
    }
}

pub(super) fn last_errno() -> i32 {
    // SAFETY: the C library keeps the number in a place of this thread, always valid to read.
    unsafe { *libc::__errno_location() }
}

/// Sends the result as five bytes: the step, then the errno. Success is step zero with errno zero.
fn tell_and_exit(writer: &OwnedFd, outcome: Result<(), Failure>) -> ! {
    let Failure { step, errno } = outcome.err().unwrap_or(Failure { step: Step::Start, errno: 0 });
    let [a, b, c, d] = errno.to_le_bytes();
    let message = [step as u8, a, b, c, d];
    // SAFETY: `message` is five bytes in this frame; `_exit` runs no handler of the parent's.
    unsafe {
        libc::write(writer.as_fd().as_raw_fd(), message.as_ptr().cast(), message.len());
        libc::_exit(0)
    }
}

fn listen(reader: &OwnedFd) -> Result<(), Failure> {
    let mut message = [0; 5];
    let count = loop {
        match rustix::io::read(reader, &mut message[..]) {
            Err(Errno::INTR) => {}
            other => break other.unwrap_or(0),
        }
    };
    let [step, errno @ ..] = message;
    let step = STEPS.get(usize::from(step)).copied().unwrap_or(Step::Start);
    match (count, i32::from_le_bytes(errno)) {
        (5, 0) => Ok(()),
        (5, errno) => Err(Failure { step, errno }),
        _ => Err(Failure { step: Step::Start, errno: 0 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_childs_failure_arrives_whole() {
        for step in STEPS {
            let failure = Failure { step, errno: libc::EPERM };
            // SAFETY: the body only copies a value.
            assert_eq!(unsafe { in_child(|| Err(failure)) }, Err(failure));
        }
        // SAFETY: the body does nothing.
        assert_eq!(unsafe { in_child(|| Ok(())) }, Ok(()));
    }

    #[test]
    fn a_child_that_is_killed_is_a_failure_and_not_a_success() {
        // SAFETY: the body makes one system call, which ends the child.
        let outcome = unsafe {
            in_child(|| {
                libc::kill(libc::getpid(), libc::SIGKILL);
                Ok(())
            })
        };
        assert_eq!(outcome, Err(Failure { step: Step::Start, errno: 0 }));
    }
}
