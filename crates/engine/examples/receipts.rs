//! What a receipt costs: the last record of a call, with its entry of the ledger and without.
//!
//! `cargo run --release -p ringfence-engine --example receipts [seconds per row]`
//!
//! Both write the same call and the same facts with many writers at once, wait for the disk at every
//! commit, and differ only in what the ledger adds: the receipt, its digests, the signature, the
//! leaf and the row. There is no way to switch the ledger off in a server; this is how to tell what
//! it takes.
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

use ringfence_ledger::{Entry, Signer, SigningKey};
use ringfence_sqlite::{Db, Options};
use ringfence_store::{
    Record, SqliteStore, Store,
    contract::samples::{accepted, finished, in_state, record},
};
use ringfence_types::{Call, Receipt, Seen};

/// Calls at one time.
const WRITERS: usize = 64;

fn main() {
    let seconds = std::env::args().nth(1).map_or(3, |seconds| seconds.parse().unwrap());
    let time = Duration::from_secs(seconds);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let signer = Arc::new(Signer::new(SigningKey::from_seed([7; 32]), "example".into()).unwrap());
    let (sealing, bytes) = sealing(&signer);
    println!("{:<34}{sealing:>10.1} µs of CPU, {bytes} bytes of statement", "signing one");
    let rows = [("without its entry", None), ("with its entry", Some(signer))];
    let mut costs = Vec::new();
    for (name, signer) in rows {
        let folder = tempfile::tempdir().unwrap();
        let before = cpu();
        let (count, rate) = runtime.block_on(write(folder.path(), signer, time));
        let cost = (cpu() - before).as_secs_f64() * 1e6 / count as f64;
        println!("{name:<34}{cost:>10.1} µs of CPU per record, {rate:.0} per second");
        costs.push(cost);
    }
    println!("{:<34}{:>10.1} µs of CPU per call", "so the ledger takes", costs[1] - costs[0]);
}

fn last(call: &Call, signer: Option<&Signer>) -> Record {
    let mut step = record(call, None);
    step.entries.clear();
    if let Some(signer) = signer {
        let receipt = Receipt::of(call, Seen::default()).unwrap();
        step.entries.push(signer.seal(Entry::call(receipt)).unwrap());
    }
    step
}

/// Receipt, statement, signature and leaf, on one thread.
fn sealing(signer: &Signer) -> (f64, usize) {
    let call = in_state(&accepted(&"default".parse().unwrap()), finished());
    let receipt = || Receipt::of(&call, Seen::default()).unwrap();
    let bytes = Entry::call(receipt()).payload.len();
    let (before, count) = (cpu(), 20_000);
    for _ in 0..count {
        std::hint::black_box(signer.seal(Entry::call(receipt())).unwrap());
    }
    ((cpu() - before).as_secs_f64() * 1e6 / f64::from(count), bytes)
}

/// CPU time of this process so far.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

async fn write(folder: &Path, signer: Option<Arc<Signer>>, time: Duration) -> (u64, f64) {
    let db = Db::open(&folder.join("data.db"), &Options::default()).unwrap();
    let store = SqliteStore::open(db, &folder.join("blobs")).await.unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let count = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let tasks: Vec<_> = (0..WRITERS)
        .map(|_| {
            let (store, count, signer) = (store.clone(), count.clone(), signer.clone());
            tokio::spawn(async move {
                let tenant = "default".parse().unwrap();
                while began.elapsed() < time {
                    let call = in_state(&accepted(&tenant), finished());
                    store.record(last(&call, signer.as_deref())).await.unwrap();
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
