//! Uploaded skills.

use ringfence_sqlite::Db;
use ringfence_types::{Digest, ToolRef};
use rusqlite::{OptionalExtension as _, Row, params};

use super::rows;
use crate::{Error, PAGE, UploadRow};

/// Adds an upload; `false` if its version is that of another one.
pub(super) async fn add(db: &Db, row: UploadRow, content: Vec<u8>) -> Result<bool, Error> {
    db.write(move |connection| {
        let UploadRow { tool, at, .. } = &row;
        let digest = tool.digest.as_bytes();
        let (name, version) = (tool.name.as_str(), tool.version.as_str());
        let sql = "SELECT digest = ?3 FROM uploads
                   WHERE name = ?1 AND version = ?2 AND content IS NOT NULL";
        let known: Option<bool> = connection
            .prepare_cached(sql)?
            .query_row(params![name, version, digest], |row| row.get(0))
            .optional()?;
        if let Some(is_same) = known {
            return Ok(is_same);
        }
        let sql = "INSERT INTO uploads (digest, name, version, at, revision, content)
                   VALUES (?1, ?2, ?3, ?4, 1, ?5) ON CONFLICT (digest) DO UPDATE SET
                   at = excluded.at, content = excluded.content, revision = revision + 1";
        let row = params![digest, name, version, at.as_micros(), content];
        connection.prepare_cached(sql)?.execute(row)?;
        Ok(true)
    })
    .await
}

/// Removes an upload; `false` if there was none.
pub(super) async fn remove(db: &Db, digest: Digest) -> Result<bool, Error> {
    db.write(move |connection| {
        let sql = "UPDATE uploads SET content = NULL, revision = revision + 1
                   WHERE digest = ?1 AND content IS NOT NULL";
        Ok(connection.prepare_cached(sql)?.execute([digest.as_bytes()])? > 0)
    })
    .await
}

/// Number that grows with every change.
pub(super) async fn version(db: &Db) -> Result<u64, Error> {
    db.look_up(|connection| {
        let sql = "SELECT coalesce(sum(revision), 0) FROM uploads";
        let sum: i64 = connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        Ok(sum.cast_unsigned())
    })
    .await
}

/// Uploads by digest.
pub(super) async fn list(db: &Db, after: Option<Digest>) -> Result<Vec<UploadRow>, Error> {
    db.look_up(move |connection| {
        let sql = "SELECT digest, name, version, at, content IS NULL FROM uploads
                   WHERE digest > ?1 ORDER BY digest LIMIT ?2";
        let after = after.as_ref().map(|digest| digest.as_bytes().as_slice()).unwrap_or_default();
        let mut statement = connection.prepare_cached(sql)?;
        let found = statement.query_map(params![after, rows::page(PAGE)], row)?;
        Ok(found.collect::<Result<_, _>>()?)
    })
    .await
}

/// Content of an upload.
pub(super) async fn content(db: &Db, digest: Digest) -> Result<Option<Vec<u8>>, Error> {
    db.read(move |connection| {
        let sql = "SELECT content FROM uploads WHERE digest = ?1";
        let mut statement = connection.prepare_cached(sql)?;
        let found = statement.query_row([digest.as_bytes()], |row| row.get(0)).optional()?;
        Ok(found.flatten())
    })
    .await
}

fn row(row: &Row<'_>) -> rusqlite::Result<UploadRow> {
    let tool =
        ToolRef { name: rows::name(row, 1)?, version: row.get(2)?, digest: rows::digest(row, 0)? };
    Ok(UploadRow { tool, at: rows::timestamp(row, 3)?, is_removed: row.get(4)? })
}
