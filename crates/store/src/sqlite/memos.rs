//! Results that are remembered: an index from keys to calls.

use ringfence_sqlite::{Connection, Db};
use ringfence_types::{Asked, Digest, TenantId, Timestamp};
use rusqlite::{OptionalExtension as _, params};

use super::rows;
use crate::{Error, NewMemo, Remembered};

/// Remembers the result of a call in the place of an earlier one, and forgets the oldest.
pub(super) fn insert(
    connection: &Connection,
    asked: &Asked,
    memo: &NewMemo,
    call: i64,
    at: Timestamp,
) -> Result<(), Error> {
    let (tenant, key) = (asked.tenant.as_str(), memo.key.as_bytes());
    let number: i64 = connection
        .prepare_cached("SELECT coalesce(max(number), 0) + 1 FROM memos WHERE tenant = ?1")?
        .query_row([tenant], |row| row.get(0))?;
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO memos (tenant, number, key, call, at)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![tenant, number, key, call, at.as_micros()])?;
    // Each takes one number, so those within the last `most` numbers are at most so many.
    connection
        .prepare_cached("DELETE FROM memos WHERE tenant = ?1 AND number <= ?2")?
        .execute(params![tenant, number - i64::from(memo.most)])?;
    Ok(())
}

/// The call and its own entry, in the order that [`remembered`] reads.
fn selection() -> String {
    let stored =
        rows::STORED.replacen(" FROM calls", ", ledger.position, ledger.leaf FROM calls", 1);
    format!(
        "{stored}
         JOIN memos ON memos.call = calls.seq AND memos.tenant = calls.tenant
         JOIN ledger ON ledger.call = calls.seq AND ledger.kind = 'call'
         WHERE memos.tenant = ?1 AND memos.key = ?2 AND memos.at > ?3"
    )
}

pub(super) async fn find(
    db: &Db,
    tenant: &TenantId,
    key: Digest,
    since: Timestamp,
) -> Result<Option<Remembered>, Error> {
    let (tenant, lane) = (tenant.clone(), tenant.clone());
    db.read_for(lane.as_str(), move |connection| {
        let wanted = params![tenant.as_str(), key.as_bytes(), since.as_micros()];
        Ok(connection.prepare_cached(&selection())?.query_row(wanted, remembered).optional()?)
    })
    .await
}

fn remembered(row: &rusqlite::Row<'_>) -> rusqlite::Result<Remembered> {
    let position: i64 = row.get(rows::STORED_COLUMNS)?;
    Ok(Remembered {
        call: rows::stored(row)?.call,
        entry: (position - 1).cast_unsigned(),
        leaf: rows::digest(row, rows::STORED_COLUMNS + 1)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_of_finding_has_an_index() {
        let connection = Connection::open_in_memory().unwrap();
        for script in super::super::MIGRATIONS {
            connection.execute_batch(script).unwrap();
        }
        let mut statement =
            connection.prepare(&format!("EXPLAIN QUERY PLAN {}", selection())).unwrap();
        let steps = statement.query_map([rusqlite::types::Null; 3], |row| row.get::<_, String>(3));
        let plan = steps.unwrap().collect::<Result<Vec<_>, _>>().unwrap().join("; ");
        assert!(plan.contains("INDEX memos_by_key ") && plan.contains("ledger_by_call"), "{plan}");
        assert!(!plan.contains("SCAN"), "{plan}");
    }
}
