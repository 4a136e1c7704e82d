//! One layer of an image over those below it, whiteouts included.
//!
//! `.wh.name` hides what lower layers have at `name`, `.wh..wh..opq` all they have in a directory.
//! Both use the beneath-only removal of [`crate::files`], so a whiteout deletes nothing outside the
//! root file system, and nothing that the layer itself brought, in any order.

use std::{
    collections::{HashSet, hash_map::RandomState},
    hash::BuildHasher,
    io::Read,
};

use super::rootfs::{REMOVE_LIMIT, Rootfs};
use crate::{
    archive::{Meta, Sink},
    files::{BoxPath, Kind, ListOptions, Reason, Refused, list},
};

const HIDE: &[u8] = b".wh.";
const RESERVED: &[u8] = b".wh..wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

pub(super) struct Layer<'a, 'b> {
    rootfs: &'a mut Rootfs<'b>,
    key: RandomState,
    /// Hashes of the paths this layer brought, and of the directories above them.
    brought: HashSet<u64>,
}

/// Meaning of a name in a layer.
enum Meaning {
    Entry,
    Hide(BoxPath),
    Opaque(BoxPath),
    /// Metadata of old storage drivers, ignored.
    Nothing,
}

impl<'a, 'b> Layer<'a, 'b> {
    pub(super) fn over(rootfs: &'a mut Rootfs<'b>) -> Self {
        Self { rootfs, key: RandomState::new(), brought: HashSet::new() }
    }

    /// Applies a whiteout; `true` if the name is an entry to be written.
    fn is_entry(&mut self, path: &BoxPath) -> Result<bool, Refused> {
        match meaning(path)? {
            Meaning::Entry => {
                self.bring(path);
                return Ok(true);
            }
            Meaning::Hide(hidden) => self.hide(&hidden)?,
            Meaning::Opaque(dir) => self.hide_below(dir)?,
            Meaning::Nothing => {}
        }
        Ok(false)
    }

    fn bring(&mut self, path: &BoxPath) {
        let bytes = path.as_bytes();
        for end in (0..=bytes.len()).filter(|at| bytes.get(*at).is_none_or(|b| *b == b'/')) {
            self.brought.insert(self.key.hash_one(&bytes[..end]));
        }
    }

    fn brought(&self, path: &BoxPath) -> bool {
        self.brought.contains(&self.key.hash_one(path.as_bytes()))
    }

    fn hide(&self, path: &BoxPath) -> Result<(), Refused> {
        if self.brought(path) { self.hide_below(path.clone()) } else { self.rootfs.clear(path) }
    }

    /// Removes what lower layers have below `dir`; descends only into directories that this layer
    /// has.
    fn hide_below(&self, dir: BoxPath) -> Result<(), Refused> {
        let options = ListOptions { recursive: false, max_entries: REMOVE_LIMIT, max_depth: 1 };
        let mut dirs = vec![dir];
        while let Some(dir) = dirs.pop() {
            let listing = match list::list(&self.rootfs.tree, &dir, options) {
                Err(Refused { reason: Reason::NotFound | Reason::NotDirectory, .. }) => continue,
                other => other?,
            };
            for entry in listing.entries {
                match (self.brought(&entry.path), entry.kind) {
                    (false, _) => self.rootfs.clear(&entry.path)?,
                    (true, Kind::Directory) => dirs.push(entry.path),
                    (true, _) => {}
                }
            }
        }
        Ok(())
    }
}

impl Sink for Layer<'_, '_> {
    fn directory(&mut self, path: &BoxPath, meta: Meta) -> Result<(), Refused> {
        if self.is_entry(path)? { self.rootfs.directory(path, meta) } else { Ok(()) }
    }

    fn file(&mut self, path: &BoxPath, meta: Meta, content: &mut dyn Read) -> Result<u64, Refused> {
        if self.is_entry(path)? { self.rootfs.file(path, meta, content) } else { Ok(0) }
    }

    fn symlink(&mut self, path: &BoxPath, target: &[u8]) -> Result<(), Refused> {
        if self.is_entry(path)? { self.rootfs.symlink(path, target) } else { Ok(()) }
    }

    fn hard_link(&mut self, path: &BoxPath, original: &BoxPath) -> Result<(), Refused> {
        if self.is_entry(path)? { self.rootfs.hard_link(path, original) } else { Ok(()) }
    }
}

fn meaning(path: &BoxPath) -> Result<Meaning, Refused> {
    let Some((parent, name)) = path.split() else { return Ok(Meaning::Entry) };
    if name == OPAQUE {
        return Ok(Meaning::Opaque(parent));
    }
    if path.components().any(|name| name.starts_with(RESERVED)) {
        return Ok(Meaning::Nothing);
    }
    match name.strip_prefix(HIDE) {
        // `.wh...` would hide `..`: joining refuses that, as it refuses an empty name.
        Some(hidden) => match parent.join(hidden) {
            Ok(hidden) => Ok(Meaning::Hide(hidden)),
            Err(error) => Err(Refused { path: path.clone(), reason: Reason::Name(error) }),
        },
        None => Ok(Meaning::Entry),
    }
}
