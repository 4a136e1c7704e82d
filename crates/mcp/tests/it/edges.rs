//! Requests that are refused before a method is called, and sessions.

use ringfence_mcp::McpConfig;
use ringfence_testkit::PlaneConfig;
use ringfence_types::Scope;
use serde_json::{Value, json};

use crate::support::Server;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_origins_and_scopes_are_checked_like_everywhere() {
    let server = Server::start().await;
    let list = || json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let wrong = server.post("rf_wrong", list()).send().await.unwrap();
    assert_eq!(wrong.status(), 401);
    let reader = server.key("acme", &[Scope::Read]).await.unwrap();
    let no_scope = server.post(&reader, list()).send().await.unwrap();
    assert_eq!(no_scope.status(), 403);
    let key = server.agent().await;
    let page = server.post(&key, list()).header("origin", "http://evil.example");
    assert_eq!(page.send().await.unwrap().status(), 403);
    let host = server.post(&key, list()).header("host", "evil.example");
    assert!(host.send().await.unwrap().status().is_client_error());
    let metadata = format!("http://{}/.well-known/oauth-protected-resource/mcp", server.address);
    let metadata: Value =
        serde_json::from_str(&reqwest::get(metadata).await.unwrap().text().await.unwrap()).unwrap();
    assert_eq!(metadata["resource"], format!("http://{}/mcp", server.address));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ambiguous_and_oversized_messages_are_refused() {
    let server = Server::start().await;
    let key = server.agent().await;
    let twice = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a","text":"b"}}}"#;
    let answer = server.post(&key, twice).send().await.unwrap();
    assert_eq!(answer.status(), 400);
    assert!(answer.text().await.unwrap().contains("-32700"));
    let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
    assert_eq!(server.post(&key, deep).send().await.unwrap().status(), 400);
    let large = format!("\"{}\"", "x".repeat(5 << 20));
    // The server answers and closes before the whole body was sent, which a client may not survive.
    if let Ok(answer) = server.post(&key, large).send().await {
        assert_eq!(answer.status(), 413);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_belongs_to_its_key_and_their_number_is_bounded() {
    let config = McpConfig { max_sessions_per_key: 2, ..McpConfig::default() };
    let server = Server::with(PlaneConfig::default(), config).await;
    let (key, other) = (server.agent().await, server.agent().await);
    let session = server.session(&key, json!({})).await;
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    let own = server.in_session(&key, &session, list.clone()).send().await.unwrap();
    assert_eq!(own.status(), 200);
    assert!(own.text().await.unwrap().contains("\"echo\""));
    let foreign = server.in_session(&other, &session, list).send().await.unwrap();
    assert_eq!(foreign.status(), 404);

    server.session(&key, json!({})).await;
    let info = json!({"name": "old", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    let third = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let third = |key: &str| server.post(key, third.to_string());
    assert_eq!(third(&key).send().await.unwrap().status(), 503);
    assert_eq!(third(&other).send().await.unwrap().status(), 200, "control: another key has room");
    let end = reqwest::Client::new()
        .delete(format!("http://{}/mcp", server.address))
        .bearer_auth(&key)
        .header("mcp-session-id", &session);
    assert!(end.send().await.unwrap().status().is_success());
    assert_eq!(third(&key).send().await.unwrap().status(), 200, "one has ended");
}
