//! Capabilities, filters and personalities of a process.

use std::{ffi::CString, io};

use super::{Answer, answer, call};

/// Every capability set of this process, as bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Set that permission checks use.
    pub effective: u64,
    /// Set that can be made effective.
    pub permitted: u64,
    /// Set that an exec can keep.
    pub inheritable: u64,
    /// Upper bound of what any exec can give.
    pub bounding: u64,
    /// Set that every exec keeps.
    pub ambient: u64,
}

/// Asks the kernel for all five sets.
pub fn capabilities() -> io::Result<Capabilities> {
    const VERSION_3: u32 = 0x2008_0522;
    let mut header = [VERSION_3, 0];
    let mut data = [0_u32; 6];
    // SAFETY: header and data have the sizes that version 3 names, and outlive the call.
    unsafe { call!(libc::SYS_capget, header.as_mut_ptr(), data.as_mut_ptr()) }?;
    let set = |low: usize| u64::from(data[low]) | u64::from(data[low + 3]) << 32;
    Ok(Capabilities {
        effective: set(0),
        permitted: set(1),
        inheritable: set(2),
        bounding: bits(|capability| [libc::PR_CAPBSET_READ, capability, 0]),
        ambient: bits(|capability| [libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_IS_SET, capability]),
    })
}

fn bits(question: impl Fn(i32) -> [i32; 3]) -> u64 {
    let is_set = |capability: &i32| {
        let [option, first, second] = question(*capability);
        // SAFETY: both options take numbers only; the unused arguments are zero as demanded.
        let answer =
            unsafe { libc::prctl(option, i64::from(first), i64::from(second), 0_i64, 0_i64) };
        answer == 1
    };
    (0..64).filter(is_set).fold(0, |bits, capability| bits | 1 << capability)
}

/// Copies what this process is permitted into its inheritable and ambient sets.
pub fn fill_capability_sets() -> io::Result<()> {
    let mut sets = rustix::thread::capabilities(None)?;
    sets.inheritable = sets.permitted;
    rustix::thread::set_capabilities(None, sets)?;
    for capability in sets.permitted.iter() {
        rustix::thread::configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}

/// Turns off address randomisation for what is executed next (`ADDR_NO_RANDOMIZE`).
pub fn set_personality() -> Answer {
    // SAFETY: takes no pointer; the flag changes later execs of this process only.
    answer(i64::from(unsafe { libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) }))
}

/// Installs a filter that allows everything, in an attempt to replace the real one.
pub fn allow_everything() -> Answer {
    let allow = [instruction(0x06, libc::SECCOMP_RET_ALLOW)];
    install(&allow, 0)
}

/// Requests to decide its own calls from user space (`SECCOMP_FILTER_FLAG_NEW_LISTENER`).
pub fn listen_to_calls() -> Answer {
    let allow = [instruction(0x06, libc::SECCOMP_RET_ALLOW)];
    install(&allow, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER)
}

fn instruction(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: 0, jf: 0, k }
}

fn install(filter: &[libc::sock_filter], flags: libc::c_ulong) -> Answer {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: `program` points to the borrowed filter, which the kernel copies during the call.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        call!(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program,)
    }
}

/// `mount_setattr` that takes the read-only flag from a mount.
pub fn set_remount_writable(path: &str) -> io::Result<()> {
    const MOUNT_ATTR_RDONLY: u64 = 1;
    let path = CString::new(path)?;
    let attributes = [0, MOUNT_ATTR_RDONLY, 0, 0_u64];
    // SAFETY: `path` and `attributes` outlive the call; the size given is that of the array.
    unsafe {
        call!(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            0,
            attributes.as_ptr(),
            size_of_val(&attributes),
        )
    }
    .map(drop)
}
