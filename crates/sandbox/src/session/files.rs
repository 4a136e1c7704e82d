//! Asynchronous access to a session's workspace.
//!
//! [`Workspace`] and [`archive`] on a blocking thread. In addition, writing waits for a freeze in
//! progress and is refused while the session is paused; reading is not.

use std::{
    io::{Read, Seek, Write},
    sync::Arc,
};

use ringfence_policy::Permit;

use super::{Error, Watcher, shared::Shared};
use crate::{
    archive::{self, PackOptions, Packed, Policy, UnpackLimits},
    files::{Artifact, BoxPath, Entry, ListOptions, Listing, Refused, Workspace},
};

/// Read access to the files of one session. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Files {
    shared: Arc<Shared>,
}

/// Write access to the files of one session for one request. It cannot be cloned: its permit is for
/// that request alone.
#[derive(Debug)]
pub struct FileChanges {
    shared: Arc<Shared>,
}

impl Files {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Opens a regular file for reading.
    pub async fn get(&self, path: &BoxPath) -> Result<Artifact, Error> {
        let path = path.clone();
        self.read(move |workspace| Ok(workspace.get(&path)?)).await
    }

    /// Content of a regular file. Its size is bounded by the workspace's.
    pub async fn content(&self, path: &BoxPath) -> Result<Vec<u8>, Error> {
        let path = path.clone();
        self.read(move |workspace| {
            let mut content = Vec::new();
            let copied = workspace.get(&path)?.copy_to(&mut content);
            copied.map_err(|error| Refused::io(&path, error))?;
            Ok(content)
        })
        .await
    }

    /// Lists a directory.
    pub async fn list(&self, path: &BoxPath, options: ListOptions) -> Result<Listing, Error> {
        let path = path.clone();
        self.read(move |workspace| Ok(workspace.list(&path, options)?)).await
    }

    /// Metadata of one name; a symbolic link is reported as a link.
    pub async fn stat(&self, path: &BoxPath) -> Result<Entry, Error> {
        let path = path.clone();
        self.read(move |workspace| Ok(workspace.stat(&path)?)).await
    }

    /// Watches a directory, and all below it if `recursive`, until the watcher is dropped or the
    /// session ends.
    pub async fn watch(&self, path: &BoxPath, recursive: bool) -> Result<Watcher, Error> {
        let path = path.clone();
        let watch = self.read(move |workspace| Ok(workspace.watch(&path, recursive)?)).await?;
        Watcher::new(watch, &self.shared)
    }

    /// Writes a directory or file as tar.
    pub async fn archive_out<W: Write + Send + 'static>(
        &self,
        path: &BoxPath,
        mut writer: W,
        options: PackOptions,
    ) -> Result<(Packed, W), Error> {
        let path = path.clone();
        self.read(move |workspace| {
            let packed = archive::pack(workspace, &path, &mut writer, options)?;
            Ok((packed, writer))
        })
        .await
    }

    async fn read<R: Send + 'static>(
        &self,
        work: impl FnOnce(&Workspace) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        let used = self.shared.look()?;
        blocking(move || work(&used.workspace)).await
    }
}

impl FileChanges {
    /// Takes the permit, which covers all changes of one request.
    pub(super) fn new(shared: Arc<Shared>, _permit: Permit) -> Self {
        Self { shared }
    }

    /// Writes a file atomically, making its parents. Returns its size.
    pub async fn put(
        &self,
        path: &BoxPath,
        mode: u32,
        mut content: impl Read + Send + 'static,
    ) -> Result<u64, Error> {
        let path = path.clone();
        self.write(move |workspace| Ok(workspace.put(&path, mode, &mut content)?)).await
    }

    /// Makes a directory and its parents; one that exists is fine.
    pub async fn make_dir(&self, path: &BoxPath) -> Result<(), Error> {
        let path = path.clone();
        self.write(move |workspace| Ok(workspace.make_dir(&path)?)).await
    }

    /// Removes a file, a link, or a directory with its content. Returns the number of removed
    /// entries.
    pub async fn remove(&self, path: &BoxPath) -> Result<usize, Error> {
        let path = path.clone();
        self.write(move |workspace| Ok(workspace.remove(&path)?)).await
    }

    /// Renames a file or directory, replacing the target as `rename(2)` does.
    pub async fn rename(&self, from: &BoxPath, to: &BoxPath) -> Result<(), Error> {
        let (from, to) = (from.clone(), to.clone());
        self.write(move |workspace| Ok(workspace.rename(&from, &to)?)).await
    }

    /// Unpacks a client's archive into a directory, which is made if missing. Files and directories
    /// only. Entries before a refused one stay.
    pub async fn archive_in(
        &self,
        at: &BoxPath,
        archive: impl Read + Seek + Send + 'static,
    ) -> Result<archive::UnpackReport, Error> {
        let (at, limits) = (at.clone(), self.unpack_limits());
        self.write(move |workspace| {
            let mut sink = archive::WorkspaceSink { workspace, at };
            Ok(archive::unpack(archive, &mut sink, Policy::UPLOAD, limits)?)
        })
        .await
    }

    /// Limits of an archive: those of the workspace.
    fn unpack_limits(&self) -> UnpackLimits {
        let limits = &self.shared.request.limits;
        UnpackLimits { bytes: limits.disk.0, entries: limits.inodes, ..UnpackLimits::default() }
    }

    async fn write<R: Send + 'static>(
        &self,
        work: impl FnOnce(&Workspace) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        let used = self.shared.change().await?;
        // The guard moves along: even if cancelled, the session counts as in use until this is
        // done.
        blocking(move || {
            let used = used;
            work(&used.workspace)
        })
        .await
    }
}

pub(super) async fn blocking<R: Send + 'static>(
    work: impl FnOnce() -> Result<R, Error> + Send + 'static,
) -> Result<R, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(crate::Error::Gone("task that handled files").into()))
}
