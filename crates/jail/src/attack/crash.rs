//! A process that crashes, to find out whether the kernel stores or passes on its memory.

use std::io;

use super::fork;

/// Core size limit that the crashing process sets first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoreLimit {
    /// The inherited limit.
    Given,
    /// The hard limit.
    Most,
    /// Zero: the kernel still sends the memory to a handler behind a pipe.
    Zero,
}

/// Whether a crash made a core, in a file or through the host's handler.
pub fn crash_dumps_core(limit: CoreLimit) -> io::Result<bool> {
    let Some(child) = fork()? else { crash(limit) };
    let mut status = 0;
    // SAFETY: `status` is a word that outlives the call.
    if unsafe { libc::waitpid(child.as_raw_nonzero().get(), &raw mut status, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(libc::WCOREDUMP(status))
}

fn crash(limit: CoreLimit) -> ! {
    let mut core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `core` is valid for the read and the write; `abort` ends this forked child.
    unsafe {
        if limit != CoreLimit::Given && libc::getrlimit(libc::RLIMIT_CORE, &raw mut core) == 0 {
            core.rlim_cur = if limit == CoreLimit::Most { core.rlim_max } else { 0 };
            libc::setrlimit(libc::RLIMIT_CORE, &raw const core);
        }
        libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
        libc::abort()
    }
}
