//! Reading and writing the small files of a control group with as few system calls as possible.
//!
//! `std::fs` would create and truncate on write and query the size on read; here a write is open,
//! write, close, and a sandbox is created with a dozen of them.

use super::Error;
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use std::io;
use std::path::Path;

/// Largest file that is read: `cgroup.procs` of a group with 100 000 processes.
const MAX_FILE_BYTES: usize = 1 << 20;

/// Writes `value` in one call, as the kernel wants it.
pub(super) fn write(dir: &Path, name: &str, value: &str) -> Result<(), Error> {
    let path = dir.join(name);
    let written = openat(CWD, &path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
        .and_then(|file| rustix::io::write(&file, value.as_bytes()));
    written.map(drop).map_err(|errno| Error::new("write", &path, errno))
}

/// Like [`write`], but a file that this kernel does not have is `false`.
pub(super) fn write_if_present(dir: &Path, name: &str, value: &str) -> Result<bool, Error> {
    match write(dir, name, value) {
        Ok(()) => Ok(true),
        Err(error) if error.is(libc::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The whole file as text.
pub(super) fn read(dir: &Path, name: &str) -> Result<String, Error> {
    let path = dir.join(name);
    read_path(&path).map_err(|source| Error::new("read", &path, source))
}

/// Like [`read`], but a file that this kernel does not have is `None`.
pub(super) fn read_if_present(dir: &Path, name: &str) -> Result<Option<String>, Error> {
    match read(dir, name) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.is(libc::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Descriptor to which a child of one thread writes `0` in order to join.
///
/// `tasks` moves the calling thread alone, so the kernel need not stop every fork and exit of the
/// machine: that lock costs `cgroup.procs` a whole grace period, many milliseconds, if it was not
/// taken for a while. Version 2 has no such file.
pub(super) fn open_for_join(dir: &Path) -> Result<OwnedFd, Error> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    match open(&dir.join("tasks"), flags) {
        Err(error) if error.is(libc::ENOENT) => open(&dir.join("cgroup.procs"), flags),
        other => other,
    }
}

/// The descriptor `clone3` takes for `CLONE_INTO_CGROUP`.
pub(super) fn open_for_clone(dir: &Path) -> Result<OwnedFd, Error> {
    open(dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC)
}

/// Makes one directory; it must not exist yet.
pub(super) fn make_dir(path: &Path) -> Result<(), Error> {
    rustix::fs::mkdir(path, Mode::from_raw_mode(0o755))
        .map_err(|errno| Error::new("create", path, errno))
}

fn open(path: &Path, flags: OFlags) -> Result<OwnedFd, Error> {
    openat(CWD, path, flags, Mode::empty()).map_err(|errno| Error::new("open", path, errno))
}

fn read_path(path: &Path) -> io::Result<String> {
    let file = openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut bytes = vec![0; 4096];
    let mut filled = 0;
    loop {
        match rustix::io::read(&file, &mut bytes[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        if filled > MAX_FILE_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        if filled == bytes.len() {
            bytes.resize(filled * 2, 0);
        }
    }
    bytes.truncate(filled);
    String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
}
