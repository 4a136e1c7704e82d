//! Calls that wait for a worker.

use ringfence_sqlite::Db;
use rusqlite::params;

use super::rows::{self, STORED};
use crate::{Error, QueuedCall, Stored};

/// Leaves a call to the workers.
pub(super) async fn add(db: &Db, process: i64, queued: QueuedCall) -> Result<(), Error> {
    db.write(move |connection| {
        let QueuedCall { tenant, id, seen, to } = &queued;
        let sql = "UPDATE calls SET owner = ?1, queued = 1 WHERE id = ?2 AND tenant = ?3
                   AND version = ?4 AND open = 1 AND (owner IS NULL OR owner = ?5)";
        let to = to.map(rows::position);
        let row = params![to, id.0.as_bytes(), tenant.as_str(), rows::position(seen.0), process];
        match connection.prepare_cached(sql)?.execute(row)? {
            0 => Err(Error::Stale),
            _ => Ok(()),
        }
    })
    .await
}

/// Takes calls that wait, oldest first.
pub(super) async fn take(db: &Db, process: i64, limit: usize) -> Result<Vec<Stored>, Error> {
    db.write(move |connection| {
        let sql = "UPDATE calls SET owner = ?1, queued = 0 WHERE seq IN
                   (SELECT seq FROM calls WHERE queued = 1 AND (owner IS NULL OR owner = ?1)
                    ORDER BY seq LIMIT ?2) RETURNING seq";
        let mut statement = connection.prepare_cached(sql)?;
        let taken = statement.query_map(params![process, rows::page(limit)], |row| row.get(0))?;
        let mut taken: Vec<i64> = taken.collect::<Result<_, _>>()?;
        taken.sort_unstable();
        let mut statement = connection.prepare_cached(&format!("{STORED} WHERE calls.seq = ?1"))?;
        let read = taken.iter().map(|seq| statement.query_row([seq], rows::stored));
        Ok(read.collect::<Result<_, _>>()?)
    })
    .await
}
