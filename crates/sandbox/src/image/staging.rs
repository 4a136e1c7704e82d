//! Staging directories of the store, for imports that are not complete.
//!
//! A staging directory is locked for as long as its import lives. The kernel drops the lock with
//! the process, so a directory that can be locked is abandoned and is removed.

use std::os::fd::OwnedFd;

use rustix::{
    fs::{
        Dir, FlockOperation, Mode, OFlags, RenameFlags, fchmod, flock, mkdirat, openat,
        renameat_with, syncfs,
    },
    io::Errno,
};

use super::{Problem, rootfs::REMOVE_LIMIT};
use crate::files::{BoxPath, Tree, put::scratch_name, remove};

/// Prefix of staging directories; names of images are never hidden.
const PREFIX: &[u8] = b".ringfence-";

/// A locked directory beside the images.
pub(super) struct Staging<'a> {
    store: &'a Tree,
    name: BoxPath,
    pub(super) dir: OwnedFd,
}

impl<'a> Staging<'a> {
    /// Makes one, after removing those of imports that died.
    pub(super) fn new(store: &'a Tree) -> Result<Self, Problem> {
        // Held while sweeping, so that a directory that exists and is not locked yet is not swept.
        let gate = reopen(store)?;
        flock(&gate, FlockOperation::LockExclusive)?;
        sweep(store)?;
        let name = scratch_name()?;
        mkdirat(&store.dir, name.as_str(), Mode::from_raw_mode(0o755))?;
        let name = BoxPath::relative(name.as_bytes()).map_err(|_| Problem::Name)?;
        let dir = store.open_dir(&name)?;
        flock(&dir, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { store, name, dir })
    }

    /// Makes a directory inside and opens it.
    pub(super) fn make(&self, name: &str) -> Result<OwnedFd, Problem> {
        mkdirat(&self.dir, name, Mode::from_raw_mode(0o755))?;
        let dir = openat(&self.dir, name, DIRECTORY, Mode::empty())?;
        // The sandbox's user must be able to enter it, with any umask.
        fchmod(&dir, Mode::from_raw_mode(0o755))?;
        Ok(dir)
    }

    /// Renames the finished directory to its name atomically; a replaced image is removed.
    pub(super) fn promote(self, name: &str, replace: bool) -> Result<(), Problem> {
        // Contents first: after a power cut a promoted image must be complete.
        syncfs(&self.dir)?;
        let rename = |flags| {
            renameat_with(&self.store.dir, self.name.as_bytes(), &self.store.dir, name, flags)
        };
        match rename(RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) if replace => rename(RenameFlags::EXCHANGE)?,
            Err(Errno::EXIST) => return Err(Problem::Exists),
            other => other?,
        }
        rustix::fs::fsync(&reopen(self.store)?)?;
        // The replaced image is now at the staging name and is removed on drop.
        Ok(())
    }

    /// Removes a directory made inside.
    pub(super) fn discard(&self, name: &str) -> Result<(), Problem> {
        let inside = Tree::new(openat(&self.dir, ".", DIRECTORY, Mode::empty())?);
        let path = BoxPath::relative(name.as_bytes()).map_err(|_| Problem::Name)?;
        remove::remove(&inside, &path, REMOVE_LIMIT)?;
        Ok(())
    }
}

impl Drop for Staging<'_> {
    fn drop(&mut self) {
        // What cannot be removed now is swept by the next import.
        let _ = remove::remove(self.store, &self.name, REMOVE_LIMIT);
    }
}

/// Removes an image: it is renamed at once and deleted afterwards.
pub(super) fn take_away(store: &Tree, name: &str) -> Result<(), Problem> {
    let gate = reopen(store)?;
    flock(&gate, FlockOperation::LockExclusive)?;
    let hidden = scratch_name()?;
    match renameat_with(&store.dir, name, &store.dir, hidden.as_str(), RenameFlags::NOREPLACE) {
        Err(Errno::NOENT) => return Err(Problem::NotFound),
        other => other?,
    }
    let path = BoxPath::relative(hidden.as_bytes()).map_err(|_| Problem::Name)?;
    remove::remove(store, &path, REMOVE_LIMIT)?;
    Ok(())
}

fn sweep(store: &Tree) -> Result<(), Problem> {
    let mut dead = Vec::new();
    for entry in Dir::new(reopen(store)?)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name.starts_with(PREFIX) && is_abandoned(store, name) {
            dead.push(BoxPath::relative(name).map_err(|_| Problem::Name)?);
        }
    }
    for path in dead {
        remove::remove(store, &path, REMOVE_LIMIT)?;
    }
    Ok(())
}

fn is_abandoned(store: &Tree, name: &[u8]) -> bool {
    match openat(&store.dir, name, DIRECTORY, Mode::empty()) {
        Ok(dir) => flock(&dir, FlockOperation::NonBlockingLockExclusive).is_ok(),
        Err(errno) => errno != Errno::NOENT,
    }
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens the store again, because locks and positions belong to an open file.
fn reopen(store: &Tree) -> Result<OwnedFd, Problem> {
    Ok(openat(&store.dir, ".", DIRECTORY, Mode::empty())?)
}
