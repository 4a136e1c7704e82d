//! Files into a workspace: written under a temporary name, then renamed.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, fchmod, openat2, renameat, unlinkat},
    io::Errno,
};

use super::{BoxPath, Reason, Refused, set_dir_mode, tree::BENEATH, tree::Tree};

/// The type bits of a directory in a mode.
pub(crate) const DIRECTORY_TYPE: u32 = 0o040_000;

/// Writes `content` to `path`, replacing a file or link of that name and making its parents.
/// A reader of the path sees the old content or the new one, never a part.
pub(super) fn put(
    tree: &Tree,
    path: &BoxPath,
    mode: u32,
    content: &mut dyn Read,
    limit: u64,
) -> Result<u64, Refused> {
    if mode & !0o777 == DIRECTORY_TYPE {
        return make_directory(tree, path, mode & 0o777).map(|()| 0);
    }
    if mode & !0o777 != 0 {
        return Err(Refused { path: path.clone(), reason: Reason::PrivilegedMode { mode } });
    }
    let (parent, name) = tree.make_parent(path)?;
    let scratch = scratch_name().map_err(|errno| Refused::errno(path, errno))?;
    let file = create(&parent, scratch.as_bytes()).map_err(|errno| Refused::errno(path, errno))?;
    let written = fill(file, path, mode, content, limit).and_then(|bytes| {
        renameat(&parent, scratch.as_bytes(), &parent, name)
            .map_err(|errno| Refused::errno(path, errno))?;
        Ok(bytes)
    });
    if written.is_err() {
        // The first error is returned; a scratch file left behind is in the sandbox's own
        // workspace.
        let _ = unlinkat(&parent, scratch.as_bytes(), AtFlags::empty());
    }
    written
}

/// Makes a directory. Its owner keeps access, so that it can be filled and removed again.
fn make_directory(tree: &Tree, path: &BoxPath, mode: u32) -> Result<(), Refused> {
    tree.make_dirs(path)?;
    set_dir_mode(tree, path, mode | 0o700)
}

/// Creates a file that did not exist, readable by its owner alone until it is complete.
pub(crate) fn create(dir: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat2(dir, name, flags, Mode::from_raw_mode(0o600), BENEATH)
}

fn fill(
    file: OwnedFd,
    path: &BoxPath,
    mode: u32,
    content: &mut dyn Read,
    limit: u64,
) -> Result<u64, Refused> {
    let mut file = File::from(file);
    let bytes = copy_bounded(content, &mut file, limit)
        .map_err(|error| Refused::io(path, error))?
        .ok_or(Refused {
            path: path.clone(),
            reason: Reason::TooLarge { size: limit.saturating_add(1), limit },
        })?;
    fchmod(&file, Mode::from_raw_mode(mode)).map_err(|errno| Refused::errno(path, errno))?;
    Ok(bytes)
}

/// Copies everything; `None` if there is more than `limit`.
pub(crate) fn copy_bounded(
    from: &mut dyn Read,
    to: &mut dyn Write,
    limit: u64,
) -> io::Result<Option<u64>> {
    let copied = io::copy(&mut from.take(limit), to)?;
    if copied < limit {
        return Ok(Some(copied));
    }
    let more = io::copy(&mut from.take(1), &mut io::sink())?;
    Ok((more == 0).then_some(copied))
}

/// Unguessable name for a file that is not complete.
pub(crate) fn scratch_name() -> Result<String, Errno> {
    let mut random = [0_u8; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{SCRATCH}{:016x}", u64::from_ne_bytes(random)))
}

/// Prefix of such names.
const SCRATCH: &str = ".ringfence-";

/// Whether this is the name of a file of ours that is not complete.
pub(crate) fn is_scratch(name: &[u8]) -> bool {
    let digits = name.strip_prefix(SCRATCH.as_bytes());
    digits.is_some_and(|digits| {
        digits.len() == 16 && digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    })
}
