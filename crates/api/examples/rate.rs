//! Calls of `echo` and programs in a session sandbox per second, with everything real behind the door.
//!
//! Server and clients share this process and its cores: `cargo run --release -p ringfence-api
//! --example rate -- <connections> <seconds> [<path of ringfence>]`. Programs need the path of the
//! binary, which makes the sandbox; with one connection their p50 is that of `session exec true`
//! with its record.
#![expect(clippy::print_stdout, reason = "it prints what it measured")]
#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on says so by panicking")]

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use ringfence_api::{Api, ApiConfig};
use ringfence_edge::{Edge, EdgeConfig, Server};
use ringfence_engine::{CallRequest, Engine, Ledger, Parts, Settings, builtin_tools};
use ringfence_types::{Clock, Timestamp};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

#[derive(Debug)]
struct Wall;

impl Clock for Wall {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Timestamp::from_micros(i64::try_from(since.unwrap().as_micros()).unwrap())
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |usual| arguments.next().map_or(usual, |text| text.parse::<u64>().unwrap());
    let (connections, seconds) = (number(64), number(5));
    let binary = arguments.next().map(PathBuf::from);
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path(), binary.as_deref()).await;
    let made = engine.access().ensure_admin_key(|_| Ok(())).await;
    let secret = made.unwrap().unwrap().secret;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let edge = Edge::new(engine.clone(), EdgeConfig { rate: None, ..EdgeConfig::default() });
    let api = Api::new(edge.clone(), ApiConfig::default());
    tokio::task::spawn(Server::new(edge, &[&api]).serve(listener, std::future::pending()));
    let echo = r#"{"tool":"echo","args":{"text":"hello"}}"#;
    let mut requests: Vec<(&str, Arc<[u8]>)> = vec![
        ("POST /v1/calls echo", post("/v1/calls", secret.reveal(), echo)),
        ("GET /livez", b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n"[..].into()),
    ];
    if binary.is_some() {
        let path = format!("/v1/sandboxes/{}/exec", sandbox(&engine, secret.reveal()).await);
        let exec = post(&path, secret.reveal(), r#"{"argv":["/bin/true"]}"#);
        requests.push(("POST exec /bin/true", exec));
    }
    for (name, request) in requests {
        let (done, p50, p99) = measure(address, request, connections, seconds).await;
        println!(
            "{name:<22} {done:>8.0} per second, p50 {p50:?}, p99 {p99:?}, {connections} connections"
        );
    }
}

fn post(path: &str, key: &str, body: &str) -> Arc<[u8]> {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
    .into()
}

/// A session sandbox of the operator's tenant.
async fn sandbox(engine: &Engine, secret: &str) -> String {
    let known = engine.access().authenticate(secret.as_bytes()).await.unwrap();
    let who = known.principal.clone();
    let tool = "sandbox_create".parse().unwrap();
    let request = CallRequest::new(tool, ringfence_types::Json::empty_object());
    let mut ticket = engine.call(&who, request).await.unwrap();
    let _made = ticket.wait(Duration::from_secs(60)).await.unwrap();
    engine.sandboxes(&who)[0].id.to_string()
}

async fn measure(
    address: SocketAddr,
    request: Arc<[u8]>,
    connections: u64,
    seconds: u64,
) -> (f64, Duration, Duration) {
    let over = Arc::new(AtomicBool::new(false));
    let count = Arc::new(AtomicU64::new(0));
    let clients: Vec<_> = (0..connections)
        .map(|_| tokio::task::spawn(client(address, request.clone(), over.clone(), count.clone())))
        .collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (before, began) = (count.load(Ordering::Relaxed), Instant::now());
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let rate = (count.load(Ordering::Relaxed) - before) as f64 / began.elapsed().as_secs_f64();
    over.store(true, Ordering::Relaxed);
    let mut times = Vec::new();
    for client in clients {
        times.extend(client.await.unwrap());
    }
    times.sort_unstable();
    (rate, times[times.len() / 2], times[times.len() * 99 / 100])
}

async fn client(
    address: SocketAddr,
    request: Arc<[u8]>,
    over: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
) -> Vec<Duration> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let mut times = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    while !over.load(Ordering::Relaxed) {
        let began = Instant::now();
        stream.write_all(&request).await.unwrap();
        let mut have = 0;
        loop {
            have += stream.read(&mut buffer[have..]).await.unwrap();
            if is_whole(&buffer[..have]) {
                break;
            }
        }
        assert!(
            buffer.starts_with(b"HTTP/1.1 200"),
            "{}",
            String::from_utf8_lossy(&buffer[..have])
        );
        times.push(began.elapsed());
        count.fetch_add(1, Ordering::Relaxed);
    }
    times
}

fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    body.len() >= length.parse::<usize>().unwrap()
}

async fn engine(dir: &Path, binary: Option<&Path>) -> Engine {
    let clock: Arc<dyn Clock> = Arc::new(Wall);
    let options = ringfence_sqlite::Options::default();
    let db = ringfence_sqlite::Db::open(&dir.join("state.db"), &options).unwrap();
    let store = ringfence_store::SqliteStore::open(db.clone(), &dir.join("blobs")).await.unwrap();
    let store: Arc<dyn ringfence_store::Store> = Arc::new(store);
    let key = ringfence_ledger::SigningKey::from_seed([5; 32]);
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
    let bundle = ringfence_policy::Bundle::built_in();
    let sandbox = ringfence_sandbox::Config {
        exe: binary.map_or_else(|| dir.join("no-binary"), Path::to_owned),
        ..ringfence_sandbox::Config::one_shot()
    };
    let parts = Parts {
        store,
        ledger,
        bus: Arc::new(bus),
        policy: Arc::new(ringfence_policy::Rego::load(&bundle).unwrap()),
        registry: ringfence_registry::Registry::open(registry).unwrap(),
        sandbox: std::sync::Arc::new(ringfence_sandbox::Native::open(sandbox)),
        fetcher: ringfence_egress::Fetcher::system(ringfence_egress::Options::default()),
        telemetry: ringfence_engine::Telemetry::default(),
        clock,
        settings: Settings::for_processors(2, dir.join("work")),
    };
    Engine::start(parts).await.unwrap()
}
