//! A01: a key of one tenant on every route that names a thing of another.
//!
//! The routes come from the OpenAPI document, so that a new one is covered automatically; one with
//! a parameter that this test does not know fails it.

use ringfence_api::Api;
use ringfence_types::Scope;
use serde_json::{Value, json};

use crate::support::{Plan, Server, send, with_json};

/// `echo` waits for a person; everything else runs.
const RULES: &str = r#"
package ringfence

decision := {"decision": "allow", "reasons": []} if {
    input.tool.name != "echo"
} else := {"decision": "allow", "reasons": []} if {
    input.approval != null
} else := {"decision": "hold", "reasons": [{"rule": "ask", "message": "ask a person"}]}
"#;

/// Names of things of one tenant, by the route that leads to them.
struct Things {
    call: String,
    held: String,
    approval: String,
    decision: String,
    key: String,
    sandbox: String,
    discovery: String,
    artifact: String,
    plan: String,
}

impl Things {
    async fn of(server: &Server, agent: &str, boss: &str) -> Self {
        let made = call(server, agent, "timestamp", &json!({})).await;
        let first = held(server, agent).await;
        let path = format!("/v1/holds/{first}/resolve");
        // Two are needed below: one that is held still, and one whose approval is on record.
        let body = json!({"action": "approve", "scope": "session", "uses": 9});
        assert_eq!(post(server, boss, &path, &body).await.0, 202);
        let approvals = get(server, boss, "/v1/approvals").await;
        let decisions = get(server, boss, &format!("/v1/calls/{made}/decisions")).await;
        let keys = get(server, boss, "/v1/keys").await;
        let sandbox = post(server, agent, "/v1/sandboxes", &json!({})).await.1;
        let other = json!({"text": "another"});
        let file = json!({"operation": "create", "title": "a.txt", "content": "mine"});
        let step = json!({"id": "a", "type": "command", "payload": {"command": "true"}});
        let plan = post(server, agent, "/v1/plans", &json!({"steps": [step]})).await.1;
        Self {
            plan: name(&plan["id"]),
            call: made,
            held: call(server, agent, "echo", &other).await,
            approval: name(&approvals["approvals"][0]["id"]),
            decision: name(&decisions["decisions"][0]["id"]),
            key: name(&keys["keys"][0]["key_id"]),
            sandbox: name(&sandbox["id"]),
            discovery: call(server, agent, "tool_discover", &json!({"capability": "pdf"})).await,
            // An artifact that a call makes has the id of the call.
            artifact: call(server, agent, "artifact_write", &file).await,
        }
    }

    /// The path with ids of existing things; none for a route that is open to all tenants.
    fn path(&self, route: &str) -> Option<String> {
        // Dead letters and MCP servers belong to the installation: the operator's alone.
        // Names of secrets are chosen by each tenant: see `secrets`.
        let shared = [
            "/skills/",
            "/v1/tools/",
            "/v1/tool-catalog/",
            "/v1/ledger/",
            "/v1/policies/",
            "/v1/admin/dlq/",
            "/v1/secrets/",
            "/v1/mcp/servers/",
        ];
        // Rejecting a discovery is for the operator alone.
        let is_operators = route.ends_with("/reject");
        if !route.contains('{')
            || is_operators
            || shared.iter().any(|prefix| route.starts_with(prefix))
        {
            return None;
        }
        let id = match route {
            route if route.starts_with("/v1/calls/") => &self.call,
            route if route.starts_with("/v1/discovery/") => &self.discovery,
            route if route.starts_with("/v1/holds/") => &self.held,
            route if route.starts_with("/v1/requeue/") => &self.held,
            route if route.starts_with("/v1/policy/requeue/") => &self.held,
            route if route.starts_with("/v1/approvals/") => &self.approval,
            route if route.starts_with("/v1/decisions/") => &self.decision,
            route if route.starts_with("/v1/keys/") => &self.key,
            route if route.starts_with("/v1/sandboxes/") => &self.sandbox,
            route if route.starts_with("/v1/plans/") => &self.plan,
            route if route.contains("/v1/artifacts/") => &self.artifact,
            _ => "",
        };
        let path = route
            .replace("{id}", id)
            .replace("{session_id}", "s-1")
            .replace("{stream}", "stdout")
            .replace("{step}", "a")
            .replace("{exec}", "1")
            .replace("{interpreter}", "1");
        assert!(!path.contains('{') && !path.contains("//"), "{route}: teach it to this test");
        Some(path)
    }
}

