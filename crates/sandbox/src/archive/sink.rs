//! Targets of unpacking.

use std::io::Read;

use crate::files::{BoxPath, Reason, Refused, Workspace};

/// Mode and time of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// Permission bits; never set-user-id or set-group-id.
    pub mode: u32,
    /// Seconds since the epoch at which the content last changed.
    pub modified_secs: i64,
}

/// Target of unpacking.
///
/// Contract: every method acts beneath the sink's own root, follows no symbolic link and makes
/// missing parents. Names are checked before: relative, without `..`, each at most once.
pub trait Sink {
    /// Makes a directory; one that exists gets the mode.
    fn directory(&mut self, path: &BoxPath, meta: Meta) -> Result<(), Refused>;
    /// Writes a file, reading `content` to its end; an error of `content` is returned inside
    /// [`crate::files::Reason::Io`] and nothing stays at `path`.
    fn file(&mut self, path: &BoxPath, meta: Meta, content: &mut dyn Read) -> Result<u64, Refused>;
    /// Makes a symbolic link holding `target` verbatim.
    fn symlink(&mut self, path: &BoxPath, target: &[u8]) -> Result<(), Refused>;
    /// Gives the regular file `original` a second name.
    fn hard_link(&mut self, path: &BoxPath, original: &BoxPath) -> Result<(), Refused>;
}

/// Sink that unpacks into a directory of a workspace, which is made if it is missing.
#[derive(Debug)]
pub struct WorkspaceSink<'a> {
    /// The workspace.
    pub workspace: &'a Workspace,
    /// The directory in it.
    pub at: BoxPath,
}

impl WorkspaceSink<'_> {
    fn path(&self, path: &BoxPath) -> Result<BoxPath, Refused> {
        let joined = self.at.join(path.as_bytes());
        joined.map_err(|error| Refused { path: path.clone(), reason: Reason::Name(error) })
    }
}

impl Sink for WorkspaceSink<'_> {
    fn directory(&mut self, path: &BoxPath, meta: Meta) -> Result<(), Refused> {
        let path = self.path(path)?;
        self.workspace.make_dir(&path)?;
        // The owner keeps access, so that the directory can be filled and removed again.
        self.workspace.set_dir_mode(&path, meta.mode & 0o777 | 0o700)
    }

    fn file(&mut self, path: &BoxPath, meta: Meta, content: &mut dyn Read) -> Result<u64, Refused> {
        self.workspace.put(&self.path(path)?, meta.mode & 0o777, content)
    }

    fn symlink(&mut self, path: &BoxPath, target: &[u8]) -> Result<(), Refused> {
        self.workspace.symlink(&self.path(path)?, target)
    }

    fn hard_link(&mut self, path: &BoxPath, original: &BoxPath) -> Result<(), Refused> {
        self.workspace.hard_link(&self.path(path)?, &self.path(original)?)
    }
}
