//! Host side of a sandbox's workspace: files in and out, while hostile code may be running.
//!
//! The service holds one directory descriptor and never uses a path of the host. All work is done
//! with the file-system ids of the sandbox's user, so the host reads and writes only what that user
//! may. Everything here blocks; asynchronous callers move it to a blocking thread.
//!
//! Invariant: no operation follows a symbolic link, leaves the workspace's file system, or opens
//! anything but directories and regular files.

mod get;
pub(crate) mod list;
mod path;
pub(crate) mod put;
mod refused;
pub(crate) mod remove;
pub(crate) mod tree;
mod watch;

use std::{io::Read, os::fd::OwnedFd};

use ringfence_jail::fsid;
use rustix::{
    fs::{
        AtFlags, CWD, Mode, Timespec, Timestamps, chmod, renameat, symlinkat, unlinkat, utimensat,
    },
    io::Errno,
};

pub use self::{
    get::{Artifact, Copied},
    list::{Entry, LeftOut, LeftOutBy, ListOptions, Listing},
    path::{BoxPath, InvalidPath, MAX_NAME, MAX_PATH, PathRule, WORKSPACE},
    refused::{Reason, Refused},
    tree::Kind,
    watch::{Event, EventKind, Watch},
};
pub(crate) use self::{path::shown, tree::Tree, tree::magic_path};

/// Owner of the workspace's files, in ids of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// The sandbox user's uid.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// Limits of one operation on files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLimits {
    /// Bytes of one file, in or out.
    pub file_bytes: u64,
    /// Entries one recursive removal may touch; moving a directory counts as well.
    pub remove_entries: usize,
    /// Directories one watch may observe; each costs kernel memory.
    pub watches: usize,
}

impl Default for FileLimits {
    fn default() -> Self {
        Self { file_bytes: 256 << 20, remove_entries: 4_000_000, watches: 1024 }
    }
}

/// A sandbox's workspace.
#[derive(Debug)]
pub struct Workspace {
    tree: Tree,
    owner: Owner,
    limits: FileLimits,
}

impl Workspace {
    /// Takes over the descriptor of a workspace's directory.
    pub fn new(dir: OwnedFd, owner: Owner, limits: FileLimits) -> Self {
        Self { tree: Tree::new(dir), owner, limits }
    }

    /// Writes a file atomically, making its parents. Returns its size. A mode with the type of a
    /// directory makes one, as [`crate::InputFile::directory`] asks for.
    pub fn put(&self, path: &BoxPath, mode: u32, content: &mut dyn Read) -> Result<u64, Refused> {
        self.as_owner(path, || put::put(&self.tree, path, mode, content, self.limits.file_bytes))
    }

    /// Opens a regular file for reading.
    pub fn get(&self, path: &BoxPath) -> Result<Artifact, Refused> {
        self.as_owner(path, || get::get(&self.tree, path, self.limits.file_bytes))
    }

    /// Lists a directory.
    pub fn list(&self, path: &BoxPath, options: ListOptions) -> Result<Listing, Refused> {
        self.as_owner(path, || list::list(&self.tree, path, options))
    }

    /// Metadata of one name; a symbolic link is reported as a link.
    pub fn stat(&self, path: &BoxPath) -> Result<Entry, Refused> {
        self.as_owner(path, || Ok(Entry::new(path.clone(), &self.tree.stat(path)?)))
    }

    /// Makes a directory and its parents; one that exists is fine.
    pub fn make_dir(&self, path: &BoxPath) -> Result<(), Refused> {
        self.as_owner(path, || self.tree.make_dirs(path).map(drop))
    }

    /// Removes a file, a link, or a directory with its content. Returns the number of removed
    /// entries.
    pub fn remove(&self, path: &BoxPath) -> Result<usize, Refused> {
        self.as_owner(path, || remove::remove(&self.tree, path, self.limits.remove_entries))
    }

    /// Renames a file or directory, replacing the target as `rename(2)` does.
    pub fn rename(&self, from: &BoxPath, to: &BoxPath) -> Result<(), Refused> {
        self.as_owner(from, || {
            let (old_dir, old_name) = self.tree.parent(from)?;
            let (new_dir, new_name) = self.tree.parent(to)?;
            renameat(old_dir, old_name, new_dir, new_name)
                .map_err(|errno| Refused::errno(from, errno))
        })
    }

    /// Watches a directory, and all below it if `recursive`.
    pub fn watch(&self, path: &BoxPath, recursive: bool) -> Result<Watch, Refused> {
        self.as_owner(path, || {
            watch::watch(&self.tree, self.owner, path, recursive, self.limits.watches)
        })
    }

