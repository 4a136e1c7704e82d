//! Server-sent events: complete, in order, resumable, bounded.

use std::time::Duration;

use ringfence_edge::EdgeConfig;
use ringfence_types::Scope;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::{Plan, Server, send, within};

/// One event as a client reads it.
#[derive(Debug, Clone, PartialEq)]
struct Event {
    id: String,
    kind: String,
    data: Value,
}

fn parse(text: &str) -> Vec<Event> {
    let blocks = text.split("\n\n").filter(|block| block.contains("data: "));
    blocks
        .map(|block| {
            let field = |name: &str| {
                let line = block.lines().find_map(|line| line.strip_prefix(name));
                line.unwrap_or_else(|| panic!("{name} in {block}")).to_owned()
            };
            let data = serde_json::from_str(&field("data: ")).unwrap();
            Event { id: field("id: "), kind: field("event: "), data }
        })
        .collect()
}

/// The whole stream of one call.
async fn events(server: &Server, id: &str, after: Option<&str>) -> (u16, Vec<Event>) {
    let mut request = server.request("GET", &format!("/v1/calls/{id}/events"));
    if let Some(after) = after {
        request = request.header("last-event-id", after);
    }
    let answer = send(request).await;
    if answer.status == 200 {
        assert_eq!(answer.header("content-type"), Some("text/event-stream"));
        assert_eq!(answer.header("cache-control"), Some("no-cache"));
        assert_eq!(answer.header("x-accel-buffering"), Some("no"));
    }
    (answer.status, parse(&String::from_utf8(answer.bytes).unwrap()))
}

#[tokio::test]
async fn the_stream_of_a_call_tells_its_life_and_ends() {
    let server = Server::start().await;
    let id = server.echo("x").await["id"].as_str().unwrap().to_owned();
    let (status, all) = events(&server, &id, None).await;
    assert_eq!(status, 200);
    let kinds: Vec<_> = all.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["call.accepted", "call.decided", "call.dispatched", "call.finished"]);
    for event in &all {
        assert_eq!(event.data["call"], id);
        assert_eq!(event.data["type"], event.kind);
        assert_eq!(event.data["id"], event.id);
    }
    // From wherever a client lost its connection it gets the rest, each event once.
    for (seen, event) in all.iter().enumerate() {
        let (status, rest) = events(&server, &id, Some(&event.id)).await;
        let last = seen + 1 == all.len();
        assert_eq!((status, rest.as_slice()), (if last { 204 } else { 200 }, &all[seen + 1..]));
    }
    server.stop().await;
}

#[tokio::test]
async fn a_place_that_is_none_is_refused() {
    let server = Server::start().await;
    let id = server.echo("x").await["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/calls/{id}/events");
    let answer = send(server.request("GET", &path).header("last-event-id", "soon")).await;
    assert_eq!((answer.status, answer.problem().as_str()), (400, "header_invalid"));
    let answer = server.get(&format!("{path}?after=soon")).await;
    assert_eq!((answer.status, answer.problem().as_str()), (400, "query_invalid"));
    server.stop().await;
}

