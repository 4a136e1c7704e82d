//! Bytes by digest: small ones in the table, large ones in a store of their own. A row decides what exists.

use std::{
    fmt::Debug,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use async_trait::async_trait;
use ringfence_types::Digest;
use uuid::Uuid;

use super::pool::Pool;
use crate::Error;

/// Largest blob that is kept in the table.
pub(super) const MAX_INLINE: usize = 256 << 10;

/// Store of large blobs, shared by all processes of an installation.
///
/// A blob is put before the row that names it is written, and its digest is noted before that. One whose row
/// was never written is removed some time later: another process may write a row for the same bytes.
#[async_trait]
pub trait LargeBlobs: Debug + Send + Sync + 'static {
    /// Keeps bytes under their digest, durably. Bytes that are there already are left alone.
    async fn put(&self, digest: Digest, bytes: Vec<u8>) -> io::Result<()>;

    /// Removes bytes; nothing if they are not there.
    async fn remove(&self, digest: Digest) -> io::Result<()>;

    /// Exactly `length` bytes from `start`.
    async fn read(&self, digest: Digest, start: u64, length: u64) -> io::Result<Vec<u8>>;
}

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

/// Time limit of putting a blob, far below the time after which one without a row is removed.
const PUT_TIMEOUT: Duration = Duration::from_secs(120);

const NOTE_PUT: &str = "INSERT INTO large_blobs (digest) VALUES ($1)
    ON CONFLICT (digest) DO UPDATE SET put_at = now()";

/// Keeps large bytes. Their digest is noted first, so that they are found if no row ever names them, and stay
/// until a row can name them.
pub(super) async fn put(
    pool: &Pool,
    large: &dyn LargeBlobs,
    digest: Digest,
    bytes: Vec<u8>,
) -> Result<(), Error> {
    pool.read().await?.execute(NOTE_PUT, &[&digest.as_bytes().as_slice()]).await?;
    let put = tokio::time::timeout(PUT_TIMEOUT, large.put(digest, bytes)).await;
    let put = put.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    put.map_err(Error::backend("write a blob"))
}

pub(super) async fn read(
    pool: &Pool,
    large: &dyn LargeBlobs,
    digest: Digest,
    offset: u64,
    limit: u64,
) -> Result<Option<Vec<u8>>, Error> {
    let key = digest.as_bytes().as_slice();
    let link = &*pool.read().await?;
    let sql = "SELECT size, bytes IS NULL FROM blobs WHERE digest = $1";
    let Some(row) = link.first(sql, &[&key]).await? else { return Ok(None) };
    let (size, is_large): (i64, bool) = (row.try_get(0)?, row.try_get(1)?);
    let size = size.cast_unsigned();
    let start = offset.min(size);
    let length = limit.min(size - start);
    let bytes = if is_large {
        large.read(digest, start, length).await.map_err(Error::backend("read a blob"))?
    } else {
        // Both are within the size, which is small.
        let (from, count) = (start as i32 + 1, length as i32);
        let sql = "SELECT substring(bytes FROM $2 FOR $3) FROM blobs WHERE digest = $1";
        link.one(sql, &[&key, &from, &count]).await?.try_get(0)?
    };
    // The whole is at hand, so the check costs no further reading.
    if length == size && Digest::of(&bytes) != digest {
        let damaged = io::Error::new(io::ErrorKind::InvalidData, "the bytes have another digest");
        return Err(Error::backend("read a blob")(damaged));
    }
    Ok(Some(bytes))
}
