//! Large blobs as files of a directory.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use ringfence_types::Digest;
use uuid::Uuid;

use crate::LargeBlobs;

/// Large blobs as files of a directory that all processes see, named by their digests.
#[derive(Debug, Clone)]
pub struct BlobDirectory {
    directory: PathBuf,
}

impl BlobDirectory {
    /// Directory of blobs, made if it is not there.
    pub fn open(directory: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        Ok(Self { directory: directory.to_owned() })
    }

    /// Directory of blobs that is only read, and not made.
    pub fn to_read(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    fn path(&self, digest: Digest) -> PathBuf {
        self.directory.join(digest.hex())
    }
}

#[async_trait]
impl LargeBlobs for BlobDirectory {
    async fn put(&self, digest: Digest, bytes: Vec<u8>) -> io::Result<()> {
        let (directory, path) = (self.directory.clone(), self.path(digest));
        blocking(move || {
            if path.exists() {
                return Ok(());
            }
            let incoming = directory.join(format!("incoming-{}", Uuid::now_v7()));
            let written = write(&incoming, &path, &bytes);
            if written.is_err() {
                // What could not be written is not kept in part.
                let _ = fs::remove_file(&incoming);
            }
            written?;
            File::open(&directory)?.sync_all()
        })
        .await
    }

    async fn remove(&self, digest: Digest) -> io::Result<()> {
        let path = self.path(digest);
        blocking(move || match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        })
        .await
    }

    async fn read(&self, digest: Digest, start: u64, length: u64) -> io::Result<Vec<u8>> {
        let path = self.path(digest);
        blocking(move || {
            let length = usize::try_from(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
            let mut bytes = vec![0; length];
            File::open(path)?.read_exact_at(&mut bytes, start)?;
            Ok(bytes)
        })
        .await
    }
}

/// Written under another name first, so what is there is whole.
fn write(incoming: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(incoming)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(incoming, path)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
