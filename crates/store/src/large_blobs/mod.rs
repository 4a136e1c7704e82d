//! Stores of large blobs: a directory that all processes see, or an S3-compatible store.

mod directory;
mod s3;

use std::{fmt::Debug, io};

use async_trait::async_trait;
use ringfence_types::Digest;

pub use self::{
    directory::BlobDirectory,
    s3::{InvalidS3, S3Blobs, S3Config},
};

/// Store of large blobs, shared by all processes of an installation.
///
/// A blob is put before the row that names it is written, and its digest is noted before that. One whose row
/// was never written is removed some time later: another process may write a row for the same bytes.
///
/// Contract, checked by `contract::large_blobs`:
/// - **Durable.** Bytes that were put survive a crash of every process.
/// - **Whole.** A reader finds all bytes of a blob or none, also while they are put.
/// - **By digest.** Equal bytes may be put by several processes at once, and are there once.
#[async_trait]
pub trait LargeBlobs: Debug + Send + Sync + 'static {
    /// Keeps bytes under their digest, durably. Bytes that are there already are left alone.
    async fn put(&self, digest: Digest, bytes: Vec<u8>) -> io::Result<()>;

    /// Removes bytes; nothing if they are not there.
    async fn remove(&self, digest: Digest) -> io::Result<()>;

    /// Exactly `length` bytes from `start`; [`io::ErrorKind::NotFound`] if there is no such blob.
    async fn read(&self, digest: Digest, start: u64, length: u64) -> io::Result<Vec<u8>>;
}

/// Bytes that a check puts and reads.
const PROBE: &[u8] = b"ringfence writes this to check that it can keep blobs here";

/// Checks that a store keeps what is put and can be read.
pub async fn check_large_blobs(store: &dyn LargeBlobs) -> io::Result<()> {
    let digest = Digest::of(PROBE);
    store.put(digest, PROBE.to_vec()).await?;
    match store.read(digest, 0, PROBE.len() as u64).await? == PROBE {
        true => Ok(()),
        false => {
            Err(io::Error::new(io::ErrorKind::InvalidData, "it gives other bytes than were put"))
        }
    }
}
