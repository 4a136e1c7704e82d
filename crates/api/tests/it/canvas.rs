//! The canvas of a session.

use serde_json::json;

use crate::support::Server;

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
