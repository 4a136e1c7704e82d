//! Messages per second through the embedded queue: published, and read and committed by a group.
//!
//! `cargo run --release -p ringfence-bus --example messages [seconds per row]`
#![expect(clippy::print_stdout, reason = "printing is what this program does")]
#![expect(clippy::unwrap_used, reason = "a measurement that cannot be made should stop")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use ringfence_bus::{Bus, Group, Message, Options, SqliteBus};
use ringfence_sqlite::Db;
use ringfence_testkit::TestClock;

fn main() {
    let seconds = std::env::args().nth(1).map_or(3, |seconds| seconds.parse().unwrap());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for publishers in [1, 16, 256] {
        runtime.block_on(measure(publishers, Duration::from_secs(seconds)));
    }
}

async fn measure(publishers: usize, time: Duration) {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::open(&folder.path().join("data.db"), &ringfence_sqlite::Options::default());
    let options = Options { topic_messages: 10_000_000, ..Options::default() };
    let bus = SqliteBus::open(db.unwrap(), options, Arc::new(TestClock::fixed(0))).await.unwrap();
    let topics = vec!["t".to_owned()];
    let group = Group { name: "g".to_owned(), topics, from_oldest: true };
    let reader = tokio::spawn(read(bus.clone(), group, time));
    let (count, began) = (Arc::new(AtomicU64::new(0)), Instant::now());
    let tasks: Vec<_> = (0..publishers)
        .map(|key| {
            let (bus, count) = (bus.clone(), Arc::clone(&count));
            tokio::spawn(async move {
                while began.elapsed() < time {
                    let key = Some(key.to_string().into_bytes());
                    let (topic, payload) = ("t".to_owned(), vec![b'x'; 500]);
                    let message = Message { topic, key, headers: Vec::new(), payload };
                    bus.publish(vec![message]).await.unwrap();
                    count.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let read = reader.await.unwrap();
    let rate = |count: u64| count as f64 / time.as_secs_f64();
    let published = rate(count.load(Ordering::Relaxed));
    println!("{publishers:>4} publishers: {published:>8.0} published, {:>8.0} read", rate(read));
}

/// A member per partition, so that their commits share transactions.
async fn read(bus: SqliteBus, group: Group, time: Duration) -> u64 {
    let count = Arc::new(AtomicU64::new(0));
    let members: Vec<_> = (0..16)
        .map(|_| {
            let (bus, group, count) = (bus.clone(), group.clone(), Arc::clone(&count));
            tokio::spawn(async move {
                let mut member = bus.join(group).await.unwrap();
                loop {
                    let delivery = member.next().await.unwrap();
                    member.commit(&delivery).await.unwrap();
                    count.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    tokio::time::sleep(time).await;
    members.iter().for_each(tokio::task::JoinHandle::abort);
    count.load(Ordering::Relaxed)
}
