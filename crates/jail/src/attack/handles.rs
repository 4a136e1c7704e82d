//! Opening files by handle, which bypasses every path check and every root.

use std::{
    ffi::CString,
    io,
    os::fd::{FromRawFd, OwnedFd},
};

use super::call;

/// `struct file_handle` with room for the largest handle.
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: i32,
    data: [u8; 128],
}

/// Gets the handle of a file and opens the file by it.
pub fn open_by_own_handle(path: &str) -> io::Result<OwnedFd> {
    let path = CString::new(path)?;
    let mut handle = Handle { bytes: 128, kind: 0, data: [0; 128] };
    let mut mount = 0_i32;
    // SAFETY: `path` is a C string, `handle` has room for the 128 bytes it declares, `mount` is a
    // word; all three outlive the call.
    unsafe {
        let (handle, mount) = (&raw mut handle, &raw mut mount);
        call!(libc::SYS_name_to_handle_at, libc::AT_FDCWD, path.as_ptr(), handle, mount, 0)
    }?;
    open(&handle)
}

/// Opens a guessed handle as the published `shocker` exploit did: type 1, an inode number,
/// generation 0.
pub fn open_by_guessed_handle(inode: u32) -> io::Result<OwnedFd> {
    let mut handle = Handle { bytes: 8, kind: 1, data: [0; 128] };
    handle.data[..4].copy_from_slice(&inode.to_ne_bytes());
    open(&handle)
}

fn open(handle: &Handle) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads no more than the bytes the handle declares, and it has 128.
    let fd = unsafe {
        let flags = libc::O_RDONLY | libc::O_CLOEXEC;
        call!(libc::SYS_open_by_handle_at, libc::AT_FDCWD, &raw const *handle, flags)
    }?;
    // SAFETY: the kernel just gave this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
