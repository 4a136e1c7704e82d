//! The ledger: appended to and read, never changed.

use std::sync::Arc;

use ringfence_sqlite::{Connection, Db};
use ringfence_types::{About, CallId, Digest, PersonaId, Receipt, Sealed, TenantId, ToolName};
use rusqlite::{OptionalExtension as _, Row, params};
use tokio::sync::watch;

use super::{SqliteStore, hook, rows};
use crate::{Error, Placed, encoding};

/// Number of entries.
pub(super) async fn size(db: &Db) -> Result<u64, Error> {
    let newest = db.read(|connection| {
        let sql = "SELECT coalesce(max(position), 0) FROM ledger";
        Ok::<_, Error>(connection.query_row(sql, [], |row| row.get::<_, i64>(0))?)
    });
    newest.await.map(i64::cast_unsigned)
}

pub(super) async fn append(store: &SqliteStore, entries: Vec<Sealed>) -> Result<u64, Error> {
    hook::check(store, &entries)?;
    let grown = Arc::clone(&store.grown);
    let count = entries.len() as u64;
    let write = move |connection: &Connection| -> Result<_, Error> {
        let mut size = None;
        for entry in &entries {
            size = Some(put(connection, entry)?);
        }
        Ok(size)
    };
    let written = store.db.write_then(write, move |size: &Option<u64>| announce(&grown, *size));
    let size = written.await?;
    Ok(size.unwrap_or_else(|| *store.grown.borrow()) - count)
}

/// Tells waiting readers that there are so many entries now.
pub(super) fn announce(grown: &watch::Sender<u64>, size: Option<u64>) {
    if let Some(size) = size {
        grown.send_replace(size);
    }
}

/// Appends within a transaction of the caller's, which does not know the row of the call.
pub(super) fn put(connection: &Connection, entry: &Sealed) -> Result<u64, Error> {
    let call = entry.about.call.map(|call| seq(connection, call)).transpose()?;
    insert(connection, entry, call, Kept::Here)
}

/// The row of a call; an entry about none that is kept could not be found.
fn seq(connection: &Connection, call: CallId) -> Result<i64, Error> {
    let mut statement = connection.prepare_cached("SELECT seq FROM calls WHERE id = ?1")?;
    let seq = statement.query_row([call.0.as_bytes()], |row| row.get(0)).optional()?;
    seq.ok_or(Error::Stale)
}

/// Where the statement of an entry is kept.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kept {
    /// Beside the entry.
    Here,
    /// In the record at a position, as the entry of this number there.
    InRecord(i64, i64),
}

/// Appends within a transaction of the caller's, and says how many entries there are then. SQLite
/// gives the position after the last one, and there is one writer: no gap, nothing twice.
pub(super) fn insert(
    connection: &Connection,
    entry: &Sealed,
    call: Option<i64>,
    kept: Kept,
) -> Result<u64, Error> {
    let Sealed { kind, about, payload, signature, signer, leaf } = entry;
    let (payload, record, part) = match kept {
        Kept::Here => (Some(payload), None, None),
        Kept::InRecord(record, part) => (None, Some(record), Some(part)),
    };
    let position = connection
        .prepare_cached(
            "INSERT INTO ledger (kind, tenant, call, persona, tool, at, leaf, signer, signature,
                                 payload, record, part)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .insert(params![
            kind.name(),
            about.tenant.as_ref().map_or("", TenantId::as_str),
            call,
            about.persona.as_ref().map(PersonaId::as_str),
            about.tool.as_ref().map(ToolName::as_str),
            about.at.as_micros(),
            leaf.as_bytes(),
            signer_row(connection, signer)?,
            signature,
            payload,
            record,
            part,
        ])?;
    Ok(position.cast_unsigned())
}

