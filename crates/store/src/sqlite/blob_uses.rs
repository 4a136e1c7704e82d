//! Owners of blobs.

use ringfence_sqlite::{Connection, Db};
use ringfence_types::Digest;
use rusqlite::params;

use super::rows;
use crate::{BlobCount, BlobOwner, Error};

/// Makes an owner of a blob, if there is such a blob, within a transaction of the caller's.
pub(super) fn insert(
    connection: &Connection,
    owner: BlobOwner,
    digest: Digest,
) -> Result<(), Error> {
    let (kind, id) = owner.columns();
    connection
        .prepare_cached(
            "INSERT INTO blob_uses (digest, kind, owner) SELECT digest, ?2, ?3 FROM blobs
             WHERE digest = ?1 ON CONFLICT DO NOTHING",
        )?
        .execute(params![digest.as_bytes(), kind, id.as_bytes()])?;
    connection
        .prepare_cached(
            "UPDATE blobs SET unused_since = NULL WHERE digest = ?1 AND unused_since IS NOT NULL",
        )?
        .execute([digest.as_bytes()])?;
    Ok(())
}

pub(super) async fn list(db: &Db, owner: BlobOwner) -> Result<Vec<(Digest, u64)>, Error> {
    db.read(move |connection| of(connection, owner)).await
}

fn of(connection: &Connection, owner: BlobOwner) -> Result<Vec<(Digest, u64)>, Error> {
    let (kind, id) = owner.columns();
    let sql = "SELECT blobs.digest, size FROM blob_uses JOIN blobs USING (digest)
               WHERE kind = ?1 AND owner = ?2 ORDER BY blobs.digest";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_map(params![kind, id.as_bytes()], |row| {
        Ok((rows::digest(row, 0)?, row.get::<_, i64>(1)?.cast_unsigned()))
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Ends the ownership of all blobs of an owner, within a transaction of the caller's.
pub(super) fn release(connection: &Connection, owner: BlobOwner) -> Result<BlobCount, Error> {
    let owned = of(connection, owner)?;
    let (kind, id) = owner.columns();
    connection
        .prepare_cached("DELETE FROM blob_uses WHERE kind = ?1 AND owner = ?2")?
        .execute(params![kind, id.as_bytes()])?;
    let mut count = BlobCount::default();
    for (digest, size) in owned {
        let is_unused = connection
            .prepare_cached(
                "UPDATE blobs SET unused_since = unixepoch() WHERE digest = ?1
                 AND NOT EXISTS (SELECT 1 FROM blob_uses WHERE blob_uses.digest = ?1)",
            )?
            .execute([digest.as_bytes()])?;
        if is_unused == 1 {
            count.blobs += 1;
            count.bytes += size;
        }
    }
    Ok(count)
}
