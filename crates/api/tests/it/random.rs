//! Random requests. Whatever comes, the answer is a documented status, and the server goes on.

use std::collections::BTreeSet;

use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::{Server, within};

/// Number of requests; `RINGFENCE_API_CASES` asks for more.
#[expect(clippy::disallowed_methods, reason = "tests have no other way to be told")]
fn cases() -> usize {
    std::env::var("RINGFENCE_API_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(1_500)
}

fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|value| value.to_string()),
        any::<f64>().prop_map(|value| value.to_string()),
        any::<i128>().prop_map(|value| value.to_string()),
        ".{0,12}".prop_map(|text| format!("{text:?}")),
        "[\\x00-\\x7f]{0,8}",
        Just("\"echo\"".to_owned()),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4)
                .prop_map(|all| format!("[{}]", all.join(","))),
            prop::collection::vec((name(), inner), 0..5).prop_map(|all| {
                let all: Vec<_> =
                    all.into_iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
                format!("{{{}}}", all.join(","))
            }),
        ]
    })
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "tool",
            "args",
            "wait",
            "session_id",
            "metadata",
            "version",
            "persona_id",
            "skill",
            "label",
            "scopes",
            "files",
            "content",
            "text",
        ])
        .prop_map(str::to_owned),
        "[a-z~/]{0,6}",
    ]
}

fn path() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "/",
        "/health",
        "/livez",
        "/readyz",
        "/docs",
        "/openapi.json",
        "/metrics",
        "/v1/calls",
        "/v1/calls/019a8b7c-1234-7abc-8def-0123456789ab",
        "/v1/calls/x/events",
        "/v1/tools",
        "/v1/calls/019a8b7c-1234-7abc-8def-0123456789ab/output/stdout",
        "/v1/tools/echo",
        "/v1/keys",
        "/v1/keys/x",
        "/v1/canvas/event",
        "/v1/canvas/s",
        "/skills/list",
        "/skills/execute",
        "/skills/register",
        "/skills/echo/schema",
    ]);
    prop_oneof![
        6 => known.clone().prop_map(str::to_owned),
        2 => (known, "[?&=%a-z0-9]{0,20}").prop_map(|(path, query)| format!("{path}?{query}")),
        1 => "/[!-~&&[^ #]]{0,30}",
    ]
}

fn header() -> impl Strategy<Value = String> {
    let names = prop::sample::select(vec![
        "content-type",
        "content-encoding",
        "idempotency-key",
        "last-event-id",
        "traceparent",
        "origin",
        "accept",
        "x-api-key",
        "expect",
        "range",
        "x-odd",
        "transfer-encoding",
    ]);
    let values = prop_oneof![
        3 => Just("application/json".to_owned()),
        1 => Just("multipart/form-data; boundary=XX".to_owned()),
        2 => "[ -~]{0,30}",
    ];
    (names, values).prop_map(|(name, value)| format!("{name}: {value}\r\n"))
}

/// One request as bytes, mostly well formed so that it gets somewhere.
fn request(key: String) -> impl Strategy<Value = Vec<u8>> {
    let method = prop_oneof![
        8 => prop::sample::select(vec!["GET", "POST", "DELETE", "PUT", "HEAD", "OPTIONS"])
            .prop_map(str::to_owned),
        1 => "[A-Z]{1,10}",
    ];
    let body = prop_oneof![
        5 => value().prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..64),
        1 => Just(Vec::new()),
    ];
    let parts =
        (method, path(), prop::collection::vec(header(), 0..4), body, any::<u8>(), any::<bool>());
    parts.prop_map(move |(method, path, headers, body, dice, json)| {
        let key = if dice < 230 { key.as_str() } else { "rf_wrong" };
        let kind = if json { "content-type: application/json\r\n" } else { "" };
        let mut bytes = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {key}\r\n{kind}{}content-length: {}\r\n\r\n",
            headers.concat(),
            body.len()
        )
        .into_bytes();
        bytes.extend_from_slice(&body);
        if dice % 16 == 0 {
            let at = usize::from(dice) * bytes.len() / 256;
            bytes[at] ^= dice | 1;
        }
        bytes
    })
}

/// Sends it and reads the status. A stream that would go on is left after its head.
async fn status(server: &Server, bytes: &[u8]) -> Option<u16> {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    let mut head = [0; 12];
    within("an answer", stream.read_exact(&mut head)).await.ok()?;
    let text = std::str::from_utf8(&head).unwrap();
    assert!(text.starts_with("HTTP/1."), "{text}");
    Some(text[9..].parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_comes_the_answer_is_a_documented_status() {
    let config = ringfence_edge::EdgeConfig {
        header_timeout: std::time::Duration::from_millis(500),
        request_timeout: std::time::Duration::from_millis(500),
        default_wait: std::time::Duration::from_secs(5),
        ..Default::default()
    };
    let server = Server::of(crate::support::Plan::with(config)).await;
    let strategy = request(server.admin.clone());
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    );
    let mut seen = BTreeSet::new();
    let before = resident();
    for number in 0..cases() {
        let bytes = strategy.new_tree(&mut runner).unwrap().current();
        let status = status(&server, &bytes).await;
        let shown = String::from_utf8_lossy(&bytes);
        assert_ne!(status, Some(500), "request {number}: {shown}");
        seen.extend(status);
    }
    let documented = [
        200, 201, 202, 204, 400, 401, 403, 404, 405, 408, 409, 413, 414, 415, 422, 429, 431, 503,
        505,
    ];
    let unknown: Vec<_> = seen.iter().filter(|status| !documented.contains(status)).collect();
    assert_eq!(unknown, Vec::<&u16>::new());
    // It got somewhere: not everything was refused at the door.
    for status in [200, 400, 401, 404, 405, 415, 422] {
        assert!(seen.contains(&status), "{status} in {seen:?}");
    }
    assert_eq!(server.echo("still here").await["state"], "finished");
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 << 20, "memory grew by {grown} bytes");
    server.stop().await;
}

/// Bytes of this process in memory.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}
