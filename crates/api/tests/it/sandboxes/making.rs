//! Creation of sandboxes: once per idempotency key, with limits and timers.

use std::time::Duration;

use ringfence_access::OPERATOR_TENANT;
use ringfence_edge::EdgeConfig;
use ringfence_types::Scope;
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, net::TcpStream};

use super::{create, put, refused, sh};
use crate::support::{Answer, Plan, STEP_TIMEOUT, Server, send, with_json, within};

async fn keyed(server: &Server, key: &str, body: &Value) -> Answer {
    let request = server.request("POST", "/v1/sandboxes").header("idempotency-key", key);
    send(with_json(request, body)).await
}

async fn restore(server: &Server, query: &str, bytes: Vec<u8>) -> Answer {
    let request = server.request("POST", &format!("/v1/sandboxes/restore{query}"));
    send(request.header("content-type", "application/octet-stream").body(bytes)).await
}

#[tokio::test]
async fn one_idempotency_key_makes_one_sandbox() {
    let server = Server::of(Plan::sandboxed()).await;
    let body = json!({"idle_secs": 60});
    let first = keyed(&server, "\"a\"", &body).await;
    assert_eq!((first.status, first.header("idempotency-replayed")), (201, None));
    let again = keyed(&server, "a", &body).await;
    assert_eq!((again.status, again.header("idempotency-replayed")), (201, Some("true")));
    assert_eq!(first.json()["id"], again.json()["id"]);
    assert_eq!(first.header("location"), again.header("location"));
    refused(&keyed(&server, "a", &json!({})).await, 422, "idempotency_key_reused");
    refused(&keyed(&server, "\"", &body).await, 400, "idempotency_key_invalid");
    // Keys of different clients have nothing to do with each other.
    let other = server.key(OPERATOR_TENANT, &ringfence_types::Scope::ALL).await;
    let request = server.bare("POST", "/v1/sandboxes").bearer_auth(&other);
    let theirs = send(with_json(request.header("idempotency-key", "a"), &body)).await;
    assert_eq!((theirs.status, theirs.header("idempotency-replayed")), (201, None));
    assert_eq!(server.delete(first.header("location").unwrap()).await.status, 204);
    let anew = keyed(&server, "a", &json!({})).await;
    assert_eq!((anew.status, anew.header("idempotency-replayed")), (201, None));
    assert_eq!(server.get("/v1/sandboxes").await.json()["count"], 2);
    server.stop().await;
}

#[tokio::test]
async fn many_with_one_key_at_once_make_one_sandbox() {
    let server = Server::of(Plan::sandboxed()).await;
    let body = json!({});
    let all = futures_util::future::join_all((0..8).map(|_| keyed(&server, "a", &body))).await;
    for answer in &all {
        match answer.status {
            201 => {}
            409 => assert_eq!(answer.problem(), "idempotency_key_in_use"),
            other => panic!("{other}: {answer:?}"),
        }
    }
    assert!(all.iter().any(|answer| answer.status == 201));
    assert_eq!(server.get("/v1/sandboxes").await.json()["count"], 1);
    server.stop().await;
}

#[tokio::test]
async fn a_refused_sandbox_leaves_its_key_free() {
    let server = Server::of(Plan::sandboxed()).await;
    refused(&keyed(&server, "a", &json!({"idle_secs": 0})).await, 422, "body_invalid");
    assert_eq!(keyed(&server, "a", &json!({"idle_secs": 1})).await.status, 201);
    server.stop().await;
}

#[tokio::test]
async fn a_snapshot_is_restored_with_limits_and_times_of_its_own() {
    let server = Server::of(Plan::sandboxed()).await;
    let place = create(&server, &json!({})).await;
    put(&server, &place, "kept", "content").await;
    let snapshot = send(server.request("POST", &format!("{place}/snapshot"))).await.bytes;
    let query = "?memory_bytes=134217728&disk_bytes=1048576&processes=9&cpu_millis=500\
                 &network=loopback&terminals=0&idle_secs=7&lifetime_secs=70";
    let made = restore(&server, query, snapshot.clone()).await;
    assert_eq!(made.status, 201, "{made:?}");
    let shown = made.json();
    for (name, value) in [
        ("memory_bytes", json!(134_217_728)),
        ("disk_bytes", json!(1_048_576)),
        ("processes", json!(9)),
        ("cpu_millis", json!(500)),
        ("network", json!("loopback")),
        ("terminals", json!(0)),
        ("idle_secs", json!(7.0)),
        ("lifetime_secs", json!(70.0)),
    ] {
        assert_eq!(shown[name], value, "{name}");
    }
    for query in ["?memory_bytes=x", "?network=host", "?more=1", "?idle_secs=1&idle_secs=2"] {
        refused(&restore(&server, query, snapshot.clone()).await, 400, "query_invalid");
    }
    let small = restore(&server, "?memory_bytes=1&idle_secs=0", snapshot).await;
    refused(&small, 422, "body_invalid");
    assert_eq!(small.pointers(), ["/limits/memory_bytes", "/limits/disk_bytes", "/idle_secs"]);
    let request = with_json(server.request("POST", "/v1/sandboxes/restore"), &json!({}));
    refused(&send(request).await, 415, "media_type_unsupported");
    server.stop().await;
}

