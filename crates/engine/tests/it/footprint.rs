//! Bytes and tables of a call on disk. `examples/footprint.rs` prints them by table and index.

use std::{collections::BTreeMap, time::Duration};

use ringfence_sqlite::Db;
use ringfence_testkit::{Plane, PlaneConfig};

use crate::support::{echo, principal, stand};

/// Calls that are measured.
const CALLS: usize = 1_000;

/// Calls at one time; without company each would have a commit, and a checkpoint, of its own.
const CALLERS: usize = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_without_effects_is_one_row_in_each_of_three_tables_and_at_most_1_5_kb() {
    let plane = Plane::start(PlaneConfig::default()).await.expect("works here");
    let (rows, bytes) = (rows(&plane.db).await, bytes(&plane.db).await);
    let callers = (0..CALLERS).map(|_| {
        let engine = plane.engine.clone();
        tokio::spawn(async move {
            for _ in 0..CALLS / CALLERS {
                stand(&engine, &principal("acme"), echo("hi")).await;
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.expect("no panic");
    }
    plane.stop(Duration::from_secs(30)).await;
    let grown = self::rows(&plane.db).await.into_iter().filter_map(|(table, now)| {
        let new = now - rows.get(&table).copied().unwrap_or(0);
        // What grows with commits and with time grows slower: checkpoints, tiles, cursors.
        (new >= CALLS as i64).then_some((table, new))
    });
    let each = ["calls", "ledger", "records"].map(|table| (table.to_owned(), CALLS as i64));
    assert_eq!(grown.collect::<Vec<_>>(), each);
    let each = (self::bytes(&plane.db).await - bytes) / CALLS as i64;
    assert!(each <= 1_500, "{each} bytes per call");
}

/// Bytes of the pages of all tables and indexes.
async fn bytes(db: &Db) -> i64 {
    let read = db.read(|connection| -> Result<i64, ringfence_sqlite::Error> {
        Ok(connection.query_row("SELECT sum(pgsize) FROM dbstat", [], |row| row.get(0))?)
    });
    read.await.expect("works here")
}

/// Rows of each table.
async fn rows(db: &Db) -> BTreeMap<String, i64> {
    let read = db.read(|connection| -> Result<_, ringfence_sqlite::Error> {
        let sql = "SELECT name FROM sqlite_schema WHERE type = 'table'";
        let mut tables = connection.prepare(sql)?;
        let names = tables.query_map([], |row| row.get::<_, String>(0))?;
        let mut counts = BTreeMap::new();
        for name in names {
            let name = name?;
            let sql = format!("SELECT count(*) FROM \"{name}\"");
            let count = connection.query_row(&sql, [], |row| row.get(0))?;
            counts.insert(name, count);
        }
        Ok(counts)
    });
    read.await.expect("works here")
}
