//! Calls: results, refusals, live output, cancellation.

use ringfence_types::{FactKind, Principal, Scope};
use serde_json::json;

use crate::support::{STEP_TIMEOUT, Server, call_id, last_message, messages, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_is_text_and_structure_and_names_its_receipt() {
    let server = Server::start().await;
    let key = server.agent().await;
    let result = server.call(&key, "echo", json!({"text": "hi"})).await;
    assert_eq!(result["resultType"], "complete", "{result}");
    assert_eq!(result["isError"], false);
    assert_eq!(result["structuredContent"], json!({"message": "hi"}));
    assert_eq!(text(&result), r#"{"message":"hi"}"#);
    let id = call_id(&result);
    assert_eq!(result["_meta"]["dev.ringfence/receipt"], format!("ringfence://receipts/{id}"));
    let who = principal(&server, &key).await;
    let call = server.get(&who, id.parse().unwrap()).await.unwrap().unwrap();
    let client = call.asked.metadata.to_value();
    assert_eq!(client["mcp"]["client"], "test");
    assert_eq!(client["mcp"]["protocol"], "2026-07-28");
}

async fn principal(server: &Server, key: &str) -> Principal {
    server.access().authenticate(key.as_bytes()).await.unwrap().principal.clone()
}

/// A number with more digits than a double has reaches the record as it was written, in both revisions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_are_recorded_exactly() {
    const NUMBER: &str = "1.23456789012345678901230";
    let server = Server::start().await;
    let key = server.agent().await;
    let who = principal(&server, &key).await;
    let sandbox = "0".repeat(32);
    let arguments = format!(r#"{{"sandbox":"{sandbox}","argv":["true"],"timeout_secs":{NUMBER}}}"#);
    let message = |meta: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"sandbox_exec","arguments":{arguments},"_meta":{meta}}}}}"#
        )
    };
    let session = server.session(&key, json!({})).await;
    let old = server
        .post(&key, message("{}"))
        .header("mcp-session-id", session)
        .header("mcp-protocol-version", "2025-11-25");
    let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let new = server
        .post(&key, message(meta))
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", "sandbox_exec");
    for request in [old, new] {
        let answer = last_message(&request.send().await.unwrap().text().await.unwrap());
        let id = call_id(&answer["result"]);
        let call = server.get(&who, id.parse().unwrap()).await.unwrap().unwrap();
        assert_eq!(call.asked.args.as_str(), arguments, "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_are_results_with_the_reason() {
    let server = Server::asking().await;
    let key = server.agent().await;
    let denied = server.call(&key, "http_fetch", json!({"url": "http://example.com/"})).await;
    assert_eq!(denied["isError"], true);
    assert_eq!(denied["_meta"]["dev.ringfence/error"], "denied");
    assert!(text(&denied).contains("nothing is fetched (rule `no_net`)"), "{denied}");
    let invalid = server.call(&key, "code_execute", json!({"language": 5})).await;
    assert_eq!(invalid["isError"], true, "{invalid}");
    assert_eq!(invalid["_meta"]["dev.ringfence/error"], "args_invalid", "{invalid}");
    let unknown = server.ask(&key, "tools/call", json!({"name": "ecko", "arguments": {}})).await;
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    assert!(!unknown.to_string().contains("did you mean"), "keys without `read` may not list");
    let reader = server.key("acme", &[Scope::Call, Scope::Read]).await.unwrap();
    let unknown = server.ask(&reader, "tools/call", json!({"name": "ecko", "arguments": {}})).await;
    assert!(unknown["error"]["message"].as_str().unwrap().contains("`echo`"), "{unknown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn live_output_is_progress_that_grows() {
    let server = Server::sandboxed().await;
    let key = server.agent().await;
    let code =
        "import time\nfor i in range(3):\n    print('line', i, flush=True)\n    time.sleep(0.4)\n";
    let params = json!({
        "name": "code_execute",
        "arguments": {"language": "python", "code": code},
        "_meta": {"progressToken": "p1"},
    });
    let answer = server.stateless(&key, "tools/call", params, json!({})).send().await.unwrap();
    let all = messages(&answer.text().await.unwrap());
    let (last, progress) = all.split_last().unwrap();
    assert_eq!(last["result"]["isError"], false, "{last}");
    assert!(!progress.is_empty(), "{all:?}");
    let numbers: Vec<f64> =
        progress.iter().map(|message| message["params"]["progress"].as_f64().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    assert!(progress.iter().all(|message| message["params"]["progressToken"] == "p1"));
    let said: String =
        progress.iter().map(|message| message["params"]["message"].as_str().unwrap()).collect();
    assert!(said.contains("line 0") && said.contains("line 2"), "{said}");
    let links = last["result"]["content"].as_array().unwrap();
    let link = links.iter().find(|block| block["type"] == "resource_link").unwrap();
    let read = server.ask(&key, "resources/read", json!({"uri": link["uri"]})).await;
    assert!(read["result"]["contents"][0]["text"].as_str().unwrap().contains("line 1"), "{read}");
}

/// A client that goes away cancels its call (2026-07-28).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_goes_away_cancels_its_call() {
    let server = Server::sandboxed().await;
    let key = server.agent().await;
    let who = principal(&server, &key).await;
    let code = "import time\nprint('begun', flush=True)\ntime.sleep(600)\n";
    let params = json!({
        "name": "code_execute",
        "arguments": {"language": "python", "code": code},
        "_meta": {"progressToken": 1},
    });
    let sent = server.stateless(&key, "tools/call", params, json!({})).send();
    let mut answer = tokio::time::timeout(STEP_TIMEOUT, sent).await.unwrap().unwrap();
    let first = answer.chunk().await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&first).contains("begun"), "{first:?}");
    drop(answer);
    let mut facts = server.follow(&who, None, None);
    let ended = async {
        loop {
            let (_, fact) = facts.next().await.unwrap();
            if fact.kind.is_final() {
                return fact.kind;
            }
        }
    };
    let kind = tokio::time::timeout(STEP_TIMEOUT, ended).await.unwrap();
    assert_eq!(kind, FactKind::Cancelled);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_has_a_computer() {
    let server = Server::sandboxed().await;
    let key = server.agent().await;
    let made = server.call(&key, "sandbox_create", json!({})).await;
    let sandbox = &made["structuredContent"]["sandbox"];
    let changes = json!([{"write": "hello.sh", "content": "echo hello $1\n"}]);
    let wrote = json!({"sandbox": sandbox, "changes": changes});
    let wrote = server.call(&key, "sandbox_files", wrote).await;
    assert_eq!(wrote["isError"], false, "{wrote}");
    let argv = json!({"sandbox": sandbox, "argv": ["/bin/sh", "/workspace/hello.sh", "world"]});
    let ran = server.call(&key, "sandbox_exec", argv).await;
    assert_eq!(ran["structuredContent"]["stdout"], "hello world\n", "{ran}");
}