    /// Makes a symbolic link holding `target` verbatim, replacing a file or link of that name.
    pub fn symlink(&self, path: &BoxPath, target: &[u8]) -> Result<(), Refused> {
        self.as_owner(path, || {
            let fail = |errno| Refused::errno(path, errno);
            let (dir, name) = self.tree.make_parent(path)?;
            let scratch = put::scratch_name().map_err(fail)?;
            symlinkat(target, &dir, scratch.as_bytes()).map_err(fail)?;
            renameat(&dir, scratch.as_bytes(), &dir, name).map_err(|errno| {
                // The rename's error is returned, not this one.
                let _ = unlinkat(&dir, scratch.as_bytes(), AtFlags::empty());
                fail(errno)
            })
        })
    }

    /// Makes a hard link to a regular file, replacing a file or link of that name.
    pub fn hard_link(&self, path: &BoxPath, original: &BoxPath) -> Result<(), Refused> {
        self.as_owner(path, || {
            let fail = |errno| Refused::errno(path, errno);
            let (dir, name) = self.tree.make_parent(path)?;
            let scratch = put::scratch_name().map_err(fail)?;
            link_node(&self.tree, original, &dir, scratch.as_bytes())?;
            renameat(&dir, scratch.as_bytes(), &dir, name).map_err(fail)?;
            // Renaming one name of a file onto another name of the same file changes nothing.
            match unlinkat(&dir, scratch.as_bytes(), AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => Ok(()),
                Err(errno) => Err(fail(errno)),
            }
        })
    }

    /// Target of a symbolic link.
    pub fn read_link(&self, path: &BoxPath) -> Result<Vec<u8>, Refused> {
        self.as_owner(path, || read_link(&self.tree, path))
    }

    /// Sets the permission bits of a directory.
    pub(crate) fn set_dir_mode(&self, path: &BoxPath, mode: u32) -> Result<(), Refused> {
        self.as_owner(path, || set_dir_mode(&self.tree, path, mode))
    }

    /// Sets the modification time of a file, link or directory.
    pub(crate) fn set_modified(&self, path: &BoxPath, secs: i64) -> Result<(), Refused> {
        self.as_owner(path, || set_modified(&self.tree, path, secs))
    }

    /// Runs `work` as the sandbox's user.
    fn as_owner<R>(
        &self,
        path: &BoxPath,
        work: impl FnOnce() -> Result<R, Refused>,
    ) -> Result<R, Refused> {
        acting_as(self.owner, path, work)
    }
}

fn acting_as<R>(
    owner: Owner,
    path: &BoxPath,
    work: impl FnOnce() -> Result<R, Refused>,
) -> Result<R, Refused> {
    fsid::with(owner.uid, owner.gid, work).unwrap_or_else(|error| {
        let reason = Reason::Io(std::io::Error::other(error));
        Err(Refused { path: path.clone(), reason })
    })
}

pub(crate) fn read_link(tree: &Tree, path: &BoxPath) -> Result<Vec<u8>, Refused> {
    let (node, _) = tree.open_node(path)?;
    let target = rustix::fs::readlinkat(&node, "", Vec::new())
        .map_err(|errno| Refused::errno(path, errno))?;
    Ok(target.into_bytes())
}

/// Links the regular file `original` as `name` of `dir`, by its descriptor.
pub(crate) fn link_node(
    tree: &Tree,
    original: &BoxPath,
    dir: &OwnedFd,
    name: &[u8],
) -> Result<(), Refused> {
    let (node, stat) = tree.open_node(original)?;
    match Kind::of(&stat) {
        Kind::File => {}
        Kind::Symlink => return Err(Refused { path: original.clone(), reason: Reason::Symlink }),
        other => {
            let reason = Reason::NotRegular(other);
            return Err(Refused { path: original.clone(), reason });
        }
    }
    rustix::fs::linkat(CWD, tree::magic_path(&node), dir, name, AtFlags::SYMLINK_FOLLOW)
        .map_err(|errno| Refused::errno(original, errno))
}

pub(crate) fn set_dir_mode(tree: &Tree, path: &BoxPath, mode: u32) -> Result<(), Refused> {
    let dir = tree.open_dir(path)?;
    chmod(tree::magic_path(&dir), Mode::from_raw_mode(mode))
        .map_err(|errno| Refused::errno(path, errno))
}

fn set_modified(tree: &Tree, path: &BoxPath, secs: i64) -> Result<(), Refused> {
    let (dir, name) = tree.parent(path)?;
    let at = Timespec { tv_sec: secs, tv_nsec: 0 };
    let times = Timestamps { last_access: at, last_modification: at };
    utimensat(dir, name, &times, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|errno| Refused::errno(path, errno))
}
