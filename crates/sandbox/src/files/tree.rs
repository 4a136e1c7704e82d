//! Directory tree that is reached through one descriptor, never by a path of the host.
//!
//! Every open goes through `openat2` with [`BENEATH`]: the kernel itself refuses symbolic links,
//! `..` tricks, magic links and other mounts, atomically, so a rename race cannot lead outside.

use std::{
    fmt,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, mkdirat, openat2, statat},
    io::Errno,
};

use super::{BoxPath, Reason, Refused};

/// Resolution flags of every path.
pub(crate) const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// Kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A Unix socket.
    Socket,
    /// A character or block device.
    Device,
    /// A kind that this version does not know.
    Unknown,
}

impl Kind {
    pub(crate) fn of(stat: &Stat) -> Self {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Symlink,
            FileType::Fifo => Self::Fifo,
            FileType::Socket => Self::Socket,
            FileType::CharacterDevice | FileType::BlockDevice => Self::Device,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "regular file",
            Self::Directory => "directory",
            Self::Symlink => "symbolic link",
            Self::Fifo => "FIFO",
            Self::Socket => "socket",
            Self::Device => "device",
            Self::Unknown => "file of unknown kind",
        })
    }
}

/// A tree and the descriptor through which it is reached.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) dir: OwnedFd,
}

impl Tree {
    pub(crate) fn new(dir: OwnedFd) -> Self {
        Self { dir }
    }

    /// Opens `path` without following anything.
    pub(crate) fn open(&self, path: &BoxPath, flags: OFlags) -> Result<OwnedFd, Refused> {
        open_beneath(&self.dir, path.for_kernel(), flags)
            .map_err(|errno| Refused::errno(path, errno))
    }

    /// Opens a directory for reading its entries.
    pub(crate) fn open_dir(&self, path: &BoxPath) -> Result<OwnedFd, Refused> {
        self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Descriptor of the node itself, of any kind, without opening its content.
    pub(crate) fn open_node(&self, path: &BoxPath) -> Result<(OwnedFd, Stat), Refused> {
        let node = self.open(path, OFlags::PATH | OFlags::NOFOLLOW)?;
        let stat = rustix::fs::fstat(&node).map_err(|errno| Refused::errno(path, errno))?;
        Ok((node, stat))
    }

    /// The parent directory of `path`, which must exist, and the name in it.
    pub(crate) fn parent<'a>(&self, path: &'a BoxPath) -> Result<(OwnedFd, &'a [u8]), Refused> {
        let (parent, name) = split(path)?;
        let dir = open_beneath(&self.dir, parent.for_kernel(), OFlags::PATH | OFlags::DIRECTORY)
            .map_err(|errno| Refused::errno(path, errno))?;
        Ok((dir, name))
    }

    /// Like [`Tree::parent`], but missing directories are made.
    pub(crate) fn make_parent<'a>(
        &self,
        path: &'a BoxPath,
    ) -> Result<(OwnedFd, &'a [u8]), Refused> {
        match self.parent(path) {
            Err(Refused { reason: Reason::NotFound, .. }) => {}
            other => return other,
        }
        let (parent, name) = split(path)?;
        Ok((self.make_dirs(&parent)?, name))
    }

    /// Makes `path` and what is missing above it; an existing directory is fine.
    pub(crate) fn make_dirs(&self, path: &BoxPath) -> Result<OwnedFd, Refused> {
        let fail = |errno| Refused::errno(path, errno);
        let mut here = self.open(&BoxPath::root(), OFlags::PATH | OFlags::DIRECTORY)?;
        for name in path.components() {
            match mkdirat(&here, name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(fail(errno)),
            }
            here = open_beneath(&here, name, OFlags::PATH | OFlags::DIRECTORY).map_err(fail)?;
        }
        Ok(here)
    }

    pub(crate) fn stat(&self, path: &BoxPath) -> Result<Stat, Refused> {
        self.open_node(path).map(|(_, stat)| stat)
    }
}

/// Opens `path` beneath `dir`. The kernel answers `EAGAIN` if a concurrent rename made it unsure
/// that the path stayed beneath; the open is repeated a bounded number of times.
pub(crate) fn open_beneath(dir: impl AsFd, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    for _ in 0..64 {
        match openat2(&dir, path, flags, Mode::empty(), BENEATH) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return other,
        }
    }
    Err(Errno::AGAIN)
}

/// Path under which a held descriptor can be opened again or linked. It leads to the node itself,
/// so there is no race between checking and opening.
pub(crate) fn magic_path(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Number of hard links of a file.
#[allow(clippy::unnecessary_cast, reason = "the field has 32 bits on some architectures")]
pub(crate) fn links(stat: &Stat) -> u64 {
    stat.st_nlink as u64
}

/// Metadata of one name of a directory, without following it.
pub(crate) fn stat_name(dir: impl AsFd, name: &[u8]) -> Result<Stat, Errno> {
    statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
}

fn split(path: &BoxPath) -> Result<(BoxPath, &[u8]), Refused> {
    path.split().ok_or(Refused { path: BoxPath::root(), reason: Reason::Root })
}
