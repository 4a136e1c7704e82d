//! System calls of other architectures, whose numbers mean something else to a careless filter.

use super::Answer;

/// `getpid` by its x32 number.
pub fn x32_call() -> Answer {
    #[cfg(target_arch = "x86_64")]
    {
        const X32: i64 = 0x4000_0000;
        // SAFETY: `getpid` takes no argument in any architecture's table.
        unsafe { super::call!(X32 | libc::SYS_getpid) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    Err(std::io::Error::from_raw_os_error(libc::ENOSYS))
}

/// `getpid` by the i386 gate (`int 0x80`), where 20 is its number and `writev` that of x86-64.
///
/// A kernel without the gate ends the caller with SIGSEGV, so call it in a child.
pub fn i386_call() -> Answer {
    #[cfg(target_arch = "x86_64")]
    {
        let result: i64;
        // SAFETY: `getpid` reads and writes no memory; the gate keeps every register but `rax` and,
        // on old kernels, r8 to r11, which are declared as clobbered.
        unsafe {
            std::arch::asm!(
                "int 0x80",
                inlateout("rax") 20_i64 => result,
                out("r8") _, out("r9") _, out("r10") _, out("r11") _,
                options(nostack),
            );
        }
        let result = i64::from(result as i32);
        if result < 0 {
            return Err(std::io::Error::from_raw_os_error(-result as i32));
        }
        Ok(result)
    }
    #[cfg(not(target_arch = "x86_64"))]
    Err(std::io::Error::from_raw_os_error(libc::ENOSYS))
}
