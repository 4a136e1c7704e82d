//! Files of one skill in memory, from any source: the single check of paths and sizes.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use ringfence_types::Digest;

use crate::text::shown;

/// Files in one skill: a handler with a few helpers, not a project.
pub(crate) const MAX_FILES: usize = 256;
/// Size limit of one file.
pub(crate) const MAX_FILE_BYTES: u64 = 4 << 20;
/// Size limit of all files; they are held in memory for as long as the skill is registered.
pub(crate) const MAX_TOTAL_BYTES: u64 = 16 << 20;
/// Length limit of a path.
const MAX_PATH_BYTES: usize = 200;
/// Nesting limit of folders.
pub(crate) const MAX_DEPTH: usize = 8;

/// Reason why a file cannot be part of a skill.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The path leads out of the folder, or two programs could read it differently.
    #[error(
        "the path is not plain: relative, with / between names, without `.`, `..`, \\ or control \
         characters"
    )]
    Path,
    /// The path is too long or too deep.
    #[error("the path is longer than {MAX_PATH_BYTES} bytes or deeper than {MAX_DEPTH} folders")]
    LongPath,
    /// The name is not UTF-8.
    #[error("the name is not UTF-8")]
    Name,
    /// The path occurs twice (ignoring case), or is both a file and a folder.
    #[error("the path collides with `{0}`")]
    Collision(String),
    /// Symbolic or hard link.
    #[error("links are refused")]
    Link,
    /// Device, socket, FIFO or unknown kind.
    #[error("only files and folders are possible")]
    Special,
    /// Set-user-id or set-group-id bit.
    #[error("set-user-id and set-group-id bits are refused")]
    Privileges,
    /// The file is too large.
    #[error("larger than {} MiB", MAX_FILE_BYTES >> 20)]
    Large,
    /// All files together are too large.
    #[error("all files together are larger than {} MiB", MAX_TOTAL_BYTES >> 20)]
    TotalLarge,
    /// There are too many files.
    #[error("more than {MAX_FILES} files")]
    Many,
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
}

/// Files of one skill by path.
///
/// Invariant: paths are plain and bounded, and so are the number and size of files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Files {
    by_path: BTreeMap<String, Arc<[u8]>>,
    bytes: u64,
}

impl Files {
    /// Adds a file.
    pub(crate) fn add(&mut self, path: &str, content: Vec<u8>) -> Result<(), Problem> {
        check_path(path)?;
        let size = content.len() as u64;
        if size > MAX_FILE_BYTES {
            return Err(Problem::Large);
        }
        if self.bytes + size > MAX_TOTAL_BYTES {
            return Err(Problem::TotalLarge);
        }
        if self.by_path.len() == MAX_FILES {
            return Err(Problem::Many);
        }
        if self.by_path.contains_key(path) {
            return Err(Problem::Collision(shown(path)));
        }
        self.bytes += size;
        self.by_path.insert(path.to_owned(), content.into());
        Ok(())
    }

    /// Number of bytes that may still be added.
    pub(crate) fn room(&self) -> u64 {
        MAX_TOTAL_BYTES - self.bytes
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Arc<[u8]>> {
        self.by_path.get(path)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Arc<[u8]>)> {
        self.by_path.iter().map(|(path, content)| (path.as_str(), content))
    }

    /// Files without the common outer folder, if there is one with the skill in it: archives are made
    /// of a folder as often as of its content.
    pub(crate) fn unwrapped(self) -> Self {
        let Some(top) = self.wrapper() else { return self };
        let cut = top.len() + 1;
        let by_path =
            self.by_path.into_iter().map(|(path, content)| (path[cut..].to_owned(), content));
        Self { by_path: by_path.collect(), bytes: self.bytes }
    }

    fn wrapper(&self) -> Option<String> {
        if self.by_path.contains_key("skill.yaml") {
            return None;
        }
        let (top, _) = self.by_path.keys().next()?.split_once('/')?;
        let inside = |path: &String| path.split_once('/').is_some_and(|(first, _)| first == top);
        self.by_path.keys().all(inside).then(|| top.to_owned())
    }

    /// Digest of a listing with every file's digest, size and path, sorted by path. Paths have no
    /// control characters, so no two sets of files share a listing.
    pub(crate) fn digest(&self) -> Digest {
        let mut listing = String::from("skill 1\n");
        for (path, content) in &self.by_path {
            let digest = Digest::of(content).hex();
            writeln!(listing, "{digest} {} {path}", content.len())
                .expect("writing to a string cannot fail");
        }
        Digest::of(listing.as_bytes())
    }
}

/// Whether a name never belongs to a skill: hidden files, caches of Python, backups of editors.
/// Such files are neither read nor given to the sandbox, so that a test run beside a skill does not
/// change its digest.
pub(crate) fn is_ignored(name: &str) -> bool {
    name.starts_with('.')
        || name.ends_with('~')
        || matches!(name, "__pycache__" | "__MACOSX")
        || name.ends_with(".pyc")
}

/// Refuses paths that are not plain.
pub(crate) fn check_path(path: &str) -> Result<(), Problem> {
    if path.len() > MAX_PATH_BYTES || path.split('/').count() > MAX_DEPTH + 1 {
        return Err(Problem::LongPath);
    }
    let plain = |name: &str| {
        let strange = |c: char| c.is_control() || matches!(c, '\\' | ':' | '\u{fffd}');
        !matches!(name, "" | "." | "..") && !name.contains(strange)
    };
    if path.split('/').all(plain) { Ok(()) } else { Err(Problem::Path) }
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
