//! Erasure of records. The rows of erased calls and all entries of the ledger stay.

use ringfence_sqlite::{Connection, Db};
use ringfence_types::{CallId, SessionId, TenantId, Timestamp};
use rusqlite::{OptionalExtension as _, params};

use super::{blob_uses, rows};
use crate::{
    BlobOwner, ErasableCalls, ErasedCalls, ErasedEvents, ErasureScope, Error, ExpiredCalls,
};

const OF_CALL: &str = "WITH RECURSIVE made (id) AS (
        SELECT ?2 UNION SELECT calls.id FROM made
        JOIN calls INDEXED BY calls_by_parent ON calls.tenant = ?1 AND calls.parent = made.id)
    SELECT calls.id, calls.open FROM made JOIN calls ON calls.id = made.id
    WHERE calls.tenant = ?1 AND calls.erased_in IS NULL ORDER BY calls.id";

const OF_SESSION: &str = "SELECT id, open FROM calls INDEXED BY calls_by_session
    WHERE tenant = ?1 AND session = ?2 AND erased_in IS NULL ORDER BY id";

pub(super) async fn erasable(
    db: &Db,
    tenant: &TenantId,
    scope: &ErasureScope,
    limit: usize,
) -> Result<ErasableCalls, Error> {
    let (tenant, lane, scope) = (tenant.clone(), tenant.clone(), scope.clone());
    db.read_for(lane.as_str(), move |connection| {
        let mut found = ErasableCalls::default();
        let mut add = |row: &rusqlite::Row<'_>| -> Result<(), Error> {
            match row.get(1)? {
                true => found.under_way += 1,
                false if found.ended.len() < limit => found.ended.push(CallId(rows::uuid(row, 0)?)),
                false => {}
            }
            Ok(())
        };
        let mut each = |sql: &str, of: &dyn rusqlite::ToSql| -> Result<(), Error> {
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query(params![tenant.as_str(), of])?;
            while let Some(row) = rows.next()? {
                add(row)?;
            }
            Ok(())
        };
        match &scope {
            ErasureScope::Call(id) => each(OF_CALL, &id.0.as_bytes())?,
            ErasureScope::Session(session) => each(OF_SESSION, &session.as_str())?,
        }
        Ok(found)
    })
    .await
}

pub(super) async fn expired(
    db: &Db,
    before: Timestamp,
    from: u64,
    limit: usize,
) -> Result<ExpiredCalls, Error> {
    db.read(move |connection| {
        let sql = "SELECT ledger.position, ledger.at < ?2, CASE WHEN ledger.kind = 'call' THEN calls.id END
                   FROM ledger LEFT JOIN calls ON calls.seq = ledger.call AND calls.erased_in IS NULL
                   WHERE ledger.position > ?1 ORDER BY ledger.position LIMIT ?3";
        let mut statement = connection.prepare_cached(sql)?;
        let params = params![rows::position(from), before.as_micros(), rows::page(limit)];
        let mut found = statement.query(params)?;
        let mut visited = Vec::new();
        while let Some(row) = found.next()? {
            let call = match row.get_ref(2)? {
                rusqlite::types::ValueRef::Null => None,
                _ => Some(CallId(rows::uuid(row, 2)?)),
            };
            visited.push((row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?, call));
        }
        Ok(ExpiredCalls::of(from, visited))
    })
    .await
}

pub(super) async fn erase(db: &Db, calls: Vec<(CallId, u64)>) -> Result<ErasedCalls, Error> {
    db.write(move |connection| {
        overwritten(connection, || {
            let mut erased = ErasedCalls::default();
            for (id, entry) in &calls {
                let Some(seq) = mark(connection, *id, *entry)? else { continue };
                erase_records(connection, seq)?;
                let blobs = blob_uses::release(connection, BlobOwner::Call(*id))?;
                erased.blobs.blobs += blobs.blobs;
                erased.blobs.bytes += blobs.bytes;
                erased.calls += 1;
            }
            Ok(erased)
        })
    })
    .await
}

/// Has SQLite overwrite what is deleted within, instead of leaving it in free pages of the file.
pub(super) fn overwritten<T>(
    connection: &Connection,
    work: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    let set = |value: &str| {
        let sql = format!("PRAGMA secure_delete = {value}");
        connection.query_row(&sql, [], |_| Ok(()))
    };
    set("ON")?;
    let done = work();
    set("OFF")?;
    done
}

/// The row of a call whose records are erased now; none if it is under way, erased or unknown. Every index
/// is one less than its position.
fn mark(connection: &Connection, id: CallId, entry: u64) -> Result<Option<i64>, Error> {
    let sql = "UPDATE calls SET erased_in = ?2 WHERE id = ?1 AND open = 0 AND erased_in IS NULL
               RETURNING seq";
    let mut statement = connection.prepare_cached(sql)?;
    let entry = rows::position(entry) + 1;
    Ok(statement.query_row(params![id.0.as_bytes(), entry], |row| row.get(0)).optional()?)
}