#[tokio::test]
async fn all_events_of_a_tenant_are_streamed_and_of_no_other() {
    let server = Server::start().await;
    let stranger = server.key("other", &[Scope::Call, Scope::Read]).await;
    let response = server.request("GET", "/v1/events?after=0-0").send().await.unwrap();
    assert_eq!(response.status(), 200);
    let foreign = json!({"tool": "echo", "args": {"text": "secret"}});
    let request = server.bare("POST", "/v1/calls").bearer_auth(stranger);
    assert_eq!(send(crate::support::with_json(request, &foreign)).await.status, 200);
    let own = server.echo("x").await["id"].clone();
    let mut response = response;
    let mut text = String::new();
    within("the last event", async {
        while !text.contains("call.finished") {
            let chunk = response.chunk().await.unwrap().expect("the stream goes on");
            text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    })
    .await;
    let all = parse(&text);
    assert!(all.iter().all(|event| event.data["call"] == own), "{text}");
    let ids: Vec<_> = all.iter().map(|event| number(&event.id)).collect();
    assert!(ids.is_sorted(), "{ids:?}");
    server.stop().await;
}

fn number(id: &str) -> (u64, u32) {
    let (position, index) = id.split_once('-').unwrap();
    (position.parse().unwrap(), index.parse().unwrap())
}

#[tokio::test]
async fn silence_is_filled_with_comments_and_the_end_of_the_server_ends_streams() {
    let config = EdgeConfig { heartbeat: Duration::from_millis(20), ..Default::default() };
    let server = Server::of(Plan::with(config)).await;
    let mut response = server.request("GET", "/v1/events").send().await.unwrap();
    let mut text = String::new();
    within("two heartbeats", async {
        while text.matches(": still here").count() < 2 {
            let chunk = response.chunk().await.unwrap().expect("the stream goes on");
            text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    })
    .await;
    assert!(text.starts_with("retry: "), "{text}");
    let rest = tokio::spawn(async move { while let Ok(Some(_)) = response.chunk().await {} });
    server.stop().await;
    within("the end of the stream", rest).await.unwrap();
}

#[tokio::test]
async fn a_key_has_a_bounded_number_of_streams() {
    let config = EdgeConfig { max_streams_per_key: 2, ..Default::default() };
    let server = Server::of(Plan::with(config)).await;
    let open = || async { server.request("GET", "/v1/events").send().await.unwrap() };
    let (one, two) = (open().await, open().await);
    let refused = server.get("/v1/events").await;
    assert_eq!((refused.status, refused.problem().as_str()), (429, "too_many_streams"));
    assert!(refused.header("retry-after").is_some());
    drop((one, two));
    within("room for another stream", async {
        while open().await.status() != 200 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    server.stop().await;
}

/// A client that stops reading is cut off after a while, and slows down no other client meanwhile.
#[tokio::test]
async fn a_client_that_takes_nothing_is_cut_off_and_hinders_no_other() {
    let config = EdgeConfig { write_timeout: Duration::from_millis(300), ..Default::default() };
    let server = Server::of(Plan::with(config)).await;
    let mut lazy = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "GET /v1/events?after=0-0 HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\r\n",
        server.admin
    );
    lazy.write_all(head.as_bytes()).await.unwrap();
    // Each event carries no more than its own facts, so it takes many to fill the buffers.
    let metrics = || async { String::from_utf8(server.get("/metrics").await.bytes).unwrap() };
    within("the lazy client to be cut off", async {
        loop {
            let batch = (0..50).map(|_| server.echo("x"));
            futures_util::future::join_all(batch).await;
            if metrics().await.contains("http_event_streams 0") {
                break;
            }
        }
    })
    .await;
    // What it was sent is there to be read, and then the end.
    let mut read = Vec::new();
    let _ = within("the end", lazy.read_to_end(&mut read)).await;
    assert!(read.starts_with(b"HTTP/1.1 200"));
    server.stop().await;
}

/// Reads a stream to its end.
async fn rest(mut response: reqwest::Response) {
    within("the end of the stream", async {
        // Whichever part cuts it off has ended it as well.
        while let Ok(Some(_)) = response.chunk().await {}
    })
    .await;
}

#[tokio::test]
async fn a_stream_ends_with_the_key_that_opened_it() {
    let config = EdgeConfig { heartbeat: Duration::from_millis(20), ..Default::default() };
    let server = Server::of(Plan::with(config)).await;
    let key = async |body: Value| server.post("/v1/keys", &body).await.json();
    let open = async |key: &Value| {
        let request = server.bare("GET", "/v1/events").bearer_auth(key["secret"].as_str().unwrap());
        let response = within("a stream", request.send()).await.unwrap();
        assert_eq!(response.status(), 200);
        response
    };
    let revoked = key(json!({"label": "a", "scopes": ["read"]})).await;
    let other = key(json!({"label": "b", "scopes": ["read"]})).await;
    let (stream, mut control) = (open(&revoked).await, open(&other).await);
    let id = revoked["key_id"].as_str().unwrap();
    assert_eq!(server.delete(&format!("/v1/keys/{id}")).await.status, 204);
    rest(stream).await;
    // A key that was not revoked goes on, with heartbeats and with events.
    let own = server.echo("x").await["id"].as_str().unwrap().to_owned();
    let mut text = String::new();
    within("an event", async {
        while !text.contains(&own) {
            let chunk = control.chunk().await.unwrap().expect("the stream goes on");
            text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    })
    .await;
    let soon = server.engine.clock().now().after(Duration::from_secs(1)).to_string();
    let short = key(json!({"label": "c", "scopes": ["read"], "expires_at": soon})).await;
    rest(open(&short).await).await;
    server.stop().await;
}
