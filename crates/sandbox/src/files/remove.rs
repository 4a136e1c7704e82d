//! Removal of hostile trees: any depth, any names, any modes, while programs may still be writing.
//!
//! Walking down would need a stack or a descriptor per level. Instead, every non-empty directory is
//! emptied by moving its sub-directories up to the top one. Entries are touched at most two levels
//! deep, and three descriptors are enough for 100 000 levels.

use std::os::fd::{AsFd, OwnedFd};

use rustix::{
    fs::{AtFlags, Dir, Mode, OFlags, RenameFlags, chmod, fstat, renameat_with, unlinkat},
    io::Errno,
};

use super::{
    BoxPath, Reason, Refused,
    put::scratch_name,
    tree::{Tree, magic_path, open_beneath},
};

/// Removes `path` and all below it, touching at most `limit` entries. Returns the number of removed
/// entries.
pub(crate) fn remove(tree: &Tree, path: &BoxPath, limit: usize) -> Result<usize, Refused> {
    let (parent, name) = tree.parent(path)?;
    let mut removal = Removal { removed: 0, left: limit };
    match removal.whole(&parent, name) {
        Ok(()) => Ok(removal.removed),
        Err(Errno::TOOBIG) => {
            Err(Refused { path: path.clone(), reason: Reason::TooMany { limit } })
        }
        Err(errno) => Err(Refused::errno(path, errno)),
    }
}

struct Removal {
    removed: usize,
    /// Entries that may still be touched, so that removal ends even if the tree grows as fast as it
    /// shrinks.
    left: usize,
}

impl Removal {
    fn whole(&mut self, parent: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
        match self.discard(parent, name) {
            Err(Errno::NOTEMPTY) => {}
            other => return other,
        }
        let top = open_unlocked(parent, name)?;
        self.flatten(&top)?;
        self.discard(parent, name)
    }

    /// Empties `top`. Removing while reading may skip names, so passes repeat until one finds
    /// nothing.
    fn flatten(&mut self, top: &OwnedFd) -> Result<(), Errno> {
        loop {
            let mut found = false;
            for name in names(top)? {
                found = true;
                match self.discard(top, name?.to_bytes()) {
                    Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY) => {}
                    Err(errno) => return Err(errno),
                }
            }
            if !found {
                return Ok(());
            }
            for name in names(top)? {
                self.hoist(top, name?.to_bytes())?;
            }
        }
    }

    /// Empties the directory `name` of `top` into `top`, then removes it.
    fn hoist(&mut self, top: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
        let dir = match open_unlocked(top, name) {
            Ok(dir) => dir,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
            Err(errno) => return Err(errno),
        };
        for inner in names(&dir)? {
            let inner = inner?;
            match self.discard(&dir, inner.to_bytes()) {
                Err(Errno::NOTEMPTY) => self.move_up(&dir, inner.to_bytes(), top)?,
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
        match self.discard(top, name) {
            // Another process was quicker, or reading skipped a name: the next pass sees it again.
            Err(Errno::NOENT | Errno::NOTEMPTY) => Ok(()),
            other => other,
        }
    }

    fn move_up(&mut self, dir: &OwnedFd, name: &[u8], top: &OwnedFd) -> Result<(), Errno> {
        self.spend()?;
        let target = scratch_name()?;
        let rename = || renameat_with(dir, name, top, target.as_bytes(), RenameFlags::NOREPLACE);
        match rename() {
            // A directory that changes its parent must be writable by its owner.
            Err(Errno::ACCESS) => {
                open_unlocked(dir, name)?;
                rename()
            }
            Err(Errno::NOENT) => Ok(()),
            other => other,
        }
    }

    /// Removes one name that is not a directory, or is an empty one.
    fn discard(&mut self, dir: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
        self.spend()?;
        match unlinkat(dir, name, AtFlags::empty()) {
            Err(Errno::ISDIR) => unlinkat(dir, name, AtFlags::REMOVEDIR)?,
            other => other?,
        }
        self.removed += 1;
        Ok(())
    }

    fn spend(&mut self) -> Result<(), Errno> {
        self.left = self.left.checked_sub(1).ok_or(Errno::TOOBIG)?;
        Ok(())
    }
}

/// Opens a directory whose modes may exclude its owner, after setting them.
fn open_unlocked(parent: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let node = open_beneath(&parent, name, OFlags::PATH | OFlags::DIRECTORY)?;
    if fstat(&node)?.st_mode & 0o700 != 0o700 {
        chmod(magic_path(&node), Mode::RWXU)?;
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(magic_path(&node), flags, Mode::empty())
}

fn names(
    dir: &OwnedFd,
) -> Result<impl Iterator<Item = Result<std::ffi::CString, Errno>> + use<>, Errno> {
    let entries = Dir::read_from(dir)?.map(|entry| entry.map(|e| e.file_name().to_owned()));
    Ok(entries.filter(|name| !matches!(name.as_ref().map(|n| n.to_bytes()), Ok(b"." | b".."))))
}
