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
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use ringfence_engine::{CallRequest, Engine, Ledger, Parts, Settings, Telemetry, builtin_tools};
use ringfence_ledger::SigningKey;
use ringfence_policy::{Bundle, Rego};
use ringfence_sqlite::Db;
use ringfence_store::{SqliteStore, Store};
use ringfence_types::{Clock, Json, KeyId, Principal, Scope, Timestamp};

/// Calls at one time.
const CALLERS: usize = 64;

fn main() {
    let calls = std::env::args().nth(1).map_or(20_000, |calls| calls.parse().unwrap());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("state.db");
    let db = Db::open(&database, &ringfence_sqlite::Options::default()).unwrap();
    let engine = runtime.block_on(engine(folder.path(), db.clone()));
    let (before, cpu_before, began) = (runtime.block_on(sizes(&db)), cpu(), Instant::now());
    runtime.block_on(call(&engine, calls));
    let elapsed = began.elapsed();
    runtime.block_on(engine.stop(Duration::from_secs(60)));
    let cost = (cpu() - cpu_before).as_secs_f64() * 1e6 / calls as f64;
    print(&before, &runtime.block_on(sizes(&db)), calls);
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

async fn engine(dir: &Path, db: Db) -> Engine {
    let clock: Arc<dyn Clock> = Arc::new(Wall);
    let store = SqliteStore::open(db.clone(), &dir.join("blobs")).await.unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let key = SigningKey::from_seed([5; 32]);
    let ledger = Ledger::open(store.clone(), key, clock.now()).await.unwrap();
    let options = ringfence_bus::Options::default();
    let bus = ringfence_bus::SqliteBus::open(db, options, clock.clone()).await.unwrap();
    let registry = ringfence_registry::Config {
        builtins: builtin_tools(clock.now()),
        folders: Vec::new(),
        embedded: Vec::new(),
        uploads: dir.join("uploads"),
        clock: clock.clone(),
    };
    let sandbox = ringfence_sandbox::Config {
        exe: "/bin/false".into(),
        ..ringfence_sandbox::Config::one_shot()
    };
    let parts = Parts {
        store,
        ledger,
        bus: Arc::new(bus),
        policy: Arc::new(Rego::load(&Bundle::built_in()).unwrap()),
        registry: ringfence_registry::Registry::open(registry).unwrap(),
        sandbox: Arc::new(ringfence_sandbox::Native::open(sandbox)),
        fetcher: ringfence_egress::Fetcher::system(ringfence_egress::Options::default()),
        telemetry: Telemetry::default(),
        clock,
        settings: Settings::for_processors(2, dir.join("work")),
    };
    Engine::start(parts).await.unwrap()
}

/// The machine's clock.
#[derive(Debug)]
struct Wall;

impl Clock for Wall {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Timestamp::from_micros(i64::try_from(since.unwrap().as_micros()).unwrap())
    }
}

/// CPU time of this process so far.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}
