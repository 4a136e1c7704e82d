//! The guarded client: any method and status, streamed bodies, kept connections, typed timeouts, and
//! the addresses that its rule allows.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use ringfence_egress::{
    Error, Exchange, GuardedClient, LookupError, Method, Name, Payload, Phase, Resolver, Roots,
    Target, Timeouts,
};
use ringfence_types::{Bytes, TenantId};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
};

use crate::support::{Lying, ROOT, Server, fetcher, fetcher_asking, ok, until_closed};

const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(30);

fn exchange(method: Method, url: &str) -> Exchange {
    Exchange::new(method, Target::parse(url).expect("a target"))
}

fn configured() -> GuardedClient {
    GuardedClient::configured(Roots::from_pem(ROOT).expect("a root"))
}

/// Server that answers any number of requests on each connection with their own bytes.
async fn echo_server() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("its address");
    let connections = Arc::new(AtomicUsize::new(0));
    let counter = connections.clone();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            counter.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(echo(stream));
        }
    });
    (address, connections)
}

async fn echo(mut stream: TcpStream) {
    loop {
        let mut seen = Vec::new();
        while !seen.windows(5).any(|end| end == b"-end-") {
            match stream.read_u8().await {
                Ok(byte) => seen.push(byte),
                Err(_) => return,
            }
        }
        let text = String::from_utf8(seen).expect("text");
        // The rest of a body in parts.
        if text.contains("transfer-encoding: chunked") {
            let mut rest = [0; 7];
            let _ = stream.read_exact(&mut rest).await;
        }
        let head =
            format!("HTTP/1.1 418 Teapot\r\nX-Seen: yes\r\nContent-Length: {}\r\n\r\n", text.len());
        if stream.write_all(format!("{head}{text}").as_bytes()).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn any_method_headers_body_and_status_are_passed_on_over_one_connection() {
    let (address, connections) = echo_server().await;
    let client = configured();
    for method in ["POST", "PUT", "PATCH", "DELETE", "QUERY"] {
        let method: Method = method.parse().expect("a method");
        let mut request = exchange(method.clone(), &format!("http://{address}/a?b=c"));
        request.headers.insert("x-own", "1".parse().expect("a value"));
        request.headers.insert("accept", "text/event-stream".parse().expect("a value"));
        request.body = Payload::Whole(format!("{method} -end-").into());
        let answer = client.send(request).await.expect("an answer");
        assert_eq!(answer.status, 418, "{method}");
        assert_eq!(answer.headers["x-seen"], "yes");
        let seen = answer.bytes().await.expect("a body");
        let seen = String::from_utf8(seen.to_vec()).expect("text");
        assert!(seen.starts_with(&format!("{method} /a?b=c HTTP/1.1\r\n")), "{seen}");
        assert!(seen.contains("x-own: 1") && seen.contains(&format!("host: {address}")), "{seen}");
        assert!(seen.contains("accept: text/event-stream") && !seen.contains("*/*"), "{seen}");
        assert!(seen.ends_with(&format!("{method} -end-")), "{seen}");
    }
    assert_eq!(connections.load(Ordering::SeqCst), 1, "the connection is kept");
}

#[tokio::test]
async fn a_body_may_be_sent_in_parts() {
    let (address, _) = echo_server().await;
    let mut request = exchange(Method::POST, &format!("http://{address}/"));
    let parts = ["one ", "two ", "-end-"].map(|part| Ok(part.into()));
    request.body = Payload::Stream(Box::pin(stream::iter(parts)));
    let seen = configured().send(request).await.expect("an answer").bytes().await.expect("a body");
    let seen = String::from_utf8(seen.to_vec()).expect("text");
    assert!(seen.contains("transfer-encoding: chunked") && seen.contains("one "), "{seen}");
}

#[tokio::test]
async fn the_body_is_streamed_as_the_server_sends_it() {
    let more = Arc::new(Notify::new());
    let told = more.clone();
    let server = Server::start("127.0.0.1:0", move |_, mut stream| {
        let told = told.clone();
        async move {
            let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n";
            stream.write_all(head).await.expect("a client");
            told.notified().await;
            stream.write_all(b"6\r\nsecond\r\n0\r\n\r\n").await.expect("a client");
            until_closed(stream).await;
        }
    })
    .await;
    let answer = configured().send(exchange(Method::GET, &server.url())).await.expect("an answer");
    let mut parts = std::pin::pin!(answer.into_stream());
    assert_eq!(parts.next().await.expect("a part").expect("bytes"), "first");
    // The server sends the rest only now, so the first part did not wait for it.
    more.notify_one();
    assert_eq!(parts.next().await.expect("a part").expect("bytes"), "second");
    assert!(parts.next().await.is_none());
}

#[tokio::test]
async fn a_kept_connection_that_the_server_closed_is_replaced() {
    let server = Server::answering(ok("whole")).await;
    let client = configured();
    for _ in 0..3 {
        let answer = client.send(exchange(Method::POST, &server.url())).await.expect("an answer");
        assert_eq!(answer.bytes().await.expect("a body"), "whole");
    }
    assert_eq!(server.heads().iter().filter(|head| head.starts_with("POST")).count(), 3);
}

async fn phase_of(client: &GuardedClient, request: Exchange) -> Option<Phase> {
    let failed = match client.send(request).await {
        Ok(answer) => answer.bytes().await.err(),
        Err(error) => Some(error),
    };
    match failed {
        Some(Error::Timeout { phase, .. }) => Some(phase),
        other => panic!("a timeout was expected, found {other:?}"),
    }
}

#[tokio::test]
async fn each_timeout_says_which_one_it_was() {
    let long = Timeouts::within(LONG);
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf";
    for (said, timeouts, expected) in [
        ("", Timeouts { first_byte: SHORT, ..long }, Phase::FirstByte),
        (half, Timeouts { idle: SHORT, ..long }, Phase::Idle),
        ("", Timeouts { total: SHORT, ..long }, Phase::Total),
        (half, Timeouts { total: SHORT, ..long }, Phase::Total),
    ] {
        let server = Server::start("127.0.0.1:0", move |_, mut stream| async move {
            let _ = stream.write_all(said.as_bytes()).await;
            until_closed(stream).await;
        })
        .await;
        let request = Exchange { timeouts, ..exchange(Method::GET, &server.url()) };
        assert_eq!(phase_of(&configured(), request).await, Some(expected));
    }
    let client = GuardedClient::new(fetcher_asking(Arc::new(Silent), &[]));
    let timeouts = Timeouts { connect: SHORT, ..long };
    let request = Exchange { timeouts, ..exchange(Method::GET, "http://a.example/") };
    assert_eq!(phase_of(&client, request).await, Some(Phase::Connect));
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

async fn code(client: &GuardedClient, url: &str) -> String {
    match client.send(exchange(Method::POST, url)).await {
        Ok(answer) => answer.status.as_u16().to_string(),
        Err(error) => error.code().to_string(),
    }
}

#[tokio::test]
async fn private_addresses_are_for_configured_servers_and_metadata_is_for_none() {
    let server = Server::answering(ok("in")).await;
    let port = server.address.port();
    let mapped = format!("http://[::ffff:127.0.0.1]:{port}/");
    let public = GuardedClient::new(fetcher(&[]));
    assert_eq!(code(&public, &server.url()).await, "address_refused");
    assert_eq!(code(&public, &mapped).await, "address_refused");
    assert!(server.heads().is_empty(), "nothing was dialled");
    // Control: the rule of another user allows it.
    assert_eq!(code(&configured(), &server.url()).await, "200");
    assert_eq!(code(&GuardedClient::new(fetcher(&[server.address])), &server.url()).await, "200");
    for metadata in ["http://169.254.169.254/", "http://[fd00:ec2::254]/", "http://2852039166/"] {
        assert_eq!(code(&configured(), metadata).await, "address_refused", "{metadata}");
    }
    let lying = Lying::new(&[&["169.254.169.254"]]);
    let client = GuardedClient::new(fetcher_asking(lying, &[]));
    assert_eq!(code(&client, "http://model.example/").await, "address_refused");
}

#[tokio::test]
async fn redirects_are_answers_and_long_bodies_are_not_read() {
    let moved =
        "HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n";
    let server = Server::answering(moved).await;
    let answer = configured().send(exchange(Method::GET, &server.url())).await.expect("an answer");
    assert_eq!(answer.status, 302);
    let server = Server::answering(ok(&"x".repeat(2_000))).await;
    let request = Exchange { max_body: Bytes(1_000), ..exchange(Method::GET, &server.url()) };
    let read = configured().send(request).await.expect("an answer").bytes().await;
    assert!(matches!(read, Err(Error::TooLarge { .. })), "{read:?}");
    let request = exchange(Method::GET, &server.url());
    let read = configured().send(request).await.expect("an answer").bytes().await;
    assert_eq!(read.expect("the control").len(), 2_000);
}