fn name(value: &Value) -> String {
    match value {
        Value::String(name) => name.clone(),
        Value::Number(number) => number.to_string(),
        other => panic!("no name: {other}"),
    }
}

async fn get(server: &Server, by: &str, path: &str) -> Value {
    send(server.bare("GET", path).bearer_auth(by)).await.json()
}

async fn post(server: &Server, by: &str, path: &str, body: &Value) -> (u16, Value) {
    let answer = send(with_json(server.bare("POST", path).bearer_auth(by), body)).await;
    (answer.status, answer.json())
}

async fn call(server: &Server, by: &str, tool: &str, args: &Value) -> String {
    let body = json!({"tool": tool, "args": args, "session_id": "s-1"});
    name(&post(server, by, "/v1/calls", &body).await.1["id"])
}

async fn held(server: &Server, by: &str) -> String {
    call(server, by, "echo", &json!({"text": "hello"})).await
}

/// A body that each route takes, whatever else it needs.
fn body(path: &str) -> Value {
    match path {
        path if path.starts_with("/v1/plans/") => {
            json!({"action": if path.ends_with("/change") { "pause" } else { "skip" }})
        }
        path if path.ends_with("/resolve") => json!({"action": "discard"}),
        path if path.ends_with("/execute") || path.ends_with("/complete") => json!({"code": "1"}),
        path if path.ends_with("/exec") => json!({"argv": ["true"]}),
        path if path.ends_with("/rename") => json!({"from": "a", "to": "b"}),
        path if path.ends_with("/signal") => json!({"signal": "TERM"}),
        path if path.ends_with("/resize") => json!({"rows": 2, "columns": 2}),
        path if path.ends_with("/interpreters") => json!({"language": "python"}),
        _ => json!({}),
    }
}

#[tokio::test]
async fn whatever_one_tenant_has_is_not_there_for_another() {
    let bundle = ringfence_policy::Bundle::from_files([("rules.rego", RULES)]).unwrap();
    let server = Server::of(Plan::sandboxed().bundle(&bundle)).await;
    let agent = server.key("acme", &[Scope::Call, Scope::Read]).await;
    let boss = server.key("acme", &Scope::ALL).await;
    let stranger = server.key("other", &Scope::ALL).await;
    let things = Things::of(&server, &agent, &boss).await;
    let document: Value = serde_json::from_str(&Api::openapi()).unwrap();
    let mut tried = 0;
    for (route, item) in document["paths"].as_object().unwrap() {
        let Some(path) = things.path(route) else { continue };
        for method in item.as_object().unwrap().keys() {
            let method = method.to_uppercase();
            let request = server.bare(&method, &path).bearer_auth(&stranger);
            let request = if method == "GET" { request } else { with_json(request, &body(&path)) };
            let answer = send(request).await;
            tried += 1;
            let of_session = ["/v1/canvas/{session_id}", "/v1/sessions/{session_id}/events"];
            if of_session.contains(&route.as_str()) {
                // Any tenant may choose the name of a session; the same name of another tenant is
                // another session.
                assert_eq!(answer.json()["events"].as_array().map_or(0, Vec::len), 0, "{path}");
                continue;
            }
            if route == "/v1/session/{session_id}/events" {
                // This server has no models, so it has no conversations of any tenant.
                assert_eq!(answer.json()["code"], "no_conversations", "{path}");
                continue;
            }
            let is_closed = matches!(answer.status, 404 | 426);
            let query = answer.status == 400 && route.contains("/files");
            let bytes = answer.status == 415 && route.contains("/files/archive");
            assert!(is_closed || query || bytes, "{method} {path}: {answer:?}");
        }
    }
    assert!(tried > 50, "only {tried} routes");
    // The control: whose they are can see them.
    for path in [
        format!("/v1/calls/{}", things.call),
        format!("/v1/holds/{}", things.held),
        format!("/v1/approvals/{}", things.approval),
        format!("/v1/decisions/{}", things.decision),
        format!("/v1/sandboxes/{}", things.sandbox),
        format!("/v1/artifacts/{}", things.artifact),
        format!("/api/v1/artifacts/{}", things.artifact),
    ] {
        let answer = send(server.bare("GET", &path).bearer_auth(&boss)).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }
    server.stop().await;
}
