//! Requests and their results.

use serde_json::{Value, json};

use crate::support::{World, next, operator};

fn request(event_id: &str, tool: &str, args: &Value) -> Value {
    json!({
        "event_id": event_id, "session_id": "s", "persona_id": null, "tool_name": tool,
        "args": args, "metadata": {"tenant": "public", "note": 1},
    })
}

fn status(result: &Value) -> (&str, &str) {
    let text = |value: &'_ Value| value.as_str().unwrap_or_default().to_owned();
    let id = result["metadata"]["request_id"].as_str().unwrap_or_default();
    assert!(!text(&result["event_id"]).is_empty());
    (id, result["status"].as_str().unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_done_once_and_its_result_echoes_its_metadata() {
    let mut world = World::open().await;
    for _ in 0..3 {
        world.send(&request("e1", "echo", &json!({"text": "hi"}))).await;
    }
    let result = world.result().await;
    assert_eq!(result["payload"], json!({"message": "hi"}));
    let metadata = json!({"tenant": "public", "note": 1, "request_id": "e1"});
    assert_eq!(result["metadata"], metadata);
    // The next result is that of the next request: there was no second one.
    world.send(&request("e2", "echo", &json!({"text": "again"}))).await;
    assert_eq!(status(&world.result().await), ("e2", "success"));
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_id_with_another_body_and_garbage_are_dead_letters() {
    let mut world = World::open().await;
    world.send(&request("e1", "echo", &json!({"text": "hi"}))).await;
    assert_eq!(status(&world.result().await), ("e1", "success"));
    world.send(&request("e1", "echo", &json!({"text": "other"}))).await;
    world.send_raw(b"\xff not text").await;
    world.send(&json!({"event_id": "e2"})).await;
    let dead = world.dead(3).await;
    for ((cause, _), part) in dead.iter().zip(["e1", "not JSON", "session_id"]) {
        assert!(cause.contains(part), "no {part} in {cause}");
    }
    assert_eq!(dead[1].1, b"\xff not text");
    world.send(&request("e3", "echo", &json!({"text": "on"}))).await;
    assert_eq!(status(&world.result().await), ("e3", "success"));
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_requests_are_answered() {
    let mut world = World::open().await;
    world.send(&request("e1", "nmap", &json!({}))).await;
    let result = world.result().await;
    assert_eq!(status(&result), ("e1", "error"));
    assert_eq!(result["payload"]["message"], "Unknown tool 'nmap'");
    world.send(&request("e2", "not a name", &json!({}))).await;
    assert_eq!(status(&world.result().await), ("e2", "error"));
    world.send(&request("e3", "echo", &json!({"words": 1}))).await;
    let result = world.result().await;
    assert_eq!(status(&result), ("e3", "error"));
    assert!(!result["payload"]["problems"].as_array().unwrap().is_empty());
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tenant_of_a_message_is_no_identity() {
    let mut world = World::open().await;
    for (id, metadata) in [
        ("e1", json!({"tenant": "default"})),
        ("e2", json!({})),
        ("e3", json!({"tenant": "not a name"})),
    ] {
        let mut sent = request(id, "echo", &json!({"text": "hi"}));
        sent["metadata"] = metadata;
        world.send(&sent).await;
        assert_eq!(status(&world.result().await), (id, "blocked"));
    }
    world.engine.revoke_key(&operator(), world.key).await.unwrap();
    world.send(&request("e4", "echo", &json!({"text": "hi"}))).await;
    let result = world.result().await;
    assert_eq!(status(&result), ("e4", "blocked"));
    assert!(result["payload"]["message"].as_str().unwrap().contains("revoked"));
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_is_told_at_once() {
    let mut world = World::open().await;
    world.send(&request("e1", "http_fetch", &json!({"url": "http://example.com/"}))).await;
    let result = world.result().await;
    assert_eq!(status(&result), ("e1", "blocked"));
    assert_eq!(result["execution_time"], 0.0);
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_session_is_an_argument_only_of_tools_that_take_it() {
    let mut world = World::open().await;
    world.send(&request("e1", "canvas_append", &json!({"content": "x"}))).await;
    let result = world.result().await;
    assert_eq!(status(&result), ("e1", "success"), "{result}");
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starts_and_results_are_copied_to_the_conversation() {
    let mut world = World::open().await;
    let mut shown = world.member("viewer", "conversation.outbound").await;
    world.send(&request("e1", "echo", &json!({"text": "hi"}))).await;
    assert_eq!(status(&world.result().await), ("e1", "success"));
    let (start, end) = (next(&mut shown).await, next(&mut shown).await);
    assert_eq!(start["type"], "tool.start");
    assert_eq!((&start["message"], &start["metadata"]["status"]), (&json!(""), &json!("start")));
    assert_eq!(end["type"], "tool.result");
    assert_eq!(end["message"], "{\"message\":\"hi\"}");
    for event in [&start, &end] {
        assert_eq!((&event["role"], &event["version"]), (&json!("tool"), &json!("sa01-v1")));
        assert_eq!(event["metadata"]["tool_name"], "echo");
        assert_eq!(event["metadata"]["request_id"], "e1");
        assert_eq!(event["metadata"]["source"], "tool_executor");
        assert_eq!(event["session_id"], "s");
    }
    assert_eq!(end["metadata"]["status"], "success");
    assert!(end["metadata"]["execution_time"].is_number(), "{end}");
    world.close().await;
}
