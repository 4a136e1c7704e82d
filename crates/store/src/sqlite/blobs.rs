//! Bytes by digest: small ones in the table, large ones in files. A row decides what exists.

use std::{io, sync::Arc, time::Duration};

use ringfence_sqlite::{Connection, Db};
use ringfence_types::Digest;
use rusqlite::{OptionalExtension as _, params};

use super::{
    erasure,
    files::{Doomed, Files, Held},
    rows,
};
use crate::{BlobCount, Error};

/// The largest blob that is kept in the table.
pub(super) const INLINE: usize = 16 << 10;

/// Puts large blobs into files, on disk, before any row names them.
pub(super) async fn hold(files: &Arc<Files>, blobs: Vec<(Digest, Vec<u8>)>) -> Result<Held, Error> {
    let files = Arc::clone(files);
    blocking("write a blob", move || Held::write(files, &blobs)).await
}

pub(super) async fn read(
    db: &Db,
    files: &Arc<Files>,
    digest: Digest,
    offset: u64,
    limit: u64,
) -> Result<Option<Vec<u8>>, Error> {
    let Some((size, inline)) = row(db, digest).await? else { return Ok(None) };
    let start = offset.min(size);
    let length = limit.min(size - start);
    let bytes = match inline {
        Some(bytes) => part(bytes, start, length),
        None => {
            let files = Arc::clone(files);
            blocking("read a blob", move || files.read(digest, start, length)).await?
        }
    };
    // The whole is at hand, so the check costs no further reading.
    if length == size && Digest::of(&bytes) != digest {
        let damaged = io::Error::new(io::ErrorKind::InvalidData, "the bytes have another digest");
        return Err(Error::backend("read a blob")(damaged));
    }
    Ok(Some(bytes))
}

fn part(mut bytes: Vec<u8>, start: u64, length: u64) -> Vec<u8> {
    // Both are within the bytes, which are in memory.
    bytes.drain(..start as usize);
    bytes.truncate(length as usize);
    bytes
}

/// Its size, and its bytes unless they are in a file.
async fn row(db: &Db, digest: Digest) -> Result<Option<(u64, Option<Vec<u8>>)>, Error> {
    db.read(move |connection| {
        let sql = "SELECT size, bytes FROM blobs WHERE digest = ?1";
        let mut statement = connection.prepare_cached(sql)?;
        let row = statement.query_row([digest.as_bytes()], |row| {
            Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?))
        });
        Ok(row.optional()?)
    })
    .await
}

/// Removes blobs without an owner: the row in a transaction, then the file.
pub(super) async fn collect(
    db: &Db,
    files: &Arc<Files>,
    unused_for: Duration,
    limit: usize,
) -> Result<BlobCount, Error> {
    let found = db.read(move |connection| unused(connection, unused_for, limit)).await?;
    if found.is_empty() {
        return Ok(BlobCount::default());
    }
    let large = found.iter().filter(|unused| unused.is_large).map(|unused| unused.digest);
    let (files, large) = (Arc::clone(files), large.collect());
    let doomed = blocking("remove a blob", move || Doomed::mark(files, large)).await?;
    let seconds = unused_for.as_secs() as i64;
    let removed = db.write_then(
        move |connection| erasure::overwritten(connection, || remove(connection, &found, seconds)),
        move |removed: &Vec<Unused>| doomed.remove(removed.iter().map(|blob| blob.digest)),
    );
    let removed = removed.await?;
    let bytes = removed.iter().map(|blob| blob.size).sum();
    Ok(BlobCount { blobs: removed.len() as u64, bytes })
}

/// A blob without an owner.
#[derive(Debug, Clone, Copy)]
struct Unused {
    digest: Digest,
    size: u64,
    is_large: bool,
}

fn unused(
    connection: &Connection,
    unused_for: Duration,
    limit: usize,
) -> Result<Vec<Unused>, Error> {
    let sql = "SELECT digest, size, bytes IS NULL FROM blobs
               WHERE unused_since <= unixepoch() - ?1 ORDER BY unused_since LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let found =
        statement.query_map(params![unused_for.as_secs() as i64, rows::page(limit)], |row| {
            let (digest, is_large) = (rows::digest(row, 0)?, row.get(2)?);
            Ok(Unused { digest, size: row.get::<_, i64>(1)?.cast_unsigned(), is_large })
        })?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Removes blobs that still have no owner.
fn remove(connection: &Connection, found: &[Unused], seconds: i64) -> Result<Vec<Unused>, Error> {
    let mut removed = Vec::new();
    for unused in found {
        let rows = connection
            .prepare_cached(
                "DELETE FROM blobs WHERE digest = ?1 AND unused_since <= unixepoch() - ?2
                 AND NOT EXISTS (SELECT 1 FROM blob_uses WHERE blob_uses.digest = ?1)",
            )?
            .execute(params![unused.digest.as_bytes(), seconds])?;
        removed.extend((rows == 1).then_some(*unused));
    }
    Ok(removed)
}

/// Removes files that were written for a transaction which never was.
pub(super) async fn sweep(db: &Db, files: &Arc<Files>) -> Result<(), Error> {
    for digest in files.unsettled().map_err(Error::backend("list unsettled blobs"))? {
        let exists = row(db, digest).await?.is_some();
        files.settle(digest, exists).map_err(Error::backend("remove a blob"))?;
    }
    files.forget_markers().map_err(Error::backend("tidy the blobs"))
}

async fn blocking<T: Send + 'static>(
    doing: &'static str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result.map_err(Error::backend(doing)),
        Err(stopped) => Err(Error::backend(doing)(stopped)),
    }
}
