//! Checkpoints, and the tiles of the ledger's tree.

use ringfence_sqlite::{Connection, Db};
use rusqlite::{OptionalExtension as _, params};

use super::rows;
use crate::{Commitment, Error, Signed, encoding::tile_id};

/// The tiles that a checkpoint commits to and the checkpoint itself, in the transaction that they are
/// about.
pub(super) fn put(connection: &Connection, commitment: &Commitment) -> rusqlite::Result<()> {
    for (level, index, hashes) in &commitment.tiles {
        connection
            .prepare_cached(
                "INSERT INTO tiles (id, hashes) VALUES (?1, ?2) ON CONFLICT (id) DO NOTHING",
            )?
            .execute(params![tile_id(*level, *index), hashes])?;
    }
    if let Some(replaced) = commitment.replaces {
        connection
            .prepare_cached("DELETE FROM checkpoints WHERE size = ?1")?
            .execute([rows::position(replaced)])?;
    }
    connection
        .prepare_cached(
            "INSERT INTO checkpoints (size, note) VALUES (?1, ?2) ON CONFLICT (size) DO NOTHING",
        )?
        .execute(params![rows::position(commitment.size), commitment.note])?;
    Ok(())
}

pub(super) async fn newest(db: &Db) -> Result<Option<Signed>, Error> {
    db.read(|connection| Ok(newest_of(connection)?)).await
}

/// The newest checkpoint, within a transaction of the caller's.
pub(super) fn newest_of(connection: &Connection) -> rusqlite::Result<Option<Signed>> {
    let sql = "SELECT size, note FROM checkpoints ORDER BY size DESC LIMIT 1";
    connection.prepare_cached(sql)?.query_row([], checkpoint).optional()
}

pub(super) async fn list(db: &Db, after: u64, limit: usize) -> Result<Vec<Signed>, Error> {
    db.read(move |connection| {
        let sql = "SELECT size, note FROM checkpoints WHERE size > ?1 ORDER BY size LIMIT ?2";
        let mut statement = connection.prepare_cached(sql)?;
        let params = params![rows::position(after), rows::page(limit)];
        Ok(statement.query_map(params, checkpoint)?.collect::<Result<_, _>>()?)
    })
    .await
}

pub(super) async fn tile(db: &Db, level: u8, index: u64) -> Result<Option<Vec<u8>>, Error> {
    db.read(move |connection| {
        let mut statement = connection.prepare_cached("SELECT hashes FROM tiles WHERE id = ?1")?;
        Ok(statement.query_row([tile_id(level, index)], |row| row.get(0)).optional()?)
    })
    .await
}

fn checkpoint(row: &rusqlite::Row<'_>) -> rusqlite::Result<Signed> {
    Ok(Signed { size: row.get::<_, i64>(0)?.cast_unsigned(), note: row.get(1)? })
}
