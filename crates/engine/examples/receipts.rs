//! Cost of a receipt: the last record of a call, with and without its ledger entry.
//!
//! `cargo run --release -p ringfence-engine --example receipts [seconds per row]`
//!
//! Both variants write the same call and the same facts with many writers at once, sync at every
//! commit, and differ only in the ledger's part: the receipt, its digests, the leaf, the row, and
//! the checkpoint of the commit. A server cannot switch the ledger off, so its cost is measured
//! here. The signature of the entry itself is made when a proof is asked for; its cost is printed
//! first.
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

use ringfence_engine::Ledger;
use ringfence_ledger::{Entry, Signer, SigningKey};
use ringfence_sqlite::{Db, Options};
use ringfence_store::{
    Record, SqliteStore, Store,
    contract::samples::{accepted, finished, in_state, record},
};
use ringfence_types::{Call, Receipt, ReceiptDetails, Sealed, Timestamp};

/// Calls at one time.
const WRITERS: usize = 64;

fn main() {
    let seconds = std::env::args().nth(1).map_or(3, |seconds| seconds.parse().unwrap());
    let time = Duration::from_secs(seconds);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let signer = Signer::new(key(), "example".into()).unwrap();
    let call = in_state(&accepted(&"default".parse().unwrap()), finished());
    let bytes = Entry::call(Receipt::of(&call, ReceiptDetails::default()).unwrap()).payload.len();
    let made = each(&call, |entry| signer.prepare_step(entry).unwrap());
    let signed = each(&call, |entry| signer.seal(entry).unwrap());
    println!("{:<34}{made:>10.1} µs of CPU, {bytes} bytes of statement", "making one");
    println!("{:<34}{:>10.1} µs of CPU", "signing it, for a proof", signed - made);
    let (mut costs, mut rates) = ([f64::MAX; 2], [0.0_f64; 2]);
    // In turns, so that noise hits both alike; the best of each.
    for round in 0..2 * ROUNDS {
        let has_ledger = round % 2 == 1;
        let folder = tempfile::tempdir().unwrap();
        let before = cpu();
        let (count, rate) = runtime.block_on(write(folder.path(), has_ledger, time));
        let cost = (cpu() - before).as_secs_f64() * 1e6 / count as f64;
        let name = if has_ledger { "with its entry" } else { "without its entry" };
        println!("{name:<34}{cost:>10.1} µs of CPU per record, {rate:.0} per second");
        costs[round % 2] = costs[round % 2].min(cost);
        rates[round % 2] = rates[round % 2].max(rate);
    }
    println!("{:<34}{:>10.1} µs of CPU per call", "so the ledger takes", costs[1] - costs[0]);
    let lost = 100.0 * (1.0 - rates[1] / rates[0]);
    println!("{:<34}{lost:>10.1} % of the records per second", "and");
}

/// Rounds of both.
const ROUNDS: usize = 3;

fn key() -> SigningKey {
    SigningKey::from_seed([7; 32])
}

fn last(call: &Call, signer: Option<&Signer>) -> Record {
    let mut step = record(call, None);
    step.entries.clear();
    if let Some(signer) = signer {
        let receipt = Receipt::of(call, ReceiptDetails::default()).unwrap();
        step.entries.push(signer.prepare_step(Entry::call(receipt)).unwrap());
    }
    step
}

/// Receipt, statement, leaf and what else `seal` does, on one thread.
fn each(call: &Call, seal: impl Fn(Entry) -> Sealed) -> f64 {
    let (before, count) = (cpu(), 20_000);
    for _ in 0..count {
        let receipt = Receipt::of(call, ReceiptDetails::default()).unwrap();
        std::hint::black_box(seal(Entry::call(receipt)));
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

async fn write(folder: &Path, has_ledger: bool, time: Duration) -> (u64, f64) {
    let db = Db::open(&folder.join("data.db"), &Options::default()).unwrap();
    let store = SqliteStore::open(db, &folder.join("blobs")).await.unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let ledger = match has_ledger {
        true => Some(Ledger::open(store.clone(), key(), Timestamp::from_micros(0)).await.unwrap()),
        false => None,
    };
    let signer = |ledger: &Ledger| Signer::new(key(), ledger.origin().to_owned()).unwrap();
    let signer = ledger.as_ref().map(signer).map(Arc::new);
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
