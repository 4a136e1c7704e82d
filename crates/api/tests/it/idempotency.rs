//! Doing a thing once.

use serde_json::{Value, json};

use crate::support::{Answer, Plan, Server, send, with_json, within};

async fn call(server: &Server, key: &str, body: &Value) -> Answer {
    let request = server.request("POST", "/v1/calls").header("idempotency-key", key);
    send(with_json(request, body)).await
}

#[tokio::test]
async fn the_same_key_gives_the_same_call() {
    let server = Server::start().await;
    let body = json!({"tool": "timestamp", "args": {"format": "%f"}});
    let first = call(&server, "\"k 1\"", &body).await;
    assert_eq!((first.status, first.header("idempotency-replayed")), (200, None));
    // Quotes or none: the same key.
    let again = call(&server, "k 1", &body).await;
    assert_eq!((again.status, again.header("idempotency-replayed")), (200, Some("true")));
    assert_eq!(again.json(), first.json());
    let other = call(&server, "\"k 2\"", &body).await;
    assert_ne!(other.json()["id"], first.json()["id"]);
    let calls = server.get("/v1/calls").await.json();
    assert_eq!(calls["calls"].as_array().unwrap().len(), 2);
    server.stop().await;
}

#[tokio::test]
async fn the_same_key_for_something_else_is_refused() {
    let server = Server::start().await;
    let first = call(&server, "\"k\"", &json!({"tool": "echo", "args": {"text": "a"}})).await;
    let other = call(&server, "\"k\"", &json!({"tool": "echo", "args": {"text": "b"}})).await;
    assert_eq!((other.status, other.problem().as_str()), (422, "idempotency_key_reused"));
    assert_eq!(other.json()["call_id"], first.json()["id"]);
    // Another key has a space of its own.
    let stranger = server.key("default", &ringfence_types::Scope::ALL).await;
    let body = json!({"tool": "echo", "args": {"text": "b"}});
    let request = server.bare("POST", "/v1/calls").bearer_auth(stranger);
    let answer = send(with_json(request.header("idempotency-key", "\"k\""), &body)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    server.stop().await;
}

#[tokio::test]
async fn a_key_that_is_none_is_refused() {
    let server = Server::start().await;
    let body = json!({"tool": "echo", "args": {"text": "a"}});
    let long = "x".repeat(256);
    for bad in ["\"\"", "\"open", "a\"b", "\"a\\n\"", long.as_str()] {
        let answer = call(&server, bad, &body).await;
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (400, "idempotency_key_invalid"),
            "{bad}"
        );
    }
    let twice = server.request("POST", "/v1/calls").header("idempotency-key", "a");
    let answer = send(with_json(twice.header("idempotency-key", "b"), &body)).await;
    assert_eq!(answer.problem(), "idempotency_key_invalid");
    server.stop().await;
}

#[tokio::test]
async fn a_key_whose_call_has_not_ended_is_in_use() {
    let server = Server::of(Plan::sandboxed()).await;
    let code = "import time\ntime.sleep(600)";
    let body = json!({"tool": "code_execute", "args": {"code": code}, "wait": 0});
    let first = call(&server, "\"k\"", &body).await;
    assert_eq!(first.status, 202, "{first:?}");
    let again = call(&server, "\"k\"", &body).await;
    assert_eq!((again.status, again.problem().as_str()), (409, "idempotency_key_in_use"));
    assert_eq!(again.json()["call_id"], first.json()["id"]);
    let place = first.header("location").unwrap().to_owned();
    server.delete(&place).await;
    within("the end of the call", async {
        while server.get(&place).await.json()["state"] != "cancelled" {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let replayed = call(&server, "\"k\"", &body).await;
    assert_eq!((replayed.status, &replayed.json()["state"]), (200, &json!("cancelled")));
    server.stop().await;
}

#[tokio::test]
async fn a_call_that_was_made_is_given_again_though_its_tool_is_gone() {
    let server = Server::of(Plan::sandboxed()).await;
    let files: Value = crate::skills::GREET.iter().map(|(path, text)| (*path, *text)).collect();
    let registered = server.post("/skills/register", &json!({"files": files})).await;
    assert_eq!(registered.status, 201, "{registered:?}");
    let body = json!({"tool": "greet", "args": {"name": "Ada"}});
    let first = call(&server, "\"k\"", &body).await;
    assert_eq!(first.json()["result"], json!({"greeting": "Hello Ada"}), "{first:?}");
    assert_eq!(server.delete("/skills/greet").await.status, 200);
    let again = call(&server, "\"k\"", &body).await;
    assert_eq!((again.status, again.header("idempotency-replayed")), (200, Some("true")));
    assert_eq!(again.json(), first.json());
    assert_eq!(call(&server, "\"other\"", &body).await.status, 404, "the control");
    server.stop().await;
}

#[tokio::test]
async fn a_key_whose_call_was_erased_is_gone_and_stays_used() {
    let server = Server::start().await;
    let body = json!({"tool": "echo", "args": {"text": "a"}});
    let first = call(&server, "\"k\"", &body).await.json();
    let skill = json!({"skill": "echo", "args": {"text": "a"}});
    let execute = async || {
        let request = server.request("POST", "/skills/execute").header("idempotency-key", "s");
        send(with_json(request, &skill)).await
    };
    assert_eq!(execute().await.status, 200);
    let pruned = server.post("/v1/retention/prune", &json!({"older_than": 0})).await;
    assert_eq!(pruned.status, 200, "{pruned:?}");
    let again = call(&server, "\"k\"", &body).await;
    assert_eq!((again.status, again.problem().as_str()), (410, "call_erased"));
    assert_eq!(again.json()["call_id"], first["id"]);
    let again = execute().await;
    assert_eq!((again.status, again.problem().as_str()), (410, "call_erased"));
    assert_eq!(call(&server, "\"other\"", &body).await.status, 200);
    server.stop().await;
}