/// Leaves of the records of a call its entries of the ledger. They are no steps of a call any more.
fn erase_records(connection: &Connection, seq: i64) -> Result<(), Error> {
    let sql = "SELECT body, large, position FROM records WHERE call = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let mut found = statement.query([seq])?;
    let mut left = Vec::new();
    while let Some(row) = found.next()? {
        left.push((rows::texts(row, 0)?.entries_alone()?, row.get::<_, i64>(2)?));
    }
    for (packed, position) in left {
        match packed {
            Some(packed) => connection
                .prepare_cached(
                    "UPDATE records SET version = 0, decided_at = NULL, body = ?1, large = NULL
                     WHERE position = ?2",
                )?
                .execute(params![packed.body, position])?,
            None => connection
                .prepare_cached("DELETE FROM records WHERE position = ?1")?
                .execute([position])?,
        };
    }
    Ok(())
}

pub(super) async fn events(db: &Db, of: ErasedEvents, limit: usize) -> Result<u64, Error> {
    db.write(move |connection| overwritten(connection, || erase_events(connection, &of, limit)))
        .await
}

fn erase_events(connection: &Connection, of: &ErasedEvents, limit: usize) -> Result<u64, Error> {
    let limit = rows::page(limit);
    let erased = match of {
        ErasedEvents::Session(tenant, session) => {
            keep_last(connection, tenant, session)?;
            let sql = "DELETE FROM session_events WHERE position IN
                       (SELECT position FROM session_events WHERE tenant = ?1 AND session = ?2
                        AND position < (SELECT max(position) FROM session_events) LIMIT ?3)";
            let params = params![tenant.as_str(), session.as_str(), limit];
            connection.prepare_cached(sql)?.execute(params)?
        }
        ErasedEvents::Before(before) => {
            let sql =
                format!("DELETE FROM session_events WHERE position IN ({OLD_EVENTS} LIMIT ?2)");
            connection.prepare_cached(&sql)?.execute(params![before.as_micros(), limit])?
        }
    };
    Ok(erased as u64)
}

/// Events from before a moment. The newest of all stays, so that no position is given twice.
const OLD_EVENTS: &str = "SELECT position FROM session_events WHERE at < ?1
    AND position < (SELECT max(position) FROM session_events)";

/// Takes the content out of the newest event of all, if it is one of the session: its position stays taken.
/// Its session has no name from then on, and is in no list.
fn keep_last(connection: &Connection, tenant: &TenantId, session: &SessionId) -> Result<(), Error> {
    let sql = "UPDATE session_events SET session = '', kind = 'erased', payload = '{}'
               WHERE position = (SELECT max(position) FROM session_events)
               AND tenant = ?1 AND session = ?2";
    connection.prepare_cached(sql)?.execute(params![tenant.as_str(), session.as_str()])?;
    Ok(())
}

/// Decisions about actions other than calls. The newest record stays, so that no position is given twice.
const OLD_DECISIONS: &str = "SELECT position FROM records INDEXED BY records_by_decision
    WHERE decided_at < ?1 AND decided_at IS NOT NULL AND call IS NULL
    AND position < (SELECT max(position) FROM records)";

pub(super) async fn decisions(db: &Db, before: Timestamp, limit: usize) -> Result<u64, Error> {
    db.write(move |connection| {
        let sql = format!("{OLD_DECISIONS} LIMIT ?2");
        let mut statement = connection.prepare_cached(&sql)?;
        let params = params![before.as_micros(), rows::page(limit)];
        let found = statement.query_map(params, |row| row.get::<_, i64>(0))?;
        let found = found.collect::<Result<Vec<_>, _>>()?;
        for position in &found {
            for table in ["records", "actions"] {
                let sql = format!("DELETE FROM {table} WHERE position = ?1");
                connection.prepare_cached(&sql)?.execute([position])?;
            }
        }
        Ok(found.len() as u64)
    })
    .await
}

/// Numbers of session events and of decisions before a moment that can be erased.
pub(super) async fn count(db: &Db, before: Timestamp) -> Result<(u64, u64), Error> {
    db.read(move |connection| {
        let count = |sql: &str| -> Result<u64, Error> {
            let mut statement =
                connection.prepare_cached(&format!("SELECT count(*) FROM ({sql})"))?;
            let count: i64 = statement.query_row([before.as_micros()], |row| row.get(0))?;
            Ok(count.cast_unsigned())
        };
        Ok((count(OLD_EVENTS)?, count(OLD_DECISIONS)?))
    })
    .await
}

pub(super) async fn entry(db: &Db, tenant: &TenantId, id: CallId) -> Result<Option<u64>, Error> {
    let (tenant, lane) = (tenant.clone(), tenant.clone());
    db.read_for(lane.as_str(), move |connection| {
        let sql = "SELECT erased_in - 1 FROM calls WHERE id = ?1 AND tenant = ?2
                   AND erased_in IS NOT NULL";
        let mut statement = connection.prepare_cached(sql)?;
        let params = params![id.0.as_bytes(), tenant.as_str()];
        let entry: Option<i64> = statement.query_row(params, |row| row.get(0)).optional()?;
        Ok(entry.map(i64::cast_unsigned))
    })
    .await
}
