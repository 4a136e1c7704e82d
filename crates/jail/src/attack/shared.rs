//! Resources that the host shares with all processes that can name them.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

use super::{Answer, answer};

/// The usual size of a huge page.
const HUGE_PAGE: usize = 2 << 20;

/// Takes one page from the host's pool of huge pages, and gives it back.
pub fn map_huge_page() -> Answer {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB;
    // SAFETY: an anonymous mapping at an address of the kernel's choice aliases nothing.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), HUGE_PAGE, protection, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping was made above, and no reference to it exists.
    answer(i64::from(unsafe { libc::munmap(page, HUGE_PAGE) }))
}

// libc does not name these.
const F_SETSIG: i32 = 10;
const DN_ACCESS: i32 = 1;

/// Requests a signal whenever a process reads a file of the directory.
pub fn notice_readers(directory: BorrowedFd<'_>) -> Answer {
    // SAFETY: both arguments are numbers. The signal's default action would end this process, so
    // the request is for a signal that is ignored by default.
    unsafe {
        answer(i64::from(libc::fcntl(directory.as_raw_fd(), F_SETSIG, libc::SIGURG)))?;
        answer(i64::from(libc::fcntl(directory.as_raw_fd(), libc::F_NOTIFY, DN_ACCESS)))
    }
}
