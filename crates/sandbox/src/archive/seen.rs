//! Names that an archive has used, in a few bytes per name.

use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::BuildHasher,
};

use super::Problem;
use crate::files::BoxPath;

/// Kind of object that an earlier entry made at a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Made {
    Directory,
    File,
    Symlink,
}

/// Set of used names, kept as hashes under a secret key: a million names fit in some 32 MB, and an
/// attacker cannot construct a collision. A collision by chance refuses a valid archive of a
/// million entries once in 10^7 times.
#[derive(Debug, Default)]
pub(super) struct SeenNames {
    key: RandomState,
    names: HashMap<u64, Made>,
}

impl SeenNames {
    /// Records an entry and the directories above it. Returns the number of new names.
    pub(super) fn add(&mut self, path: &BoxPath, made: Made) -> Result<u64, Problem> {
        let mut new = self.add_above(path)?;
        let hash = self.key.hash_one(path.as_bytes());
        match (self.names.insert(hash, made), made) {
            (None, _) => new += 1,
            // Valid archives name a directory twice; nothing is lost by it.
            (Some(Made::Directory), Made::Directory) => {}
            (Some(_), _) => return Err(Problem::Duplicate),
        }
        Ok(new)
    }

    /// Kind of object that an earlier entry made at this name.
    pub(super) fn get(&self, path: &BoxPath) -> Option<Made> {
        self.names.get(&self.key.hash_one(path.as_bytes())).copied()
    }

    fn add_above(&mut self, path: &BoxPath) -> Result<u64, Problem> {
        let bytes = path.as_bytes();
        let mut new = 0;
        for end in (0..bytes.len()).filter(|at| bytes[*at] == b'/') {
            let hash = self.key.hash_one(&bytes[..end]);
            match self.names.insert(hash, Made::Directory) {
                None => new += 1,
                Some(Made::Directory) => {}
                Some(_) => return Err(Problem::Through),
            }
        }
        Ok(new)
    }
}
