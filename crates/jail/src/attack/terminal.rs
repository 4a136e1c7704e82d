//! Terminal controls that type into the terminal of another user.

use std::os::fd::{AsRawFd, BorrowedFd};

use super::{Answer, answer};

/// `TIOCSTI`: puts a byte into the terminal's input, as if a person had typed it.
pub fn push_input(terminal: BorrowedFd<'_>) -> Answer {
    let byte = b'#';
    let fd = terminal.as_raw_fd();
    // SAFETY: `byte` outlives the call, which reads one byte.
    answer(i64::from(unsafe { libc::ioctl(fd, libc::TIOCSTI, &raw const byte) }))
}

/// `TIOCLINUX` with a sub-code that does not exist; real ones paste into the console.
pub fn select_console(terminal: BorrowedFd<'_>) -> Answer {
    let code = 0xff_u8;
    let fd = terminal.as_raw_fd();
    // SAFETY: `code` outlives the call, which reads one byte.
    answer(i64::from(unsafe { libc::ioctl(fd, libc::TIOCLINUX, &raw const code) }))
}
