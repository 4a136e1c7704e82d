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
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use ringfence_api::{Api, ApiConfig};
use ringfence_edge::{Edge, EdgeConfig};
use ringfence_engine::{CallRequest, Engine};
use ringfence_testkit::{Plane, PlaneConfig};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |usual| arguments.next().map_or(usual, |text| text.parse::<u64>().unwrap());
    let (connections, seconds) = (number(64), number(5));
    let binary = arguments.next().map(PathBuf::from);
    let one_shot = ringfence_sandbox::Config::one_shot();
    let config = PlaneConfig {
        sandbox: binary.clone().map(|exe| ringfence_sandbox::Config { exe, ..one_shot }),
        ..PlaneConfig::default()
    };
    let mut plane = Plane::start(config).await.unwrap();
    let made = plane.access().ensure_admin_key(|_| Ok(())).await;
    let secret = made.unwrap().unwrap().secret;
    let edge = Edge::new(plane.engine.clone(), EdgeConfig { rate: None, ..EdgeConfig::default() });
    let api = Api::new(edge.clone(), ApiConfig::default());
    let address = plane.listen(edge, &[&api]).await.unwrap();
    let echo = r#"{"tool":"echo","args":{"text":"hello"}}"#;
    let mut requests: Vec<(&str, Arc<[u8]>)> = vec![
        ("POST /v1/calls echo", post("/v1/calls", secret.reveal(), echo)),
        ("GET /livez", b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n"[..].into()),
    ];
    if binary.is_some() {
        let path = format!("/v1/sandboxes/{}/exec", sandbox(&plane, secret.reveal()).await);
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
