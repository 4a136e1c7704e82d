//! Overhead of the proxy of a sandbox: the same requests to the same server on loopback, directly and
//! through the proxy, one after the other in one run. Prints one object per row with the median, the
//! 99th percentile and the throughput of one client and of eight.
//!
//! `cargo run --release -p ringfence-egress --example overhead [REQUESTS]`

#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use ringfence_egress::{
    Exemption, Fetcher, Grant, Hosts, NoSecrets, Options, Proxy, ProxyLimits, System,
};
use ringfence_types::Bytes;
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

/// Body of every answer.
const BODY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Way to the server.
#[derive(Clone, Copy)]
enum Way {
    /// A connection of its own for each request.
    Direct,
    /// One connection for all requests.
    DirectKept,
    /// Absolute-form requests over one connection to the proxy.
    Forwarded,
    /// A tunnel with one connection for all requests.
    Tunnelled,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let requests: usize = std::env::args().nth(1).map_or(Ok(2_000), |word| word.parse())?;
    let server = serve().await?;
    let proxy = proxy(server).await?;
    for (name, way) in [
        ("direct, a connection per request", Way::Direct),
        ("direct, one connection", Way::DirectKept),
        ("proxy, absolute form", Way::Forwarded),
        ("proxy, plain HTTP in a tunnel", Way::Tunnelled),
    ] {
        let mut row = json!({"way": name, "requests": requests});
        for clients in [1, 8] {
            let began = Instant::now();
            let running =
                (0..clients).map(|_| tokio::spawn(run(way, server, proxy, requests / clients)));
            let mut times = Vec::new();
            for task in running.collect::<Vec<_>>() {
                times.extend(task.await??);
            }
            let elapsed = began.elapsed();
            times.sort_unstable();
            let micros = |part: usize| times[(times.len() - 1) * part / 100].as_micros();
            row[format!("clients_{clients}")] = json!({
                "p50_us": micros(50), "p99_us": micros(99),
                "per_second": (times.len() as f64 / elapsed.as_secs_f64()) as u64,
            });
        }
        println!("{row}");
    }
    Ok(())
}

/// Server that keeps connections and answers every request with [`BODY`].
async fn serve() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = stream.set_nodelay(true);
                let mut stream = BufReader::new(stream);
                let answer =
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{BODY}", BODY.len());
                while read_head(&mut stream).await.is_ok_and(|head| !head.is_empty()) {
                    if stream.get_mut().write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    Ok(address)
}

async fn proxy(server: SocketAddr) -> Result<SocketAddr, Box<dyn std::error::Error>> {
    let options = Options { allow_private: vec![Exemption::from(server)], ..Options::default() };
    let fetcher = Fetcher::new(options, Arc::new(System::default()))?;
    let asked = Hosts::Only(vec![server.to_string().parse()?]);
    let grant = Grant { asked, allowed: Hosts::Any };
    let limits = ProxyLimits {
        bytes_per_sec: Bytes::gib(64),
        bytes: Bytes::gib(64),
        ..ProxyLimits::default()
    };
    let proxy = Proxy::new(fetcher, grant, limits, None, Arc::new(NoSecrets));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(proxy.serve(listener));
    Ok(address)
}

async fn run(
    way: Way,
    server: SocketAddr,
    proxy: SocketAddr,
    requests: usize,
) -> std::io::Result<Vec<Duration>> {
    let peer = if matches!(way, Way::Direct | Way::DirectKept) { server } else { proxy };
    let mut times = Vec::with_capacity(requests);
    let mut stream = BufReader::new(TcpStream::connect(peer).await?);
    stream.get_ref().set_nodelay(true)?;
    if matches!(way, Way::Tunnelled) {
        let open = format!("CONNECT {server} HTTP/1.1\r\nHost: {server}\r\n\r\n");
        stream.get_mut().write_all(open.as_bytes()).await?;
        read_head(&mut stream).await?;
    }
    let path = match way {
        Way::Forwarded => format!("http://{server}/"),
        _ => "/".to_owned(),
    };
    let request = format!("GET {path} HTTP/1.1\r\nHost: {server}\r\n\r\n");
    for _ in 0..requests {
        let began = Instant::now();
        if matches!(way, Way::Direct) {
            stream = BufReader::new(TcpStream::connect(peer).await?);
        }
        stream.get_mut().write_all(request.as_bytes()).await?;
        let head = read_head(&mut stream).await?;
        if !head.starts_with("HTTP/1.1 200") {
            return Err(std::io::Error::other(head));
        }
        let mut body = vec![0; BODY.len()];
        stream.read_exact(&mut body).await?;
        times.push(began.elapsed());
    }
    Ok(times)
}

async fn read_head(stream: &mut BufReader<TcpStream>) -> std::io::Result<String> {
    let mut head = String::new();
    loop {
        let before = head.len();
        if stream.read_line(&mut head).await? == 0 || &head[before..] == "\r\n" {
            return Ok(head);
        }
    }
}