/// The row of a key that signs.
fn signer_row(connection: &Connection, key: &Digest) -> Result<i64, Error> {
    let sql = "SELECT id FROM signers WHERE key = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let known = statement.query_row([key.as_bytes()], |row| row.get(0)).optional()?;
    if let Some(id) = known {
        return Ok(id);
    }
    Ok(connection.prepare("INSERT INTO signers (key) VALUES (?1)")?.insert([key.as_bytes()])?)
}

/// Columns of every query for entries, in the order that [`placed`] reads.
pub(super) const COLUMNS: &str = "SELECT ledger.position, ledger.kind, ledger.tenant, calls.id, \
    ledger.persona, ledger.tool, ledger.at, ledger.leaf, signers.key, ledger.signature, \
    ledger.payload, records.body, ledger.part FROM ledger \
    LEFT JOIN signers ON signers.id = ledger.signer \
    LEFT JOIN calls ON calls.seq = ledger.call \
    LEFT JOIN records ON records.position = ledger.record";

/// The statement of an entry, from its own column, or from the `body` of a record and its number there.
pub(super) fn payload(row: &Row<'_>, index: usize) -> rusqlite::Result<String> {
    if let Some(payload) = row.get_ref(index)?.as_str_or_null()? {
        return Ok(payload.to_owned());
    }
    let (body, part) = (row.get_ref(index + 1)?.as_blob()?, row.get::<_, i64>(index + 2)?);
    encoding::payload(body, part).map_err(|error| rows::undecodable(index + 1, error))
}

/// An entry from [`COLUMNS`].
pub(super) fn placed(row: &Row<'_>) -> rusqlite::Result<Placed> {
    let has =
        |index: usize| row.get_ref(index).map(|value| value != rusqlite::types::ValueRef::Null);
    let is_server = row.get_ref(2)?.as_str()?.is_empty();
    let about = About {
        tenant: (!is_server).then(|| rows::name(row, 2)).transpose()?,
        call: has(3)?.then(|| rows::uuid(row, 3)).transpose()?.map(CallId),
        persona: has(4)?.then(|| rows::name(row, 4)).transpose()?,
        tool: has(5)?.then(|| rows::name(row, 5)).transpose()?,
        at: rows::timestamp(row, 6)?,
    };
    let sealed = Sealed {
        kind: rows::name(row, 1)?,
        about,
        leaf: rows::digest(row, 7)?,
        signer: rows::digest(row, 8)?,
        signature: row.get_ref(9)?.as_blob_or_null()?.and_then(|bytes| bytes.try_into().ok()),
        payload: payload(row, 10)?,
    };
    Ok(Placed { index: row.get::<_, i64>(0)?.cast_unsigned() - 1, sealed })
}

pub(super) async fn receipt(
    db: &Db,
    tenant: &TenantId,
    id: CallId,
) -> Result<Option<Receipt>, Error> {
    let (tenant, lane) = (tenant.clone(), tenant.clone());
    db.read_for(lane.as_str(), move |connection| {
        let receipt = connection
            .prepare_cached(
                "SELECT ledger.payload, records.body, ledger.part
                 FROM calls JOIN ledger ON ledger.call = calls.seq
                 LEFT JOIN records ON records.position = ledger.record
                 WHERE calls.id = ?1 AND calls.tenant = ?2 AND ledger.kind = 'call'",
            )?
            .query_row(params![id.0.as_bytes(), tenant.as_str()], |row| {
                let text = payload(row, 0)?;
                ringfence_types::predicate(&text).map_err(|error| rows::unreadable(0, error))
            });
        Ok(receipt.optional()?)
    })
    .await
}

pub(super) async fn leaves(db: &Db, from: u64, limit: usize) -> Result<Vec<Digest>, Error> {
    db.read(move |connection| {
        let sql = "SELECT leaf FROM ledger WHERE position > ?1 ORDER BY position LIMIT ?2";
        let mut statement = connection.prepare_cached(sql)?;
        let params = params![rows::position(from), rows::page(limit)];
        let leaves = statement.query_map(params, |row| rows::digest(row, 0))?;
        Ok(leaves.collect::<Result<_, _>>()?)
    })
    .await
}