#[tokio::test]
async fn times_are_shown_changed_and_kept() {
    let server = Server::of(Plan::sandboxed()).await;
    let place = create(&server, &json!({"idle_secs": 60, "lifetime_secs": 600})).await;
    let patch = |body: Value| {
        let request = with_json(server.request("PATCH", &place), &body);
        async move { send(request).await }
    };
    let changed = patch(json!({"idle_secs": 30})).await.json();
    assert_eq!((&changed["idle_secs"], &changed["lifetime_secs"]), (&json!(30.0), &json!(600.0)));
    let left = changed["left_secs"].as_f64().unwrap();
    assert!(left > 0.0 && left <= 30.0, "{left}");
    let wrong = patch(json!({"idle_secs": 0, "lifetime_secs": -1, "state": "paused"})).await;
    refused(&wrong, 422, "body_invalid");
    assert_eq!(wrong.pointers(), ["/idle_secs", "/lifetime_secs", "/state"]);
    // Nothing of a refused change is kept, and a lifetime that is over ends the sandbox.
    assert_eq!(server.get(&place).await.json()["idle_secs"], 30.0);
    patch(json!({"lifetime_secs": 1})).await;
    crate::support::within("the end of its life", async {
        while server.get(&place).await.status != 404 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    server.stop().await;
}

#[tokio::test]
async fn what_a_sandbox_uses_is_measured() {
    let server = Server::of(Plan::sandboxed()).await;
    let place = create(&server, &json!({"limits": {"disk_bytes": 4_194_304}})).await;
    let before = server.get(&format!("{place}/metrics")).await.json();
    put(&server, &place, "big", &"x".repeat(1 << 20)).await;
    let after = server.get(&format!("{place}/metrics")).await.json();
    let used = |shown: &Value| shown["disk_used_bytes"].as_u64().unwrap();
    assert!(used(&after) >= used(&before) + (1 << 20), "{before} {after}");
    assert_eq!(after["disk_total_bytes"], 4_194_304);
    assert!(after["uptime_secs"].as_f64().unwrap() > 0.0);
    server.stop().await;
}

#[tokio::test]
async fn metadata_is_bounded_and_plain() {
    let server = Server::of(Plan::sandboxed()).await;
    let many: serde_json::Map<String, Value> =
        (0..17).map(|number| (format!("n{number}"), json!("x"))).collect();
    for metadata in
        [json!(many), json!({"a b": "x"}), json!({"": "x"}), json!({"a": "x".repeat(201)})]
    {
        let answer = server.post("/v1/sandboxes", &json!({"metadata": metadata})).await;
        refused(&answer, 422, "body_invalid");
        assert_eq!(answer.pointers(), ["/metadata"]);
    }
    server.stop().await;
}

#[tokio::test]
async fn snapshots_that_no_client_takes_use_bounded_memory() {
    // Answers stay unread while others are packed, which takes long on a busy machine.
    let config = EdgeConfig { write_timeout: STEP_TIMEOUT * 2, ..Default::default() };
    let server = Server::of(Plan { config, ..Plan::sandboxed() }).await;
    let place = create(&server, &json!({})).await;
    // More than the buffers of a connection hold, and not to be packed smaller.
    let filled = sh(&server, &place, "head -c 20000000 /dev/urandom > data").await;
    assert_eq!(filled.json()["exit_code"], 0, "{filled:?}");
    let path = format!("{place}/snapshot");
    let slow = async || within("an answer", server.request("POST", &path).send()).await.unwrap();
    let (first, second) = (slow().await, slow().await);
    assert_eq!([first.status().as_u16(), second.status().as_u16()], [200, 200]);
    refused(&send(server.request("POST", &path)).await, 503, "busy");
    // Another key has permits of its own.
    let other = server.key("default", &[Scope::Call]).await;
    let answer = send(server.bare("POST", &path).bearer_auth(other)).await;
    assert_eq!((answer.status, answer.bytes.len() > 20_000_000), (200, true), "the control");
    let length: usize = answer.header("content-length").unwrap().parse().unwrap();
    assert_eq!(length, answer.bytes.len());
    // Taken to its end, or left, it gives its room back.
    assert!(within("a body", first.bytes()).await.unwrap().len() > 20_000_000);
    drop(second);
    within("room", async {
        while send(server.request("POST", &path)).await.status != 200 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    server.stop().await;
}

#[tokio::test]
async fn slow_snapshot_uploads_keep_no_other_request_waiting() {
    let config = EdgeConfig { request_timeout: Duration::from_secs(3_600), ..Default::default() };
    let server = Server::of(Plan { config, ..Plan::sandboxed() }).await;
    let place = create(&server, &json!({})).await;
    let head = format!(
        "POST /v1/sandboxes/restore HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
         content-type: application/octet-stream\r\ncontent-length: 1000\r\n\r\nring",
        server.admin
    );
    let mut slow = Vec::new();
    for _ in 0..4 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    // They have got as far as they can: each of these was asked for after them.
    for _ in 0..8 {
        assert_eq!(server.get("/v1/sandboxes").await.status, 200);
    }
    let answer = send(server.request("POST", &format!("{place}/snapshot"))).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    drop(slow);
    server.stop().await;
}
