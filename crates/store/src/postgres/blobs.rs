//! Bytes by digest: small ones in the table, large ones in a store of their own. A row decides what exists.

use std::{io, time::Duration};

use ringfence_types::Digest;

use super::pool::Pool;
use crate::{Error, LargeBlobs};

/// Largest blob that is kept in the table.
pub(super) const MAX_INLINE: usize = 256 << 10;

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
