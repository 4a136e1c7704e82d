//! Lifecycle of tools over HTTP, with programs in real sandboxes.

use ringfence_engine::data::Definition;
use ringfence_types::Scope;
use serde_json::{Value, json};

use crate::support::{Answer, Plan, Server, send, with_json};

/// A program that answers with what it was given, on both ways.
const BOTH_WAYS: &str = "import json, os, sys\n\
    print(json.dumps({'stdin': json.load(sys.stdin), 'params': json.loads(os.environ['TOOL_PARAMS'])}))\n";

fn definition(name: &str, argv: &[&str]) -> Definition {
    serde_json::from_value(json!({
        "name": name, "version": "1.0.0", "description": "A program.", "origin": "manifest",
        "input_schema": {"type": "object"}, "output_schema": {"type": "object"},
        "safety_flags": ["none"], "asks": {"memory_bytes": 268_435_456},
        "runs": {"command": {"argv": argv, "files": {"tool.py": BOTH_WAYS}}},
    }))
    .unwrap()
}

async fn propose(server: &Server, definition: Definition) {
    server.propose_tools(None, "test", &[definition]).await.unwrap();
}

async fn call(server: &Server, tool: &str, args: Value) -> Answer {
    server.post("/v1/calls", &json!({"tool": tool, "args": args, "wait": 60})).await
}

async fn change(server: &Server, tool: &str, event: &str, mut body: Value) -> Answer {
    body["why"] = json!("a test");
    server.post(&format!("/v1/tools/{tool}/{event}"), &body).await
}

#[tokio::test]
async fn a_program_runs_once_it_is_approved_and_not_after_it_is_withdrawn() {
    let server = Server::of(Plan::sandboxed()).await;
    propose(&server, definition("both", &["python3", "tool.py"])).await;
    let refused = call(&server, "both", json!({"a": 1})).await;
    assert_eq!((refused.status, refused.problem().as_str()), (409, "tool_not_active"));
    assert_eq!(refused.json()["tool_status"], "proposed");
    let skill = json!({"skill": "both", "args": {}});
    let executed = server.post("/skills/execute", &skill).await.json();
    assert_eq!(executed["error"]["code"], "tool_not_active", "{executed}");
    let listed = server.get("/v1/tools").await.json();
    assert!(!listed.to_string().contains("\"both\""), "agents do not see it");
    let proposed = server.get("/v1/tool-catalog?status=proposed").await.json();
    assert_eq!((&proposed["count"], &proposed["tools"][0]["name"]), (&json!(1), &json!("both")));

    let more = json!({"grants": {"memory_bytes": 1_u64 << 40}});
    let beyond = change(&server, "both", "approve", more).await;
    assert_eq!((beyond.status, beyond.problem().as_str()), (422, "grant_invalid"));
    let less = json!({"grants": {"memory_bytes": 134_217_728, "wall_ms": 20_000}});
    let approved = change(&server, "both", "approve", less).await;
    assert_eq!((approved.status, approved.json()["status"].clone()), (200, json!("active")));
    let shown = server.get("/v1/tools/both").await.json();
    assert_eq!(shown["limits"]["memory_bytes"], 134_217_728, "what was granted counts");

    let done = call(&server, "both", json!({"a": 1})).await.json();
    assert_eq!(done["result"], json!({"stdin": {"a": 1}, "params": {"a": 1}}), "{done}");

    for (event, status) in [("disable", "disabled"), ("enable", "active"), ("revoke", "revoked")] {
        let changed = change(&server, "both", event, json!({})).await;
        assert_eq!(changed.json()["tools"][0]["status"], status, "{changed:?}");
        let answer = call(&server, "both", json!({})).await;
        assert_eq!(answer.status, if status == "active" { 200 } else { 409 }, "{status}");
    }
    let illegal = change(&server, "both", "enable", json!({})).await;
    assert_eq!((illegal.status, illegal.problem().as_str()), (409, "conflict"));
    let life = server.get("/v1/tools/both/lifecycle").await.json();
    let events: Vec<_> =
        life["history"].as_array().unwrap().iter().map(|one| &one["event"]).collect();
    assert_eq!(events, ["propose", "approve", "install", "enable", "disable", "enable", "revoke"]);
    let unknown = server.get("/v1/tools/nothing/lifecycle").await;
    assert_eq!(unknown.problem(), "tool_not_found");
    server.stop().await;
}

#[tokio::test]
async fn a_withdrawal_ends_running_calls_if_asked() {
    let server = Server::of(Plan::sandboxed()).await;
    propose(&server, definition("slow", &["sleep", "300"])).await;
    assert_eq!(change(&server, "slow", "approve", json!({})).await.status, 200);
    let started = server.post("/v1/calls", &json!({"tool": "slow", "args": {}, "wait": 0})).await;
    let id = started.json()["id"].as_str().unwrap().to_owned();
    let state =
        async || server.get(&format!("/v1/calls/{id}?wait=1")).await.json()["state"].clone();
    while state().await != "running" {}
    // Disabling alone lets it go on.
    assert_eq!(change(&server, "slow", "disable", json!({})).await.status, 200);
    assert_eq!(state().await, "running");
    let stop = json!({"stop_running": true});
    assert_eq!(change(&server, "slow", "revoke", stop).await.status, 200);
    while state().await != "cancelled" {}
    server.stop().await;
}

#[tokio::test]
async fn changes_need_an_operator_a_reason_and_a_known_form() {
    let server = Server::start().await;
    propose(&server, definition("both", &["true"])).await;
    let path = "/v1/tools/both/approve";
    let foreign = server.key("acme", &[Scope::Admin]).await;
    let body = json!({"why": "mine"});
    let refused = send(with_json(server.bare("POST", path).bearer_auth(foreign), &body)).await;
    assert_eq!(refused.problem(), "operator_required");
    let unsaid = server.post(path, &json!({})).await;
    assert_eq!((unsaid.status, unsaid.pointers()), (422, vec!["/why".to_owned()]));
    let wrong = json!({"why": " ", "grants": {"hots": []}, "extra": 1});
    let wrong = server.post(path, &wrong).await;
    assert_eq!(wrong.pointers(), ["/why", "/grants", "/extra"]);
    let none = server.get("/v1/tools/both/diff").await;
    assert_eq!(none.problem(), "not_found");
    server.stop().await;
}
