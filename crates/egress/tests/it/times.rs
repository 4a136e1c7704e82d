//! Slow servers and name servers. The attacker controls the timing here, so these tests do wait, each
//! for a fraction of a second.

use std::{
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use ringfence_egress::{Error, Fetcher, LookupError, Name, Options, Request, Resolver};
use ringfence_types::TenantId;
use tokio::{io::AsyncWriteExt, net::TcpStream, time::interval};

use crate::support::{
    Server, fetch_from, fetcher, fetcher_asking, get, ok, options, redirect, seen, send,
    until_closed,
};

const SHORT: Duration = Duration::from_millis(300);

fn within(server: &Server, timeout: Duration) -> Request {
    Request { timeout, ..get(&server.url()) }
}

/// Sends `bytes` one by one, ten milliseconds apart.
async fn dribble(mut stream: TcpStream, bytes: Vec<u8>) {
    let mut beat = interval(Duration::from_millis(10));
    for byte in bytes {
        beat.tick().await;
        if stream.write_all(&[byte]).await.is_err() {
            return;
        }
    }
    let _ = stream.shutdown().await;
    until_closed(stream).await;
}

#[tokio::test]
async fn silence_ends_with_the_timeout_wherever_it_begins() {
    for said in [
        "",
        "HTTP/1.1 200",
        "HTTP/1.1 200 OK\r\nX: y\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
    ] {
        let server = Server::start("127.0.0.1:0", move |_, mut stream| async move {
            let _ = stream.write_all(said.as_bytes()).await;
            until_closed(stream).await;
        })
        .await;
        let started = Instant::now();
        let fetched = fetcher(&[server.address]).fetch(within(&server, SHORT)).await;
        assert!(matches!(fetched, Err(Error::Timeout { after: SHORT, .. })), "{said}: {fetched:?}");
        assert!(started.elapsed() < Duration::from_secs(5), "{said}");
    }
}

#[tokio::test]
async fn a_dribble_that_never_pauses_ends_with_the_timeout_too() {
    let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 0\r\n\r\n", "y".repeat(10_000));
    let body = ok(&"y".repeat(10_000));
    for bytes in [long, body] {
        let server =
            Server::start("127.0.0.1:0", move |_, stream| dribble(stream, bytes.clone().into()))
                .await;
        assert_eq!(seen(fetcher(&[server.address]).fetch(within(&server, SHORT)).await), "timeout");
    }
    // Control: a slow body that ends in time.
    let server = Server::start("127.0.0.1:0", |_, stream| dribble(stream, ok("slow").into())).await;
    assert_eq!(seen(fetch_from(&server).await), "slow");
}

#[tokio::test]
async fn the_timeout_is_for_all_hops_together() {
    let server = Server::start("127.0.0.1:0", |head, stream| async move {
        tokio::time::sleep(Duration::from_millis(120)).await;
        let step: usize = head[5..6].parse().unwrap_or(0);
        let next = redirect(&format!("/{}", step + 1));
        send(stream, if step == 5 { ok("there") } else { next }.into()).await;
    })
    .await;
    let fetcher = fetcher(&[server.address]);
    assert_eq!(seen(fetcher.fetch(within(&server, SHORT)).await), "timeout");
    // Control: no hop alone was too slow.
    assert_eq!(seen(fetcher.fetch(within(&server, Duration::from_secs(10))).await), "there");
}

#[tokio::test]
async fn preliminary_answers_without_end_end_with_the_timeout() {
    let server = Server::start("127.0.0.1:0", |_, mut stream| async move {
        while stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.is_ok() {}
    })
    .await;
    assert_eq!(seen(fetcher(&[server.address]).fetch(within(&server, SHORT)).await), "timeout");
    // Control: a single interim response is accepted.
    let server = Server::answering(format!("HTTP/1.1 100 Continue\r\n\r\n{}", ok("then"))).await;
    assert_eq!(seen(fetch_from(&server).await), "then");
}

/// Name server that never answers.
#[derive(Debug)]
struct Silent;

#[async_trait]
impl Resolver for Silent {
    async fn resolve(&self, _: &Name, _: Option<&TenantId>) -> Result<Vec<IpAddr>, LookupError> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_name_server_that_never_answers_ends_with_the_timeout() {
    let request = Request { timeout: SHORT, ..get("http://silent.example/") };
    assert_eq!(seen(fetcher_asking(Arc::new(Silent), &[]).fetch(request).await), "timeout");
}

#[tokio::test]
async fn the_operator_has_the_last_word_on_time() {
    let server = Server::start("127.0.0.1:0", |_, stream| until_closed(stream)).await;
    let impatient = Options { longest_timeout: SHORT, ..options(&[server.address]) };
    let fetcher = Fetcher::system(impatient).unwrap();
    let fetching = fetcher.fetch(within(&server, Duration::MAX));
    // Without the operator's bound this would wait for ever, and so would the test.
    let fetched = tokio::time::timeout(Duration::from_secs(20), fetching).await.unwrap();
    assert!(matches!(fetched, Err(Error::Timeout { after: SHORT, .. })), "{fetched:?}");
}
