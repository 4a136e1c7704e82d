//! Copies of uploads on disk, made after those that the store has.

use std::{io, sync::PoisonError};

use ringfence_types::{Digest, Timestamp, ToolRef};

use super::{package, store};
use crate::{registry::Registry, skill};

/// Upload on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedUpload {
    /// Digest in the name of its folder.
    pub digest: Digest,
    /// The skill; none if its files are not those of the digest.
    pub tool: Option<ToolRef>,
    /// Time of its registration.
    pub since: Option<Timestamp>,
}

impl Registry {
    /// Uploads on disk, whole or damaged. Blocks on files.
    pub fn copies(&self) -> io::Result<Vec<CopiedUpload>> {
        let stored = match store::stored(&self.inner.sources.uploads) {
            // The folder itself was lost.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            stored => stored?.into_iter(),
        };
        let copies = stored.map(|stored| {
            let (digest, since) = (stored.digest, stored.since);
            let files = stored.files.ok().filter(|files| files.digest() == digest);
            let skill = files.and_then(|files| skill::load(&files).ok());
            let tool = skill.map(|skill| ToolRef {
                name: skill.manifest.name,
                version: skill.manifest.version.as_str().to_owned(),
                digest,
            });
            CopiedUpload { digest, tool, since }
        });
        Ok(copies.collect())
    }

    /// Package of an upload on disk; none if there is no whole one. Blocks on files.
    pub fn package(&self, digest: Digest) -> io::Result<Option<Vec<u8>>> {
        let stored = store::stored(&self.inner.sources.uploads)?.into_iter();
        let found = stored.filter(|stored| stored.digest == digest).find_map(|it| it.files.ok());
        let whole = found.filter(|files| files.digest() == digest);
        whole.map(|files| package::pack(&files)).transpose()
    }

    /// Puts the files of a package on disk, for the next scan. Blocks on files.
    pub fn copy(&self, digest: Digest, package: &[u8], at: Timestamp) -> io::Result<()> {
        let files = package::unpack(package, digest)?;
        let _alone = self.inner.writer.lock().unwrap_or_else(PoisonError::into_inner);
        // The folder may have been lost while the server runs.
        std::fs::create_dir_all(&self.inner.sources.uploads)?;
        store::keep(&self.inner.sources.uploads, digest, &files, at)
    }

    /// Removes an upload from disk, for the next scan. Blocks on files.
    pub fn discard(&self, digest: Digest) -> io::Result<()> {
        let _alone = self.inner.writer.lock().unwrap_or_else(PoisonError::into_inner);
        store::forget(&self.inner.sources.uploads, digest)
    }
}
