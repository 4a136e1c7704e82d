//! Time of a start to read the whole log and to compare the rows of keys and approvals with it.
//!
//! `cargo run --release -p ringfence-engine --example log_scan [entries]`
//!
//! Writes the given number of receipts as a server does and reads them back as a start does:
//! recomputes every hash and the tree, and reads every entry for keys and approvals.
#![expect(clippy::print_stdout, reason = "printing is what this program does")]
#![expect(clippy::unwrap_used, reason = "a measurement that cannot be made should stop")]

use std::{sync::Arc, time::Instant};

use ringfence_engine::{Ledger, LogScan};
use ringfence_ledger::{Entry, Signer, SigningKey};
use ringfence_sqlite::{Db, Options};
use ringfence_store::{
    SqliteStore, Store,
    contract::samples::{accepted, finished, in_state, record},
};
use ringfence_types::{Receipt, ReceiptDetails, Timestamp};

/// Calls at one time.
const WRITERS: u64 = 64;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let count: u64 = std::env::args().nth(1).map_or(100_000, |count| count.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let db = Db::open(&folder.path().join("data.db"), &Options::default()).unwrap();
    let store = SqliteStore::open(db, &folder.path().join("blobs")).await.unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let key = || SigningKey::from_seed([7; 32]);
    let ledger = Ledger::open(store.clone(), key(), Timestamp::from_micros(0)).await.unwrap();
    let signer = Arc::new(Signer::new(key(), ledger.origin().to_owned()).unwrap());
    let tasks: Vec<_> = (0..WRITERS)
        .map(|_| {
            let (store, signer) = (store.clone(), signer.clone());
            tokio::spawn(async move {
                let tenant = "default".parse().unwrap();
                for _ in 0..count / WRITERS {
                    let call = in_state(&accepted(&tenant), finished());
                    let mut step = record(&call, None);
                    step.entries.clear();
                    let receipt = Receipt::of(&call, ReceiptDetails::default()).unwrap();
                    step.entries.push(signer.prepare_step(Entry::call(receipt)).unwrap());
                    store.record(step).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    for round in 1..=3 {
        let began = Instant::now();
        let scan = LogScan::run(store.as_ref(), &[]).await.unwrap();
        scan.check_newest().unwrap();
        let took = began.elapsed();
        let each = took.as_secs_f64() * 1e6 / scan.size() as f64;
        println!("round {round}: {} entries in {took:.2?}, {each:.1} µs each", scan.size());
    }
}
