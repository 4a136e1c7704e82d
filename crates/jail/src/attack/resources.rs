//! Limited resources of the kernel, taken up to a bound that the caller sets.

use std::{
    ffi::CString,
    fs::File,
    io,
    os::fd::{FromRawFd, OwnedFd},
    os::unix::fs::FileExt,
};

use super::{Answer, answer, call};

const PAGE: usize = 4096;

/// Ends this process after so many seconds, even if it hangs.
pub fn die_after(seconds: u32) {
    // SAFETY: takes no pointer; the default action of SIGALRM ends the process.
    unsafe { libc::alarm(seconds) };
}

/// Maps memory and writes to every page of it; returns the number of bytes touched.
pub fn touch_pages(bytes: usize) -> io::Result<usize> {
    // SAFETY: an anonymous mapping at an address of the kernel's choice aliases nothing.
    let base = unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0)
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping of `bytes` bytes was made above and belongs to this frame until unmapped.
    unsafe {
        write_pages(base.cast(), bytes);
        libc::munmap(base, bytes);
    }
    Ok(bytes)
}

/// # Safety
/// `base` must be valid for writes of `bytes` bytes.
unsafe fn write_pages(base: *mut u8, bytes: usize) {
    for offset in (0..bytes).step_by(PAGE) {
        // SAFETY: `offset < bytes`; volatile, so that the otherwise unused write is not optimised
        // away.
        unsafe { base.add(offset).write_volatile(1) };
    }
}

/// Fills a System V segment, removed from the table before it is used, so that it dies with us.
pub fn hold_shared_segment(bytes: usize) -> io::Result<usize> {
    // SAFETY: the segment is private and new; the address comes from the kernel and is detached
    // before return; `write_pages` stays within the size the segment was made with.
    unsafe {
        let id = libc::shmget(libc::IPC_PRIVATE, bytes, 0o600);
        answer(i64::from(id))?;
        let base = libc::shmat(id, std::ptr::null(), 0);
        libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut());
        if base as isize == -1 {
            return Err(io::Error::last_os_error());
        }
        write_pages(base.cast(), bytes);
        libc::shmdt(base);
    }
    Ok(bytes)
}

/// Makes up to `most` timers; returns their number, and the error that stopped it.
pub fn create_timers(most: usize) -> (usize, Option<io::Error>) {
    for made in 0..most {
        let mut id = 0_i32;
        // SAFETY: a null event means the default signal; `id` is the word the kernel writes.
        let made_one =
            unsafe { call!(libc::SYS_timer_create, libc::CLOCK_MONOTONIC, 0, &raw mut id) };
        if let Err(error) = made_one {
            return (made, Some(error));
        }
    }
    (most, None)
}

/// Opens up to `most` message queues, each unlinked at once; also returns the error that stopped
/// it.
pub fn hold_message_queues(most: usize) -> (Vec<OwnedFd>, Option<io::Error>) {
    let mut queues = Vec::new();
    for number in 0..most {
        match message_queue(number) {
            Ok(queue) => queues.push(queue),
            Err(error) => return (queues, Some(error)),
        }
    }
    (queues, None)
}

fn message_queue(number: usize) -> io::Result<OwnedFd> {
    let name = CString::new(format!("ringfence-{}-{number}", std::process::id()))?;
    let attributes = [0_i64, 1, 1, 0, 0, 0, 0, 0];
    // SAFETY: `name` and `attributes` (the size of `mq_attr`) outlive the calls.
    unsafe {
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
        let queue = call!(libc::SYS_mq_open, name.as_ptr(), flags, 0o600, attributes.as_ptr(),)?;
        libc::syscall(libc::SYS_mq_unlink, name.as_ptr());
        Ok(OwnedFd::from_raw_fd(queue as i32))
    }
}

/// `socket` with numbers, for families and protocols without a name in libraries.
pub fn open_socket(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes no pointer.
    let fd =
        answer(i64::from(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) }))?;
    // SAFETY: the kernel just gave this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// The descriptors below `most` that are open in this process.
pub fn open_descriptors(most: i32) -> Vec<i32> {
    // SAFETY: F_GETFD takes no pointer and changes nothing.
    (0..most).filter(|fd| unsafe { libc::fcntl(*fd, libc::F_GETFD) } >= 0).collect()
}

/// Number of processors that `sysconf(_SC_NPROCESSORS_ONLN)` reports.
pub fn online_processors() -> Answer {
    // SAFETY: takes no pointer.
    answer(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) })
}

/// Physical page number that the kernel shows for a page of this process; 0 if it hides it.
pub fn physical_page() -> io::Result<u64> {
    let page = vec![1_u8; 2 * PAGE];
    let index = (page.as_ptr() as u64).div_ceil(PAGE as u64);
    let pagemap = File::open("/proc/self/pagemap")?;
    let mut entry = [0_u8; 8];
    pagemap.read_exact_at(&mut entry, index * 8)?;
    std::hint::black_box(&page);
    Ok(u64::from_ne_bytes(entry) & ((1 << 55) - 1))
}
