//! Installation of a compiled filter.

use super::Filter;
use rustix::io::Errno;
use std::os::fd::{FromRawFd, OwnedFd};

impl Filter {
    /// Puts the calling thread, and all it will start, under this filter irrevocably.
    ///
    /// Exactly one system call and no allocation, so it can be used between `fork` and `exec`. The
    /// caller has set `no_new_privs`; without it, or `CAP_SYS_ADMIN`, the kernel answers `EACCES`.
    /// Other threads of the process are *not* covered: install while there is only one.
    ///
    /// Calls with [`Action::Ask`](super::Action::Ask) are answered as not implemented, because
    /// there is no listener.
    pub fn install(&self) -> Result<(), Errno> {
        self.set(0).map(drop)
    }

    /// Installs it and returns the descriptor of the calls that the service answers.
    pub fn install_listening(&self) -> Result<OwnedFd, Errno> {
        let listener = self.set(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER)?;
        // SAFETY: with this flag the kernel returns a new descriptor, which is ours alone.
        Ok(unsafe { OwnedFd::from_raw_fd(listener as i32) })
    }

    fn set(&self, flags: libc::c_ulong) -> Result<i64, Errno> {
        let len = u16::try_from(self.instructions.len()).map_err(|_| Errno::INVAL)?;
        let program = libc::sock_fprog { len, filter: self.instructions.as_ptr().cast_mut() };
        // SAFETY: `program` and the `len` instructions it points to are borrowed for the whole
        // call, and the kernel copies them without writing, so the `cast_mut` is never used.
        let result = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags,
                &raw const program,
            )
        };
        if result < 0 { Err(last_errno()) } else { Ok(result) }
    }
}

fn last_errno() -> Errno {
    // SAFETY: `__errno_location` returns this thread's own `errno`, valid while the thread lives.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}
