//! Objects whose kernel memory is charged to no cgroup: one of each, and small.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

use super::{Answer, answer, open_socket};

/// Attaches a socket filter of one instruction, which the kernel compiles into executable memory.
pub fn attach_filter() -> Answer {
    let socket = open_socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0)?;
    let mut pass = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: u32::MAX };
    let program = libc::sock_fprog { len: 1, filter: &raw mut pass };
    // SAFETY: `program` and its one instruction outlive the call, which reads both.
    answer(i64::from(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as u32,
        )
    }))
}

/// Sets an option of a socket to these bytes.
pub fn set_option(socket: BorrowedFd<'_>, level: i32, option: i32, value: &[u8]) -> Answer {
    let (fd, length) = (socket.as_raw_fd(), value.len() as u32);
    // SAFETY: the kernel reads the borrowed bytes, which outlive the call. None of the options that
    // the suite names holds a pointer.
    let set = unsafe { libc::setsockopt(fd, level, option, value.as_ptr().cast(), length) };
    answer(i64::from(set))
}

/// Reads an option of a socket that is a number.
pub fn get_option(socket: BorrowedFd<'_>, level: i32, option: i32) -> Answer {
    let (mut value, mut length) = (0_i32, size_of::<i32>() as u32);
    let fd = socket.as_raw_fd();
    // SAFETY: the kernel writes at most `length` bytes to `value`, and both outlive the call.
    let got =
        unsafe { libc::getsockopt(fd, level, option, (&raw mut value).cast(), &raw mut length) };
    answer(i64::from(got)).map(|_| value.into())
}

/// Takes a lease on a file that is open for reading: writers of the file have to wait.
pub fn take_lease(file: BorrowedFd<'_>) -> Answer {
    // SAFETY: both arguments are numbers.
    answer(i64::from(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) }))
}

/// Locks one byte of a file for the open file description, for which lists show no owner.
pub fn lock_open_file(file: BorrowedFd<'_>) -> Answer {
    // SAFETY: the structure is plain data, for which zero is a value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    (lock.l_type, lock.l_len) = (libc::F_RDLCK as i16, 1);
    // SAFETY: `lock` outlives the call, which reads it.
    answer(i64::from(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) }))
}

/// Gives a mapping of this process a name.
pub fn name_mapping() -> Answer {
    const PAGE: usize = 4096;
    let name = c"ringfence";
    // SAFETY: an anonymous mapping at an address of the kernel's choice aliases nothing; the kernel
    // reads the constant name; the mapping is unmapped before any other code sees it.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let page = libc::mmap(std::ptr::null_mut(), PAGE, libc::PROT_READ, flags, -1, 0);
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let kind = libc::PR_SET_VMA_ANON_NAME;
        let named = answer(libc::prctl(libc::PR_SET_VMA, kind, page, PAGE, name.as_ptr()).into());
        libc::munmap(page, PAGE);
        named
    }
}
