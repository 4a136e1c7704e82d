//! Bounds of connections, headers, bodies, time and rate; and the orderly end.

use std::time::{Duration, Instant};

use ringfence_access::Rate;
use ringfence_edge::EdgeConfig;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::{Plan, STEP_TIMEOUT, Server, send, with_json, within};

fn status(answer: &[u8]) -> &str {
    let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
    std::str::from_utf8(line).unwrap().strip_prefix("HTTP/1.1 ").unwrap_or("none")
}

#[tokio::test]
async fn a_key_has_a_rate() {
    let config = EdgeConfig { rate: Some(Rate { per_second: 1, burst: 3 }), ..Default::default() };
    let server = Server::of(Plan::with(config)).await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(server.get("/v1/tools").await);
    }
    let codes: Vec<_> = statuses.iter().map(|answer| answer.status).collect();
    assert_eq!(codes, [200, 200, 200, 429]);
    let refused = &statuses[3];
    assert_eq!(refused.problem(), "rate_limited");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.header("ratelimit-policy"), Some("\"key\";q=3;w=1"));
    assert!(refused.header("ratelimit").is_some());
    // Another key has a rate of its own.
    let other = server.key("default", &[ringfence_types::Scope::Read]).await;
    assert_eq!(send(server.bare("GET", "/v1/tools").bearer_auth(other)).await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_before_it_is_read() {
    let config = EdgeConfig { max_body: 1_000, ..Default::default() };
    let server = Server::of(Plan::with(config)).await;
    let body = json!({"tool": "echo", "args": {"text": "x".repeat(2_000)}});
    let answer = server.post("/v1/calls", &body).await;
    assert_eq!((answer.status, answer.problem().as_str()), (413, "body_too_large"));
    // Declared large and never sent.
    let head = format!(
        "POST /v1/calls HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: 1073741824\r\n\r\n",
        server.admin
    );
    assert_eq!(status(&server.raw(head.as_bytes()).await), "413 Payload Too Large");
    // Not declared at all: cut off at the bound.
    let mut chunked =
        head.replace("content-length: 1073741824", "transfer-encoding: chunked").into_bytes();
    for _ in 0..10 {
        chunked.extend_from_slice(format!("c8\r\n{}\r\n", "x".repeat(200)).as_bytes());
    }
    assert_eq!(status(&server.raw(&chunked).await), "413 Payload Too Large");
    server.stop().await;
}

#[tokio::test]
async fn large_bodies_share_a_bounded_room() {
    let config = EdgeConfig {
        max_bodies_together: 100 << 10,
        request_timeout: STEP_TIMEOUT,
        ..Default::default()
    };
    let server = Server::of(Plan::with(config)).await;
    // One client holds most of the room.
    let mut holder = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "POST /v1/calls HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: 200000\r\n\r\n",
        server.admin
    );
    holder.write_all(head.as_bytes()).await.unwrap();
    holder.write_all(&[b' '; 90 << 10]).await.unwrap();
    let large = json!({"tool": "echo", "args": {"text": "x".repeat(80 << 10)}});
    within("the room to be taken", async {
        loop {
            let answer = server.post("/v1/calls", &large).await;
            if answer.status == 503 {
                assert_eq!(answer.problem(), "busy");
                break;
            }
        }
    })
    .await;
    // Small ones are never hindered, and the room comes back.
    server.echo("small").await;
    drop(holder);
    within("room for a large body", async {
        while server.post("/v1/calls", &large).await.status != 200 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    server.stop().await;
}

#[tokio::test]
async fn a_body_that_never_comes_times_out() {
    let config = EdgeConfig { request_timeout: Duration::from_millis(100), ..Default::default() };
    let server = Server::of(Plan::with(config)).await;
    let head = format!(
        "POST /v1/calls HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{{",
        server.admin
    );
    assert_eq!(status(&server.raw(head.as_bytes()).await), "408 Request Timeout");
    server.stop().await;
}

#[tokio::test]
async fn a_header_that_never_ends_and_a_client_that_says_nothing_are_cut_off() {
    let config = EdgeConfig { header_timeout: Duration::from_millis(100), ..Default::default() };
    let server = Server::of(Plan::with(config)).await;
    for beginning in ["", "GET / HTTP/1.1\r\nhost: loc"] {
        let began = Instant::now();
        let answer = server.raw(beginning.as_bytes()).await;
        assert!(began.elapsed() < STEP_TIMEOUT / 2, "{beginning:?}");
        assert!(matches!(status(&answer), "none" | "408 Request Timeout"), "{beginning:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn headers_are_bounded_in_size_and_number() {
    let server = Server::start().await;
    let large = format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "y".repeat(65 << 10));
    assert_eq!(status(&server.raw(large.as_bytes()).await), "431 Request Header Fields Too Large");
    let many = (0..200).map(|number| format!("x-{number}: y\r\n")).collect::<String>();
    let many = format!("GET / HTTP/1.1\r\nhost: localhost\r\n{many}\r\n");
    assert_eq!(status(&server.raw(many.as_bytes()).await), "431 Request Header Fields Too Large");
    // Control: a header of usual size passes.
    let usual = "GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx: y\r\n\r\n";
    assert_eq!(status(&server.raw(usual.as_bytes()).await), "200 OK");
    server.stop().await;
}

#[tokio::test]
async fn connections_are_bounded_and_the_rest_wait_their_turn() {
    let config = EdgeConfig {
        max_connections: 2,
        header_timeout: Duration::from_millis(200),
        ..Default::default()
    };
    let server = Server::of(Plan::with(config)).await;
    let mut idle = Vec::new();
    for _ in 0..2 {
        idle.push(TcpStream::connect(server.address).await.unwrap());
    }
    // It is served because an idle one makes room.
    let usual = "GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    assert_eq!(status(&server.raw(usual.as_bytes()).await), "200 OK");
    server.stop().await;
}

#[tokio::test]
async fn who_finds_no_room_is_told_and_the_others_are_served() {
    let config = EdgeConfig { max_connections: 1, ..Default::default() };
    let server = Server::of(Plan::with(config)).await;
    let usual = "GET /livez HTTP/1.1\r\nhost: localhost\r\n";
    let mut holder = TcpStream::connect(server.address).await.unwrap();
    // A client with a key makes no room for others.
    let with_key = format!(
        "GET /v1/canvas/none HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\r\n",
        server.admin
    );
    holder.write_all(with_key.as_bytes()).await.unwrap();
    let mut first = [0; 4096];
    assert_ne!(within("an answer", holder.read(&mut first)).await.unwrap(), 0);

    let last = format!("{usual}connection: close\r\n\r\n");
    let refused = server.raw(last.as_bytes()).await;
    assert_eq!(status(&refused), "503 Service Unavailable");
    let refused = String::from_utf8(refused).unwrap();
    assert!(refused.contains("retry-after: 1\r\n") && refused.contains("\"busy\""), "{refused}");

    holder.write_all(last.as_bytes()).await.unwrap();
    let mut rest = Vec::new();
    within("an answer", holder.read_to_end(&mut rest)).await.unwrap();
    assert_eq!(status(&rest), "200 OK");
    // The room is free again.
    assert_eq!(status(&server.raw(last.as_bytes()).await), "200 OK");
    server.stop().await;
}

#[tokio::test]
async fn connections_are_kept_for_the_next_request() {
    let server = Server::start().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    for _ in 0..3 {
        stream.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"}") {
            let mut piece = [0; 1024];
            let length = within("an answer", stream.read(&mut piece)).await.unwrap();
            assert_ne!(length, 0, "the connection was closed");
            answer.extend_from_slice(&piece[..length]);
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn a_request_under_way_is_answered_when_the_server_stops() {
    let server = Server::start().await;
    let address = server.address;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let body = json!({"tool": "echo", "args": {"text": "last"}}).to_string();
    let (first, rest) = body.split_at(10);
    let head = format!(
        "POST /v1/calls HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{first}",
        server.admin,
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // The request has arrived when an answer to a later one has.
    server.get("/v1/tools").await;
    let rest = rest.to_owned();
    let (engine, admin) = (server.engine.clone(), server.admin.clone());
    let answering = tokio::spawn(async move {
        // The listener goes first, so that no new client gets in.
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        stream.write_all(rest.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        answer
    });
    drop((engine, admin));
    server.stop().await;
    let answer = within("the answer", answering).await.unwrap();
    assert_eq!(status(&answer), "200 OK", "{}", String::from_utf8_lossy(&answer));
}

#[tokio::test]
async fn a_wait_is_bounded() {
    let server = Server::start().await;
    let body = json!({"tool": "echo", "args": {"text": "x"}, "wait": 301});
    let answer = send(with_json(server.request("POST", "/v1/calls"), &body)).await;
    assert_eq!((answer.status, answer.pointers()), (422, vec!["/wait".to_owned()]));
    server.stop().await;
}

/// Nothing of it is a request, so nothing of ours answers: a bare status and the end.
#[tokio::test]
async fn what_is_no_request_is_answered_without_a_body_and_closed() {
    let server = Server::start().await;
    let long = format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "a".repeat(70 << 10));
    let fields = "x: y\r\n".repeat(101);
    let fields = format!("GET / HTTP/1.1\r\nhost: localhost\r\n{fields}\r\n");
    let cases: [(&str, &[u8], &[&str]); 10] = [
        ("no words", b"\x16\x03\x01\x02\x00\x01", &["400"]),
        ("one word", b"HELLO\r\n\r\n", &["400"]),
        ("no version", b"GET /\r\n\r\n", &["400"]),
        ("a version of the future", b"GET / HTTP/3.0\r\nhost: localhost\r\n\r\n", &["400"]),
        ("a path with spaces", b"GET / / HTTP/1.1\r\nhost: localhost\r\n\r\n", &["400"]),
        ("NUL in a field", b"GET / HTTP/1.1\r\nhost: local\0host\r\n\r\n", &["400"]),
        ("a field without a name", b"GET / HTTP/1.1\r\n: x\r\n\r\n", &["400"]),
        (
            "two lengths",
            b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
            &["400"],
        ),
        ("a long line", long.as_bytes(), &["414", "431"]),
        ("many fields", fields.as_bytes(), &["431"]),
    ];
    for (what, bytes, statuses) in cases {
        let answer = server.raw(bytes).await;
        let text = String::from_utf8_lossy(&answer);
        assert!(statuses.contains(&&status(&answer)[..3]), "{what}: {text}");
        let head = text.to_ascii_lowercase();
        assert!(head.contains("\r\nconnection: close\r\n"), "{what}: {text}");
        assert!(head.contains("\r\ncontent-length: 0\r\n") && head.ends_with("\r\n\r\n"), "{what}");
    }
    // A client that begins with HTTP/2 gets no answer in its protocol.
    assert_eq!(server.raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await, b"");
    server.echo("and the server goes on").await;
    server.stop().await;
}

/// A client that always has one more byte is not slower than one that has none.
#[tokio::test]
async fn headers_and_bodies_that_drip_are_cut_off() {
    let bound = Duration::from_millis(300);
    let config = EdgeConfig { header_timeout: bound, request_timeout: bound, ..Default::default() };
    let server = Server::of(Plan::with(config)).await;
    let head = format!(
        "POST /v1/calls HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n",
        server.admin
    );
    for (beginning, drop, expected) in [
        ("GET / HTTP/1.1\r\n", "x-a: b\r\n", ["none", "408 Request Timeout"]),
        (&head, " ", ["408 Request Timeout"; 2]),
    ] {
        let (mut reader, mut writer) =
            TcpStream::connect(server.address).await.unwrap().into_split();
        writer.write_all(beginning.as_bytes()).await.unwrap();
        let dripping = tokio::spawn(async move {
            let mut pace = tokio::time::interval(Duration::from_millis(20));
            loop {
                pace.tick().await;
                if writer.write_all(drop.as_bytes()).await.is_err() {
                    return;
                }
            }
        });
        let mut answer = Vec::new();
        let _ = within("the end", reader.read_to_end(&mut answer)).await;
        assert!(expected.contains(&status(&answer)), "{}", String::from_utf8_lossy(&answer));
        dripping.abort();
    }
    server.stop().await;
}

#[tokio::test]
async fn idle_connections_do_not_keep_others_out() {
    let long = STEP_TIMEOUT * 2;
    let config = EdgeConfig {
        max_connections: 4,
        header_timeout: long,
        first_header_timeout: long,
        ..Default::default()
    };
    let server = Server::of(Plan::with(config)).await;
    let mut held = Vec::new();
    for beginning in ["", "GET /livez HTTP/1.1\r\n", "", "GET / HTTP/1.1\r\nhost: loc"] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(beginning.as_bytes()).await.unwrap();
        held.push(stream);
    }
    // Answered at once, whatever the timeouts say: the oldest made room.
    server.echo("served").await;
    let mut rest = Vec::new();
    let _ = within("the oldest to be closed", held[0].read_to_end(&mut rest)).await;
    assert!(rest.is_empty());
    let metrics = server.get("/metrics").await;
    let metrics = String::from_utf8(metrics.bytes).unwrap();
    assert!(metrics.contains("http_connections_evicted_total 1"), "{metrics}");
    // The control: the others are still there, and so is the client that has shown a key.
    held[3].write_all(b"alhost\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    within("an answer", held[3].read_to_end(&mut answer)).await.unwrap();
    assert_eq!(status(&answer), "200 OK");
    server.stop().await;
}

#[tokio::test]
async fn a_first_header_has_less_time_than_the_next() {
    let config = EdgeConfig {
        header_timeout: STEP_TIMEOUT * 2,
        first_header_timeout: Duration::from_millis(100),
        ..Default::default()
    };
    let server = Server::of(Plan::with(config)).await;
    let mut kept = TcpStream::connect(server.address).await.unwrap();
    let usual = "GET /livez HTTP/1.1\r\nhost: localhost\r\n";
    kept.write_all(format!("{usual}\r\n").as_bytes()).await.unwrap();
    let mut first = [0; 1024];
    assert_ne!(within("an answer", kept.read(&mut first)).await.unwrap(), 0);
    for beginning in ["", "GET / HTTP/1.1\r\nhost: loc"] {
        assert_eq!(status(&server.raw(beginning.as_bytes()).await), "none", "{beginning:?}");
    }
    // The control: one that had asked before is still open.
    kept.write_all(format!("{usual}connection: close\r\n\r\n").as_bytes()).await.unwrap();
    let mut rest = Vec::new();
    within("an answer", kept.read_to_end(&mut rest)).await.unwrap();
    assert_eq!(status(&rest), "200 OK");
    server.stop().await;
}
