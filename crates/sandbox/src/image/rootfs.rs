//! Root file system under construction, in a directory that is not in use yet.
//!
//! Later entries replace earlier ones of any kind, as layers do. Files keep their permissions and
//! times, because interpreters compare the times of sources with those of compiled code, and belong
//! to the importing user.

use std::{fs::File, io, io::Read, os::fd::OwnedFd};

use rustix::{
    fs::{
        AtFlags, Mode, OFlags, Timespec, Timestamps, fchmod, futimens, mkdirat, symlinkat, unlinkat,
    },
    io::Errno,
};

use super::{Progress, notes::Notes};
use crate::{
    archive::{Meta, Sink},
    files::{BoxPath, Kind, Reason, Refused, Tree, link_node, put::create, remove, set_dir_mode},
};

/// Entries between two progress reports.
const TELL_EVERY: u64 = 1000;

/// Largest number of entries of a replaced directory.
pub(super) const REMOVE_LIMIT: usize = 8_000_000;

pub(super) struct Rootfs<'a> {
    pub(super) tree: Tree,
    pub(super) progress: &'a mut dyn FnMut(Progress),
    pub(super) entries: u64,
    pub(super) bytes: u64,
    pub(super) notes: Notes,
}

impl<'a> Rootfs<'a> {
    pub(super) fn new(dir: OwnedFd, progress: &'a mut dyn FnMut(Progress)) -> Self {
        let (tree, notes) = (Tree::new(dir), Notes::default());
        Self { tree, progress, entries: 0, bytes: 0, notes }
    }

    /// Removes what exists at this path, if anything.
    pub(super) fn clear(&self, path: &BoxPath) -> Result<(), Refused> {
        match remove::remove(&self.tree, path, REMOVE_LIMIT) {
            Ok(_) | Err(Refused { reason: Reason::NotFound, .. }) => Ok(()),
            Err(refused) => Err(refused),
        }
    }

    /// Makes an entry with `make`, removing what has its name first.
    fn place<T>(
        &self,
        path: &BoxPath,
        make: impl Fn(&OwnedFd, &[u8]) -> Result<T, Errno>,
    ) -> Result<T, Refused> {
        let (dir, name) = self.tree.make_parent(path)?;
        match make(&dir, name) {
            Err(Errno::EXIST) => {
                self.clear(path)?;
                make(&dir, name).map_err(|errno| Refused::errno(path, errno))
            }
            other => other.map_err(|errno| Refused::errno(path, errno)),
        }
    }

    fn wrote(&mut self, bytes: u64) {
        self.entries += 1;
        self.bytes += bytes;
        if self.entries.is_multiple_of(TELL_EVERY) {
            (self.progress)(Progress::Written { entries: self.entries, bytes: self.bytes });
        }
    }
}

impl Sink for Rootfs<'_> {
    fn directory(&mut self, path: &BoxPath, meta: Meta) -> Result<(), Refused> {
        let exists = self.tree.stat(path).is_ok_and(|stat| Kind::of(&stat) == Kind::Directory);
        if !exists {
            self.place(path, |dir, name| mkdirat(dir, name, Mode::RWXU))?;
        }
        // The owner keeps access, so that the directory can be filled and removed again.
        set_dir_mode(&self.tree, path, meta.mode & 0o1777 | 0o700)?;
        self.wrote(0);
        Ok(())
    }

    fn file(&mut self, path: &BoxPath, meta: Meta, content: &mut dyn Read) -> Result<u64, Refused> {
        let file = File::from(self.place(path, |dir, name| create(dir, name))?);
        match fill(&file, meta, content) {
            Ok(bytes) => {
                self.wrote(bytes);
                Ok(bytes)
            }
            Err(error) => {
                let (dir, name) = self.tree.parent(path)?;
                // The content's error is returned, not this one.
                let _ = unlinkat(dir, name, AtFlags::empty());
                Err(Refused::io(path, error))
            }
        }
    }

    fn symlink(&mut self, path: &BoxPath, target: &[u8]) -> Result<(), Refused> {
        self.place(path, |dir, name| symlinkat(target, dir, name))?;
        self.wrote(0);
        Ok(())
    }

    fn hard_link(&mut self, path: &BoxPath, original: &BoxPath) -> Result<(), Refused> {
        // Checked before anything is removed: a link to a missing file must change nothing.
        self.tree.open(original, OFlags::PATH | OFlags::NOFOLLOW)?;
        self.clear(path)?;
        let (dir, name) = self.tree.make_parent(path)?;
        link_node(&self.tree, original, &dir, name)?;
        self.wrote(0);
        Ok(())
    }
}

fn fill(mut file: &File, meta: Meta, content: &mut dyn Read) -> io::Result<u64> {
    let bytes = io::copy(content, &mut file)?;
    fchmod(file, Mode::from_raw_mode(meta.mode & 0o777))?;
    let at = Timespec { tv_sec: meta.modified_secs, tv_nsec: 0 };
    futimens(file, &Timestamps { last_access: at, last_modification: at })?;
    Ok(bytes)
}
