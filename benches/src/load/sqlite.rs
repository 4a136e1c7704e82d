//! Plain SQLite with one writer: the upper bound of any store on it.
//!
//! Rows of about the size of a recorded call, one table without an index, a commit that waits for
//! the disk after every batch. A store with group commit is compared with the larger batches.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Result;
use rusqlite::Connection;

use super::findings::Commits;

/// Bytes of a call with its decision, its receipt and its events.
const ROW_BYTES: usize = 1500;

/// Measures every batch size.
pub(crate) fn measure(scratch: &Path, batches: &[usize], span: Duration) -> Result<Vec<Commits>> {
    let measured = batches.iter().map(|&batch| {
        let rows_per_sec = rows_per_sec(&scratch.join(format!("plain-{batch}.db")), batch, span)?;
        Ok(Commits { batch, rows_per_sec })
    });
    measured.collect()
}

fn rows_per_sec(path: &Path, batch: usize, span: Duration) -> Result<f64> {
    let connection = Connection::open(path)?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         CREATE TABLE calls (seq INTEGER PRIMARY KEY, call BLOB NOT NULL) STRICT;",
    )?;
    let row = vec![b'x'; ROW_BYTES];
    let (began, mut rows) = (Instant::now(), 0_usize);
    while began.elapsed() < span {
        connection.execute_batch("BEGIN")?;
        for _ in 0..batch {
            connection.prepare_cached("INSERT INTO calls (call) VALUES (?1)")?.execute([&row])?;
        }
        connection.execute_batch("COMMIT")?;
        rows += batch;
    }
    Ok(rows as f64 / began.elapsed().as_secs_f64())
}
