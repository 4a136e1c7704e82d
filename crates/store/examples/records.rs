//! Records per second of the store, with many writers at once, beside plain SQLite.
//!
//! `cargo run --release -p ringfence-store --example records [seconds per row]`
//!
//! Each record is the last step of a call that ran: call, fact and receipt. The two rows of plain
//! SQLite write the same JSON to one table without an index: with a commit per row, which is what
//! a program without group commit does, and with a commit per 256 rows, which is what SQLite can
//! do at best. All of them wait for the disk at every commit.
#![expect(clippy::print_stdout, reason = "printing is what this program does")]
#![expect(clippy::unwrap_used, reason = "a measurement that cannot be made should stop")]

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use ringfence_sqlite::{Db, Options};
use ringfence_store::{
    SqliteStore, Store,
    contract::samples::{accepted, finished, in_state, record},
};

fn main() {
    let seconds = std::env::args().nth(1).map_or(3, |seconds| seconds.parse().unwrap());
    let time = Duration::from_secs(seconds);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let single = plain(folder.path(), 1, time);
    let batched = plain(folder.path(), 256, time);
    let guarded = guarded(folder.path(), time);
    let cost = sample();
    println!("{:<34}{cost:>12.1} µs of CPU, in all that follows", "making a record to write");
    println!("{:<34}{single:>12.0} per second", "SQLite, a commit per row");
    println!("{:<34}{batched:>12.0} per second", "SQLite, a commit per 256 rows");
    println!("{:<34}{guarded:>12.0} per second", "  and a savepoint per row");
    println!("{:<34}{:>12}  times the first, the second; CPU per record", "store, writers", "");
    for writers in [1, 16, 256] {
        let folder = tempfile::tempdir().unwrap();
        let before = cpu();
        let (count, rate) = runtime.block_on(store(folder.path(), writers, time));
        let cost = (cpu() - before).as_secs_f64() * 1e6 / count as f64;
        println!(
            "{writers:>34}{rate:>12.0} per second, {:.2} and {:.2} times, {cost:.1} µs",
            rate / single,
            rate / batched,
        );
    }
}

/// Cost of making up a record, which a server has from elsewhere.
fn sample() -> f64 {
    let (tenant, before, count) = ("default".parse().unwrap(), cpu(), 20_000);
    for _ in 0..count {
        std::hint::black_box(record(&in_state(&accepted(&tenant), finished()), None));
    }
    (cpu() - before).as_secs_f64() * 1e6 / f64::from(count)
}

/// CPU time of this process so far.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

async fn store(folder: &Path, writers: usize, time: Duration) -> (u64, f64) {
    let db = Db::open(&folder.join("data.db"), &Options::default()).unwrap();
    let store = SqliteStore::open(db, &folder.join("blobs")).await.unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let count = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let tasks: Vec<_> = (0..writers)
        .map(|_| {
            let (store, count) = (Arc::clone(&store), Arc::clone(&count));
            let tenant = "default".parse().unwrap();
            tokio::spawn(async move {
                while began.elapsed() < time {
                    let last = in_state(&accepted(&tenant), finished());
                    store.record(record(&last, None)).await.unwrap();
                    count.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let count = count.load(Ordering::Relaxed);
    (count, count as f64 / began.elapsed().as_secs_f64())
}

fn plain(folder: &Path, batch: usize, time: Duration) -> f64 {
    rows(&folder.join(format!("plain{batch}.db")), batch, ["", ""], time)
}

/// Cost of being able to undo each row by itself.
fn guarded(folder: &Path, time: Duration) -> f64 {
    rows(&folder.join("guarded.db"), 256, ["SAVEPOINT work", "RELEASE work"], time)
}

fn rows(path: &Path, batch: usize, around: [&str; 2], time: Duration) -> f64 {
    let connection = rusqlite::Connection::open(path).unwrap();
    let execute = |sql: &str| {
        if !sql.is_empty() {
            connection.prepare_cached(sql).unwrap().execute([]).unwrap();
        }
    };
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             CREATE TABLE calls (seq INTEGER PRIMARY KEY, call TEXT NOT NULL) STRICT;",
        )
        .unwrap();
    let tenant = "default".parse().unwrap();
    let (began, mut count) = (Instant::now(), 0_u64);
    while began.elapsed() < time {
        connection.execute_batch("BEGIN").unwrap();
        for _ in 0..batch {
            let last = record(&in_state(&accepted(&tenant), finished()), None);
            let text = serde_json::to_string(&(&*last.call, &last.entries[0].payload, &last.facts))
                .unwrap();
            let sql = "INSERT INTO calls (call) VALUES (?1)";
            execute(around[0]);
            connection.prepare_cached(sql).unwrap().execute([text]).unwrap();
            execute(around[1]);
            count += 1;
        }
        connection.execute_batch("COMMIT").unwrap();
    }
    count as f64 / began.elapsed().as_secs_f64()
}
