//! State of tool versions.

use std::sync::Arc;

use ringfence_sqlite::{Connection, Db};
use ringfence_types::{Digest, Json, Sealed, ToolRef};
use rusqlite::{OptionalExtension as _, Row, params};

use super::{SqliteStore, hook, ledger, rows};
use crate::{Error, NewToolRow, ToolRow};

const COLUMNS: &str =
    "SELECT digest, revision, name, version, status, about, definition FROM tool_rows";

/// A row with the text of its details.
type Written = (NewToolRow, String);

/// Writes rows and their entries in one commit.
pub(super) async fn put(
    store: &SqliteStore,
    new: Vec<NewToolRow>,
    entries: Vec<Sealed>,
) -> Result<(), Error> {
    hook::check(store, &entries)?;
    let texts = new.into_iter().map(|new| {
        let about = rows::json(&new.row.about)?;
        Ok::<_, Error>((new, about))
    });
    let written: Vec<Written> = texts.collect::<Result<_, _>>()?;
    let write = move |connection: &Connection| -> Result<Option<u64>, Error> {
        for (new, about) in &written {
            put_one(connection, new, about)?;
        }
        let mut size = None;
        for entry in &entries {
            size = Some(ledger::insert(connection, entry, None, ledger::Kept::Here)?);
        }
        Ok(size)
    };
    let grown = Arc::clone(&store.grown);
    store.db.write_then(write, move |size| ledger::announce(&grown, *size)).await.map(drop)
}

fn put_one(connection: &Connection, new: &NewToolRow, about: &str) -> Result<(), Error> {
    let ToolRow { tool, status, definition, .. } = &new.row;
    let digest = tool.digest.as_bytes();
    let changed = match new.seen {
        None => connection
            .prepare_cached(
                "INSERT INTO tool_rows (digest, revision, name, version, status, about, definition)
                 VALUES (?1, (SELECT coalesce(max(revision), 0) + 1 FROM tool_rows),
                         ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
            )?
            .execute(params![
                digest,
                tool.name.as_str(),
                tool.version,
                status.name(),
                about,
                definition.as_ref().map(Json::as_str),
            ])?,
        Some(seen) => connection
            .prepare_cached(
                "UPDATE tool_rows SET status = ?3, about = ?4,
                 revision = (SELECT coalesce(max(revision), 0) + 1 FROM tool_rows)
                 WHERE digest = ?1 AND revision = ?2",
            )?
            .execute(params![digest, rows::position(seen), status.name(), about])?,
    };
    if changed == 1 { Ok(()) } else { Err(Error::Stale) }
}

/// Rows after a revision, in the order of their changes.
pub(super) async fn after(
    db: &Db,
    revision: u64,
    limit: usize,
) -> Result<Vec<(u64, ToolRow)>, Error> {
    db.look_up(move |connection| {
        let sql = format!("{COLUMNS} WHERE revision > ?1 ORDER BY revision LIMIT ?2");
        let mut statement = connection.prepare_cached(&sql)?;
        let found =
            statement.query_map(params![rows::position(revision), rows::page(limit)], row)?;
        Ok(found.collect::<Result<_, _>>()?)
    })
    .await
}

/// The row of a version.
pub(super) async fn one(db: &Db, digest: Digest) -> Result<Option<(u64, ToolRow)>, Error> {
    db.look_up(move |connection| {
        let mut statement = connection.prepare_cached(&format!("{COLUMNS} WHERE digest = ?1"))?;
        Ok(statement.query_row([digest.as_bytes()], row).optional()?)
    })
    .await
}

fn row(row: &Row<'_>) -> rusqlite::Result<(u64, ToolRow)> {
    let definition: Option<String> = row.get(6)?;
    let parse = |text: String| Json::parse(text.as_bytes());
    let definition =
        definition.map(parse).transpose().map_err(|error| rows::unreadable(6, error))?;
    let tool =
        ToolRef { name: rows::name(row, 2)?, version: row.get(3)?, digest: rows::digest(row, 0)? };
    let (status, about) = (rows::name(row, 4)?, rows::parsed(row, 5)?);
    Ok((row.get::<_, i64>(1)?.cast_unsigned(), ToolRow { tool, status, definition, about }))
}
