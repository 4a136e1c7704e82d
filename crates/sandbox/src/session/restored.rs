//! Sink that restores a snapshot into an empty workspace, times included.

use std::io::Read;

use crate::{
    archive::{Meta, Sink, WorkspaceSink},
    files::{BoxPath, Refused, Workspace},
};

/// Sink that unpacks like [`WorkspaceSink`] and also restores the times of files and directories, because
/// build tools compare them.
pub(super) struct Restored<'a> {
    into: WorkspaceSink<'a>,
    /// Directories and their times, set at the end: adding an entry changes the directory's time.
    directories: Vec<(BoxPath, i64)>,
}

impl<'a> Restored<'a> {
    pub(super) fn new(workspace: &'a Workspace) -> Self {
        Self { into: WorkspaceSink { workspace, at: BoxPath::root() }, directories: Vec::new() }
    }

    pub(super) fn finish(self) -> Result<(), Refused> {
        for (path, modified_secs) in &self.directories {
            self.into.workspace.set_modified(path, *modified_secs)?;
        }
        Ok(())
    }
}

impl Sink for Restored<'_> {
    fn directory(&mut self, path: &BoxPath, meta: Meta) -> Result<(), Refused> {
        self.into.directory(path, meta)?;
        self.directories.push((path.clone(), meta.modified_secs));
        Ok(())
    }

    fn file(&mut self, path: &BoxPath, meta: Meta, content: &mut dyn Read) -> Result<u64, Refused> {
        let bytes = self.into.file(path, meta, content)?;
        self.into.workspace.set_modified(path, meta.modified_secs)?;
        Ok(bytes)
    }

    fn symlink(&mut self, path: &BoxPath, target: &[u8]) -> Result<(), Refused> {
        self.into.symlink(path, target)
    }

    fn hard_link(&mut self, path: &BoxPath, original: &BoxPath) -> Result<(), Refused> {
        self.into.hard_link(path, original)
    }
}
