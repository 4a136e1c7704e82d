//! Owners of blobs, and the removal of blobs without one.

use std::time::Duration;

use ringfence_types::Digest;
use tokio_postgres::Row;

use super::{
    PostgresUrl,
    connect::{DbError, Link},
    pool::Pool,
    rows,
};
use crate::{BlobCount, BlobOwner, Error, LargeBlobs, encoding::page};

/// Time for which bytes in the store for large blobs stay after they were last put, whatever their rows say: a
/// process that put them writes the row that names them well within it.
const PUT_GRACE: Duration = Duration::from_secs(600);

/// Most that the removal of one blob from the store for large ones takes.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(20);

const LIST: &str = "SELECT digest, size FROM blob_uses JOIN blobs USING (digest)
    WHERE kind = $1 AND owner = $2 ORDER BY digest";

const END_USES: &str = "DELETE FROM blob_uses WHERE kind = $1 AND owner = ANY($2)
    RETURNING digest";

/// A use that another process commits meanwhile is not seen here. Then the blob has an owner and a time since
/// which it has none; only one without an owner is removed.
const MARK_UNUSED: &str = "UPDATE blobs SET unused_since = now() FROM
    (SELECT digest FROM blobs WHERE digest = ANY($1) ORDER BY digest FOR UPDATE) AS released
    WHERE blobs.digest = released.digest
    AND NOT EXISTS (SELECT 1 FROM blob_uses WHERE blob_uses.digest = blobs.digest)
    RETURNING blobs.size";

const FIND_UNUSED: &str = "SELECT digest FROM blobs
    WHERE unused_since <= now() - make_interval(secs => $1)
    AND NOT EXISTS (SELECT 1 FROM blob_uses WHERE blob_uses.digest = blobs.digest)
    ORDER BY unused_since LIMIT $2";

/// Rows that a step under way refers to are locked by its foreign key, and are skipped.
const REMOVE: &str = "DELETE FROM blobs WHERE digest =
    (SELECT digest FROM blobs WHERE digest = $1 AND unused_since <= now() - make_interval(secs => $2)
     AND NOT EXISTS (SELECT 1 FROM blob_uses WHERE blob_uses.digest = $1) FOR UPDATE SKIP LOCKED)
    RETURNING size";

const FIND_LARGE: &str = "SELECT digest FROM large_blobs
    WHERE put_at <= now() - make_interval(secs => $1)
    AND NOT EXISTS (SELECT 1 FROM blobs WHERE blobs.digest = large_blobs.digest)
    ORDER BY put_at LIMIT $2";

const LOCK_LARGE: &str = "SELECT 1 FROM large_blobs
    WHERE digest = $1 AND put_at <= now() - make_interval(secs => $2)
    AND NOT EXISTS (SELECT 1 FROM blobs WHERE blobs.digest = large_blobs.digest)
    FOR UPDATE SKIP LOCKED";

pub(super) async fn list(pool: &Pool, owner: BlobOwner) -> Result<Vec<(Digest, u64)>, Error> {
    let (kind, id) = owner.columns();
    let found = pool.read().await?.query(LIST, &[&kind, &id]).await?;
    let blob = |row: &Row| {
        let size: i64 = row.try_get(1)?;
        Ok((digest(row)?, size.cast_unsigned()))
    };
    found.iter().map(blob).collect()
}

/// Ends the ownership of all blobs of an owner.
pub(super) async fn release(pool: &Pool, owner: BlobOwner) -> Result<BlobCount, Error> {
    let link = Link::open(pool.url()).await?;
    link.batch("BEGIN").await?;
    let count = release_in(&link, &[owner]).await?;
    link.batch("COMMIT").await?;
    Ok(count)
}

/// Ends the ownership of all blobs of owners of one kind, within a transaction of the caller's.
pub(super) async fn release_in(link: &Link, owners: &[BlobOwner]) -> Result<BlobCount, DbError> {
    let Some((kind, _)) = owners.first().map(|owner| owner.columns()) else {
        return Ok(BlobCount::default());
    };
    let ids: Vec<_> = owners.iter().map(|owner| owner.columns().1).collect();
    let mut digests: Vec<Vec<u8>> = Vec::new();
    for row in link.query(END_USES, &[&kind, &ids]).await? {
        digests.push(row.try_get(0)?);
    }
    let mut count = BlobCount::default();
    for row in link.query(MARK_UNUSED, &[&digests]).await? {
        count.blobs += 1;
        count.bytes += row.try_get::<_, i64>(0)?.cast_unsigned();
    }
    Ok(count)
}

/// Removes rows of blobs without an owner, then bytes in the store for large blobs that no row names.
pub(super) async fn collect(
    url: &PostgresUrl,
    large: &dyn LargeBlobs,
    unused_for: Duration,
    limit: usize,
) -> Result<BlobCount, Error> {
    let link = Link::open(url).await?;
    let seconds = unused_for.as_secs_f64();
    let mut count = BlobCount::default();
    for row in link.query(FIND_UNUSED, &[&seconds, &page(limit)]).await? {
        let digest: &[u8] = row.try_get(0)?;
        match link.first(REMOVE, &[&digest, &seconds]).await {
            Ok(Some(row)) => {
                count.blobs += 1;
                count.bytes += row.try_get::<_, i64>(0)?.cast_unsigned();
            }
            Ok(None) => {}
            // A step referred to it at the same moment, and the foreign key kept it.
            Err(error) if is_referred(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let grace = unused_for.max(PUT_GRACE).as_secs_f64();
    for row in link.query(FIND_LARGE, &[&grace, &page(limit)]).await? {
        remove_large(&link, large, digest(&row)?, grace).await?;
    }
    Ok(count)
}

fn digest(row: &Row) -> Result<Digest, Error> {
    rows::whole(row, ("blobs", 0), |row| rows::digest(row, 0))
}

fn is_referred(error: &DbError) -> bool {
    error.code() == Some(&tokio_postgres::error::SqlState::FOREIGN_KEY_VIOLATION)
}

/// The row is locked while the bytes go: a process that puts the same bytes waits, and then puts them anew.
async fn remove_large(
    link: &Link,
    large: &dyn LargeBlobs,
    digest: Digest,
    grace: f64,
) -> Result<(), Error> {
    let key = digest.as_bytes().as_slice();
    link.batch("BEGIN; SET LOCAL idle_in_transaction_session_timeout = '60s'").await?;
    if link.first(LOCK_LARGE, &[&key, &grace]).await?.is_some() {
        let removed = tokio::time::timeout(REMOVE_TIMEOUT, large.remove(digest)).await;
        let removed = removed.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
        removed.map_err(Error::backend("remove a blob"))?;
        link.execute("DELETE FROM large_blobs WHERE digest = $1", &[&key]).await?;
    }
    link.batch("COMMIT").await?;
    Ok(())
}
