//! Room for more: reads of one tenant beside those of another, bytes per tenant, space on the disk.

use std::sync::{Mutex, mpsc};

use ringfence_sqlite::{Db, Error};
use ringfence_store::RoomLimits;
use ringfence_types::{Digest, Scope};
use serde_json::{Value, json};

use crate::support::{Answer, Plan, Server, send, with_json, within};

/// Occupies a place among the reads of a tenant until the returned sender is dropped.
async fn occupy(db: &Db, tenant: &str) -> mpsc::Sender<()> {
    let (go, wait) = mpsc::channel::<()>();
    let (begun, began) = tokio::sync::oneshot::channel();
    let (wait, begun) = (Mutex::new(wait), Mutex::new(Some(begun)));
    drop(db.read_for(tenant, move |_| -> Result<(), Error> {
        if let Some(begun) = begun.lock().unwrap().take() {
            let _ = begun.send(());
        }
        let _ = wait.lock().unwrap().recv();
        Ok(())
    }));
    within("the read to begin", began).await.unwrap();
    go
}

async fn get(server: &Server, key: &str, path: &str) -> u16 {
    send(server.bare("GET", path).bearer_auth(key)).await.status
}

async fn post(server: &Server, key: &str, path: &str, body: &Value) -> Answer {
    send(with_json(server.bare("POST", path).bearer_auth(key), body)).await
}

fn echo(text: &str) -> Value {
    json!({"tool": "echo", "args": {"text": text}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_of_one_tenant_keep_neither_keys_nor_other_tenants_waiting() {
    let server = Server::start().await;
    let (one, two) = (server.key("one", &Scope::ALL).await, server.key("two", &Scope::ALL).await);
    let held = [occupy(&server.db, "one").await, occupy(&server.db, "one").await];
    // Both keys are new to the server, so each is looked up in the database.
    for path in ["/v1/audit", "/v1/audit?persona_id=p", "/v1/calls?tool=echo", "/v1/approvals"] {
        assert_eq!(get(&server, &two, path).await, 200, "{path}");
    }
    assert_eq!(post(&server, &two, "/v1/calls", &echo("served")).await.status, 200);
    assert_eq!(get(&server, &one, "/v1/tools").await, 200, "its key is looked up all the same");
    its_own_reads_wait(&server, &one, &two, held).await;
    server.stop().await;
}

/// The control: a read of the tenant waits, and is answered when a place is free.
async fn its_own_reads_wait(server: &Server, one: &str, two: &str, held: [mpsc::Sender<()>; 2]) {
    let mut waiting = std::pin::pin!(get(server, one, "/v1/calls"));
    let is_waiting = tokio::select! {
        biased;
        _ = &mut waiting => false,
        // Another tenant's read goes the same way, after it.
        status = get(server, two, "/v1/calls") => status == 200,
    };
    assert!(is_waiting);
    drop(held);
    assert_eq!(waiting.await, 200);
}

#[tokio::test]
async fn what_many_evaluations_share_is_bounded_as_often_as_it_is_shared() {
    let server = Server::start().await;
    let question = |count: usize| {
        json!({
            "subject": {"type": "user", "id": "u"},
            "action": {"name": "tool.execute"},
            "context": {"text": "x".repeat(400 << 10)},
            "evaluations": vec![json!({"resource": {"type": "tool", "id": "echo"}}); count],
        })
    };
    let refused = server.post("/access/v1/evaluations", &question(50)).await;
    assert_eq!((refused.status, refused.problem().as_str()), (422, "body_invalid"));
    assert_eq!(refused.pointers(), ["/evaluations", "/context"]);
    let answered = server.post("/access/v1/evaluations", &question(10)).await;
    assert_eq!(answered.status, 200, "{answered:?}");
    assert_eq!(answered.json()["evaluations"].as_array().unwrap().len(), 10);
    server.stop().await;
}

#[tokio::test]
async fn a_tenant_stores_so_much_in_an_hour_and_others_are_not_hindered() {
    let server = Server::start().await;
    let (one, two) = (server.key("one", &Scope::ALL).await, server.key("two", &Scope::ALL).await);
    let room = server.store.room();
    room.set_limits(RoomLimits { tenant_bytes_per_hour: 10_000, disk_reserve: Some(0) });
    // Counted are bytes as they are stored, so the text must not shrink when it is compressed.
    let digits: String = (0..400u32).map(|n| Digest::of(&n.to_le_bytes()).to_string()).collect();
    let large = echo(&digits);
    let first = post(&server, &one, "/v1/calls", &large).await;
    assert_eq!(first.status, 200, "a budget may be overdrawn once: {first:?}");
    let canvas = json!({"session_id": "s", "content": {"a": 1}});
    let question = json!({"prompt": "hello"});
    for (path, body) in
        [("/v1/calls", &large), ("/v1/canvas/event", &canvas), ("/v1/evaluate", &question)]
    {
        let refused = post(&server, &one, path, body).await;
        assert_eq!((refused.status, refused.problem().as_str()), (429, "storage_budget"), "{path}");
        let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!(seconds > 1_000, "{seconds}");
    }
    assert_eq!(get(&server, &one, "/v1/calls").await, 200, "reading goes on");
    assert_eq!(post(&server, &two, "/v1/calls", &echo("small")).await.status, 200);
    let metrics = String::from_utf8(server.get("/metrics").await.bytes).unwrap();
    assert!(metrics.contains("storage_refusals_total 3"), "{metrics}");
    server.stop().await;
}

/// Every call waits for a person.
const ASK: &str = "package ringfence\ndecision := {\"decision\": \"hold\", \"reasons\": \
                   [{\"rule\": \"ask\", \"message\": \"ask\"}]}\n";

#[tokio::test]
async fn little_space_refuses_what_is_new_and_lets_everything_else_go_on() {
    let bundle = ringfence_policy::Bundle::from_files([("ask.rego", ASK)]).unwrap();
    let server = Server::of(Plan::default().bundle(&bundle)).await;
    let held = server.post("/v1/calls", &echo("one")).await;
    assert_eq!(held.status, 202, "{held:?}");
    let id = held.json()["id"].as_str().unwrap().to_owned();
    let room = server.store.room();
    room.set_limits(RoomLimits { tenant_bytes_per_hour: 0, disk_reserve: Some(u64::MAX) });
    let refused = server.post("/v1/calls", &echo("two")).await;
    assert_eq!((refused.status, refused.problem().as_str()), (503, "storage_low"));
    assert!(refused.header("retry-after").is_some());
    let ready = send(server.bare("GET", "/readyz")).await;
    assert_eq!((ready.status, &ready.json()["status"]), (503, &json!("storage_low")));
    assert_eq!(server.get("/v1/calls").await.status, 200);
    // What waits is decided about, and its end is on record.
    let denied = server.post(&format!("/v1/holds/{id}/resolve"), &json!({"action": "deny"})).await;
    assert!(denied.status < 300, "{denied:?}");
    assert_eq!(server.get(&format!("/v1/calls/{id}")).await.json()["state"], "denied");
    let entries = server.get(&format!("/v1/audit?call_id={id}")).await.json();
    assert!(!entries["entries"].as_array().unwrap().is_empty(), "{entries}");
    room.set_limits(RoomLimits { tenant_bytes_per_hour: 0, disk_reserve: Some(0) });
    assert_eq!(server.post("/v1/calls", &echo("three")).await.status, 202);
    assert_eq!(send(server.bare("GET", "/readyz")).await.status, 200);
    server.stop().await;
}
