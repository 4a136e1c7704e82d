//! Files out of a workspace: checked first, opened second, both through the same node.
//!
//! Invariant: only a regular file is ever opened, so no FIFO can block us and no device can react.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::OwnedFd,
};

use rustix::fs::{Mode, OFlags, Stat, fstat};

use super::{
    BoxPath, Kind, Reason, Refused,
    tree::Tree,
    tree::{links, magic_path},
};

/// A regular file of a sandbox, open for reading.
#[derive(Debug)]
pub struct Artifact {
    /// Opened non-blocking and read-only. Its owner may still change it: see [`Artifact::copy_to`].
    pub file: File,
    /// Its size when it was opened.
    pub size: u64,
    /// Its permission bits.
    pub mode: u32,
    /// Number of hard links; with more than one, the same content is reachable by other names.
    pub links: u64,
    /// Seconds since the epoch at which the content last changed.
    pub modified_secs: i64,
}

/// Result of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// Bytes handed over, never more than [`Artifact::size`].
    pub bytes: u64,
    /// Whether the file had another size at the end than when it was opened.
    pub changed: bool,
}

impl Artifact {
    /// Copies the content, at most the size it had when opened, even if it changes meanwhile.
    pub fn copy_to(&mut self, writer: &mut dyn Write) -> io::Result<Copied> {
        let bytes = io::copy(&mut (&self.file).take(self.size), writer)?;
        let size_now = self.file.metadata()?.len();
        Ok(Copied { bytes, changed: bytes != self.size || size_now != self.size })
    }
}

/// Opens `path` if it is a regular file of at most `limit` bytes by its apparent size.
pub(super) fn get(tree: &Tree, path: &BoxPath, limit: u64) -> Result<Artifact, Refused> {
    let (node, before) = tree.open_node(path)?;
    let check =
        |stat: &Stat| checked(stat, limit).map_err(|reason| Refused { path: path.clone(), reason });
    check(&before)?;
    let file = reopen(&node).map_err(|errno| Refused::errno(path, errno))?;
    let after = fstat(&file).map_err(|errno| Refused::errno(path, errno))?;
    if (after.st_dev, after.st_ino) != (before.st_dev, before.st_ino) {
        return Err(Refused { path: path.clone(), reason: Reason::Changed });
    }
    check(&after)?;
    Ok(Artifact {
        file: File::from(file),
        size: after.st_size as u64,
        mode: after.st_mode & 0o7777,
        links: links(&after),
        modified_secs: after.st_mtime,
    })
}

/// Opens the regular file behind a descriptor for reading. The flags make sure that even another
/// kind of file could neither block nor become the controlling terminal.
fn reopen(node: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(magic_path(node), flags, Mode::empty())
}

fn checked(stat: &Stat, limit: u64) -> Result<(), Reason> {
    let size = stat.st_size as u64;
    match Kind::of(stat) {
        Kind::File if size <= limit => Ok(()),
        Kind::File => Err(Reason::TooLarge { size, limit }),
        Kind::Symlink => Err(Reason::Symlink),
        other => Err(Reason::NotRegular(other)),
    }
}
