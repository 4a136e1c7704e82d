//! Bytes on disk and processor time of one call, by table and index.
//!
//! `cargo run --release -p ringfence-engine --example footprint [calls]`
//!
//! Makes calls of the built-in tool `echo`, 64 at a time, on a whole engine with its own database,
//! and asks SQLite (`dbstat`) for the page bytes of each table and index. The bytes before the
//! first call are subtracted.
#![expect(clippy::print_stdout, reason = "printing is what this program does")]
#![expect(clippy::unwrap_used, reason = "a measurement that cannot be made should stop")]

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use ringfence_engine::{CallRequest, Engine};
use ringfence_sqlite::Db;
use ringfence_testkit::{Plane, PlaneConfig};
use ringfence_types::{Json, KeyId, Principal, Scope};

/// Calls at one time.
const CALLERS: usize = 64;

fn main() {
    let calls = std::env::args().nth(1).map_or(20_000, |calls| calls.parse().unwrap());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let plane = runtime.block_on(Plane::start(PlaneConfig::default())).unwrap();
    let (before, cpu_before, began) = (runtime.block_on(sizes(&plane.db)), cpu(), Instant::now());
    runtime.block_on(call(&plane, calls));
    let elapsed = began.elapsed();
    runtime.block_on(plane.stop(Duration::from_secs(60)));
    let cost = (cpu() - cpu_before).as_secs_f64() * 1e6 / calls as f64;
    print(&before, &runtime.block_on(sizes(&plane.db)), calls);
    println!("{:<34}{cost:>10.1} µs of CPU per call", "until the engine has stopped");
    println!("{:<34}{:>10.0} calls per second", "", calls as f64 / elapsed.as_secs_f64());
}

fn print(before: &BTreeMap<String, i64>, after: &BTreeMap<String, i64>, calls: usize) {
    let mut sum = 0.0;
    for (name, bytes) in after {
        let each = (bytes - before.get(name).copied().unwrap_or(0)) as f64 / calls as f64;
        sum += each;
        if each >= 0.5 {
            println!("{name:<34}{each:>10.0} bytes per call");
        }
    }
    println!("{:<34}{sum:>10.0} bytes per call", "all tables and indexes");
}

/// Bytes of the pages of each table and index.
async fn sizes(db: &Db) -> BTreeMap<String, i64> {
    db.read(|connection| -> Result<_, ringfence_sqlite::Error> {
        let sql = "SELECT name, sum(pgsize) FROM dbstat GROUP BY name";
        let mut statement = connection.prepare(sql)?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    })
    .await
    .unwrap()
}

async fn call(engine: &Engine, calls: usize) {
    let tasks: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let engine = engine.clone();
            tokio::spawn(async move {
                for _ in (caller..calls).step_by(CALLERS) {
                    let args = Json::of(&serde_json::json!({"text": "hi"})).unwrap();
                    let request = CallRequest::new("echo".parse().unwrap(), args);
                    let mut ticket = engine.call(&principal(), request).await.unwrap();
                    ticket.wait(Duration::from_secs(60)).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

fn principal() -> Principal {
    Principal {
        key: KeyId(uuid::Uuid::from_u128(7)),
        tenant: "default".parse().unwrap(),
        persona: None,
        scopes: vec![Scope::Call, Scope::Read].into(),
        label: "agent".to_owned(),
        person: None,
    }
}

/// CPU time of this process so far.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}
