//! Landlock: file rules in addition to the mounts, so that each layer covers mistakes of the other.
//!
//! The rules are prepared while paths can be opened and enforced later, just before seccomp. The
//! newest ABI of the kernel is used, and its number is reported; rights that a kernel does not know
//! are left out.

use std::{
    ffi::CStr,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

use rustix::{
    fs::{CWD, Mode, OFlags},
    io::Errno,
};

use crate::sys;

const EXECUTE: u64 = 1 << 0;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const MAKE_CHAR: u64 = 1 << 6;
const MAKE_BLOCK: u64 = 1 << 11;
const IOCTL_DEV: u64 = 1 << 15;

/// Rights known since each ABI: the first has thirteen, later ones add one each.
const fn rights(abi: u32) -> u64 {
    match abi {
        0 => 0,
        1 => (1 << 13) - 1,
        2 => (1 << 14) - 1,     // REFER
        3 | 4 => (1 << 15) - 1, // TRUNCATE
        _ => (1 << 16) - 1,     // IOCTL_DEV
    }
}

/// Allowed rights by path. Everything else is refused.
const RULES: [(&CStr, u64); 6] = [
    // The whole root is mounted read-only; programs and libraries are read and run from it.
    (c"/", EXECUTE | READ_FILE | READ_DIR),
    // Only null, zero, full, random, urandom, tty and private terminals exist here.
    (c"/dev", READ_FILE | READ_DIR | WRITE_FILE | IOCTL_DEV),
    // The four names of the one writable file system. Devices cannot be made even here.
    (c"/box", !(MAKE_CHAR | MAKE_BLOCK)),
    (c"/workspace", !(MAKE_CHAR | MAKE_BLOCK)),
    (c"/tmp", !(MAKE_CHAR | MAKE_BLOCK)),
    (c"/dev/shm", !(MAKE_CHAR | MAKE_BLOCK)),
];

/// Rules waiting to be enforced.
#[derive(Debug)]
pub(crate) struct Ruleset {
    fd: OwnedFd,
    /// ABI that the rules were made for.
    pub(crate) abi: u32,
}

#[repr(C)]
struct RulesetAttr {
    fs: u64,
    net: u64,
    scoped: u64,
}

#[repr(C, packed)]
struct PathBeneath {
    allowed: u64,
    parent: i32,
}

/// The newest ABI of this kernel; an error if it has no Landlock or has it switched off.
pub fn abi() -> Result<u32, Errno> {
    const VERSION: u32 = 1;
    // SAFETY: asking for the version takes no attributes.
    let ret = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0, VERSION)
    };
    if ret < 0 { Err(last()) } else { Ok(ret as u32) }
}

/// Opens the rules' directories in the mounts as they are now.
pub(crate) fn prepare(abi: u32, loopback: bool) -> Result<Ruleset, Errno> {
    let ruleset = create(abi, loopback)?;
    for (path, allowed) in RULES {
        let dir = rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let rule = PathBeneath { allowed: allowed & rights(abi), parent: dir.as_raw_fd() };
        // SAFETY: type 1 reads a PathBeneath, which outlives the call.
        let ret = unsafe {
            libc::syscall(libc::SYS_landlock_add_rule, ruleset.as_raw_fd(), 1, &raw const rule, 0)
        };
        if ret < 0 {
            return Err(last());
        }
    }
    Ok(Ruleset { fd: ruleset, abi })
}

/// Makes the ruleset. Signals and abstract sockets are scoped too where the kernel can (ABI 6).
/// Without a loopback of its own a program can neither bind nor connect a TCP socket (ABI 4),
/// although the filter gives it none; with one it may use any port.
fn create(abi: u32, loopback: bool) -> Result<OwnedFd, Errno> {
    let scoped = if abi >= 6 { 0b11 } else { 0 };
    let net = if abi >= 4 && !loopback { 0b11 } else { 0 };
    let attr = RulesetAttr { fs: rights(abi), net, scoped };
    let size = match abi {
        0..=3 => 8,
        4 | 5 => 16,
        _ => 24,
    };
    // SAFETY: the kernel reads `size` bytes of `attr`, which is at least that large.
    let ret = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &raw const attr, size, 0) };
    if ret < 0 {
        return Err(last());
    }
    // SAFETY: the kernel just returned this descriptor to us.
    Ok(unsafe { OwnedFd::from_raw_fd(ret as i32) })
}

impl Ruleset {
    /// Enforces the rules on this process and all it will start. Needs `no_new_privs`.
    pub(crate) fn enforce(&self) -> sys::Result<()> {
        // SAFETY: takes a descriptor and flags only.
        let ret =
            unsafe { libc::syscall(libc::SYS_landlock_restrict_self, self.fd.as_raw_fd(), 0) };
        if ret < 0 { Err(last()) } else { Ok(()) }
    }
}

fn last() -> Errno {
    Errno::from_raw_os_error(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}
