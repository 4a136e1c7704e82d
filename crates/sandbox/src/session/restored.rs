//! An empty workspace that gets back what a snapshot holds, times included.

use std::io::Read;

use crate::{
    archive::{Into, Meta, Sink},
    files::{BoxPath, Refused, Workspace},
};

/// Unpacks like [`Into`], and gives files and directories the times they had: build tools compare
/// them.
pub(super) struct Restored<'a> {
    into: Into<'a>,
    /// Directories and their times, set at the end: putting something into one changes its own.
    directories: Vec<(BoxPath, i64)>,
}

impl<'a> Restored<'a> {
    pub(super) fn new(workspace: &'a Workspace) -> Self {
        Self { into: Into { workspace, at: BoxPath::root() }, directories: Vec::new() }
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
