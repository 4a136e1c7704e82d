//! The canvas of a session.

use serde_json::json;

use crate::support::{Server, send, with_json};

#[tokio::test]
async fn what_is_put_on_a_canvas_is_shown_in_order() {
    let server = Server::start().await;
    let body =
        json!({"session_id": "s", "content": {"a": [1]}, "pane": "left", "metadata": {"k": "v"}});
    let stored = server.post("/v1/canvas/event", &body).await;
    assert_eq!((stored.status, stored.json()), (200, json!({"status": "stored"})));
    let call = json!({"tool": "canvas_append", "args": {"session_id": "s", "content": "two"}});
    assert_eq!(server.post("/v1/calls", &call).await.status, 200);
    let items = server.get("/v1/canvas/s").await.json();
    let shown: Vec<_> =
        items.as_array().unwrap().iter().map(|item| item["content"].clone()).collect();
    assert_eq!(shown, [json!({"a": [1]}), json!("two")]);
    assert_eq!(items[0]["type"], "canvas");
    assert_eq!(items[0]["pane"], "left");
    assert_eq!(items[0]["metadata"], json!({"k": "v"}));
    assert_eq!(items[1]["pane"], "default");
    assert_eq!(server.get("/v1/canvas/other").await.json(), json!([]));
    server.stop().await;
}

#[tokio::test]
async fn only_the_last_hundred_are_shown() {
    let server = Server::start().await;
    for number in 0..103 {
        let body = json!({"session_id": "s", "content": number});
        assert_eq!(server.post("/v1/canvas/event", &body).await.status, 200);
    }
    let items = server.get("/v1/canvas/s").await.json();
    assert_eq!(items.as_array().unwrap().len(), 100);
    assert_eq!((&items[0]["content"], &items[99]["content"]), (&json!(3), &json!(102)));
    server.stop().await;
}

#[tokio::test]
async fn every_fault_of_a_canvas_event_is_named() {
    let server = Server::start().await;
    let answer = server.post("/v1/canvas/event", &json!({"pane": 1, "metadata": [], "x": 1})).await;
    assert_eq!((answer.status, answer.problem().as_str()), (422, "body_invalid"));
    assert_eq!(answer.pointers(), ["/session_id", "/pane", "/content", "/metadata", "/x"]);
    server.stop().await;
}

#[tokio::test]
async fn content_stays_digit_by_digit() {
    let server = Server::start().await;
    let content = "[12345678901234567890123,1.10]";
    for (path, body) in [
        ("/v1/canvas/event", format!(r#"{{"session_id": "s", "content": {content}}}"#)),
        (
            "/v1/calls",
            format!(
                r#"{{"tool": "canvas_append", "args": {{"session_id": "s", "content": {content}}}}}"#
            ),
        ),
    ] {
        let request = server.request("POST", path).header("content-type", "application/json");
        assert_eq!(send(request.body(body)).await.status, 200, "{path}");
    }
    let items = server.get("/v1/canvas/s").await;
    let text = String::from_utf8(items.bytes).unwrap();
    assert_eq!(text.matches(&format!("\"content\":{content}")).count(), 2, "{text}");
    server.stop().await;
}

#[tokio::test]
async fn a_bound_key_signs_with_its_own_persona_on_a_canvas() {
    let server = Server::start().await;
    let body = json!({"label": "p", "scopes": ["call", "read"], "persona_id": "p"});
    let bound = server.post("/v1/keys", &body).await.json()["secret"].as_str().unwrap().to_owned();
    let append = async |persona: &str| {
        let args = json!({"session_id": "s", "content": persona, "persona_id": persona});
        let request = server.bare("POST", "/v1/calls").bearer_auth(&bound);
        let body = json!({"tool": "canvas_append", "args": args});
        send(with_json(request, &body)).await.json()["error"]["code"].clone()
    };
    assert_eq!(append("q").await, "persona_foreign");
    assert_eq!(append("no name").await, "persona_invalid");
    assert_eq!(append("p").await, json!(null), "the control");
    let items = server.get("/v1/canvas/s").await.json();
    assert_eq!(items.as_array().unwrap().len(), 1, "{items}");
    assert_eq!(items[0]["persona_id"], "p");
    server.stop().await;
}

#[tokio::test]
async fn what_is_too_large_for_a_canvas_is_refused_at_both_doors() {
    let server = Server::start().await;
    let large = "x".repeat(ringfence_engine::CANVAS_BYTES);
    let args = json!({"session_id": "s", "content": large});
    let answer = server.post("/v1/canvas/event", &args).await;
    assert_eq!((answer.status, answer.problem().as_str()), (413, "body_too_large"));
    let call = server.post("/v1/calls", &json!({"tool": "canvas_append", "args": args})).await;
    assert_eq!(call.json()["error"]["code"], "content_too_large");
    assert_eq!(server.get("/v1/canvas/s").await.json(), json!([]));
    server.stop().await;
}
