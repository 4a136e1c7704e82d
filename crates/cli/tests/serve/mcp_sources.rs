//! MCP servers as sources of tools: honest ones, and each way in which one may be hostile.

use serde_json::{Value, json};

use crate::{
    support::{Place, Server, until},
    wire,
};

/// The server of this folder; its first argument says how it behaves.
const SCRIPT: &str = include_str!("mcp_server.py");

/// Adds the script as a server of this name and waits until it is connected.
fn add(server: &Server, name: &str, mode: &str) {
    add_with(server, name, mode, json!({}));
    until("the MCP server to be connected", || {
        state(server, name)["health"]["state"] == "connected"
    });
}

fn add_with(server: &Server, name: &str, mode: &str, more: Value) {
    let mut body = json!({"name": name, "command": ["python3", "-c", SCRIPT, mode]});
    for (key, value) in more.as_object().expect("an object") {
        body[key] = value.clone();
    }
    let added = server.ask("POST", "/v1/mcp/servers", Some(&body));
    assert_eq!(added.status, 201, "{added:?}");
}

fn state(server: &Server, name: &str) -> Value {
    let read = server.ask("GET", &format!("/v1/mcp/servers/{name}"), None);
    assert_eq!(read.status, 200, "{read:?}");
    read.json()
}

/// Status of one tool.
fn status(server: &Server, name: &str, tool: &str) -> String {
    let state = state(server, name);
    let tools = state["tools"].as_array().expect("a list");
    // The newest description is the one that a person is asked about.
    let of_it = tools.iter().filter(|one| one["name"] == tool);
    let statuses: Vec<&str> = of_it.filter_map(|one| one["status"].as_str()).collect();
    statuses.join(",")
}

fn approve(server: &Server, tool: &str) {
    let approved =
        server.ask("POST", &format!("/v1/tools/{tool}/approve"), Some(&json!({"why": "read it"})));
    assert_eq!(approved.status, 200, "{approved:?}");
}

/// Approves a held call, by another key than the one that asked.
fn release(server: &Server, id: &str) {
    let body = json!({"label": "approver", "scopes": ["approve", "read"]});
    let key = server.ask("POST", "/v1/keys", Some(&body)).json();
    let key = [("authorization", format!("Bearer {}", key["secret"].as_str().expect("a secret")))];
    let (path, body) = (format!("/v1/holds/{id}/resolve"), json!({"action": "approve"}));
    let resolved = wire::ask(&server.address, "POST", &path, &key, Some(&body)).expect("an answer");
    assert!(resolved.status < 300, "{resolved:?}");
}

fn call(server: &Server, tool: &str, text: &str) -> Value {
    let body = json!({"tool": tool, "args": {"text": text}});
    server.ask("POST", "/v1/calls", Some(&body)).json()
}

#[test]
fn a_tool_is_offered_once_it_is_approved_and_each_call_has_a_receipt() {
    let place = Place::new();
    let server = place.serve();
    add(&server, "plain", "honest");
    assert_eq!(status(&server, "plain", "plain__echo"), "proposed");
    let early = server.ask(
        "POST",
        "/v1/calls",
        Some(&json!({"tool": "plain__echo", "args": {"text": "x"}})),
    );
    assert!(early.status >= 400, "{early:?}");
    approve(&server, "plain__echo");
    let done = call(&server, "plain__echo", "hello");
    assert_eq!(done["result"]["content"][0]["text"], "hello", "{done}");
    let id = done["id"].as_str().expect("an id");
    let receipt = server.ask("GET", &format!("/v1/calls/{id}/receipt"), None);
    assert_eq!(receipt.status, 200, "{receipt:?}");
    // Its sandbox is no sandbox of the tenant.
    let sandboxes = server.ask("GET", "/v1/sandboxes", None).json();
    assert_eq!(sandboxes["sandboxes"], json!([]), "{sandboxes}");
    // The calls that started it are on record.
    let calls = server.ask("GET", "/v1/calls?tool=sandbox_exec", None).json();
    assert_eq!(calls["calls"].as_array().map(Vec::len), Some(1), "{calls}");
    let removed = server.ask("DELETE", "/v1/mcp/servers/plain", None);
    assert_eq!(removed.status, 204, "{removed:?}");
    let late = call(&server, "plain__echo", "hello");
    assert!(late["result"].is_null(), "{late}");
}

#[test]
fn a_server_is_started_again_after_a_restart_and_its_approvals_stay() {
    let place = Place::new();
    let server = place.serve();
    add(&server, "plain", "honest");
    approve(&server, "plain__echo");
    assert_eq!(server.stop(), Some(0));
    let server = place.serve();
    until("the MCP server to be connected", || {
        state(&server, "plain")["health"]["state"] == "connected"
    });
    assert_eq!(call(&server, "plain__echo", "again")["result"]["content"][0]["text"], "again");
}

#[test]
fn a_changed_description_is_quarantined_with_its_difference() {
    let place = Place::new();
    let server = place.serve();
    add(&server, "rug", "honest");
    approve(&server, "rug__echo");
    approve(&server, "rug__change");
    assert_eq!(call(&server, "rug__echo", "a")["result"]["content"][0]["text"], "a");
    call(&server, "rug__change", "");
    until("the change to be noticed", || {
        status(&server, "rug", "rug__echo").contains("quarantined")
    });
    // Neither text is offered until a person has decided; other tools go on.
    let after = call(&server, "rug__echo", "b");
    assert!(after["result"].is_null(), "{after}");
    assert_eq!(call(&server, "rug__change", "c")["result"]["content"][0]["text"], "c");
    let difference = server.ask("GET", "/v1/tools/rug__echo/diff", None);
    assert!(difference.body.contains("id_rsa"), "{difference:?}");
    let tools = state(&server, "rug")["tools"].clone();
    assert!(tools.to_string().contains("says"), "no finding in {tools}");
}

#[test]
fn names_of_other_tools_cannot_be_taken() {
    let place = Place::new();
    let server = place.serve();
    add(&server, "shadow", "shadow");
    let state = state(&server, "shadow");
    let names: Vec<&str> = state["tools"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    assert!(names.iter().all(|name| name.starts_with("shadow__")), "{names:?}");
    assert_eq!(state["broken"][0]["name"], "../up", "{state}");
    approve(&server, "shadow__sandbox_exec");
    let own = server.ask("GET", "/v1/tools/sandbox_exec", None).json();
    assert_eq!(own["origin"], "builtin", "{own}");
    // A second server of the name is refused, and one whose name would be read in two ways.
    for (name, status) in [("shadow", 409), ("a__b", 422), ("", 422)] {
        let body = json!({"name": name, "command": ["true"]});
        let answer = server.ask("POST", "/v1/mcp/servers", Some(&body));
        assert_eq!(answer.status, status, "{answer:?}");
    }
}

#[test]
fn a_description_that_speaks_to_models_reaches_none_and_is_pointed_out() {
    let place = Place::new();
    let server = place.serve();
    add(&server, "inject", "inject");
    let state = state(&server, "inject");
    let tools = state["tools"].as_array().expect("a list");
    let hidden = tools.iter().find(|tool| tool["name"] == "inject__hidden").expect("it is listed");
    assert_eq!(hidden["status"], "proposed");
    assert!(hidden["description"].as_str().expect("text").contains("\\u{e0041}"), "{hidden}");
    assert!(hidden["findings"].as_array().expect("a list").len() >= 3, "{hidden}");
    let offered = server.ask("GET", "/v1/tools", None);
    assert!(!offered.body.contains("Ignore previous"), "{offered:?}");
}

/// Every bad server is added with a good one beside it, which must not notice.
fn contained(mode: &str, timeout_secs: u32, expected: &str) {
    let place = Place::new();
    let server = place.serve();
    add(&server, "good", "honest");
    approve(&server, "good__echo");
    add_with(&server, "bad", mode, json!({"timeout_secs": timeout_secs}));
    until("the MCP server to be connected", || {
        state(&server, "bad")["health"]["state"] == "connected"
    });
    approve(&server, "bad__echo");
    let failed = call(&server, "bad__echo", "x");
    assert_eq!(failed["error"]["code"], expected, "{failed}");
    assert_eq!(call(&server, "good__echo", "fine")["result"]["content"][0]["text"], "fine");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_server_that_never_answers_ends_with_the_time_of_its_call() {
    contained("silent", 1, "timeout");
}

#[test]
fn an_endless_result_ends_with_the_size_of_a_message() {
    contained("huge", 60, "output_too_large");
}

#[test]
fn endless_progress_ends_with_the_time_of_its_call() {
    contained("endless", 2, "timeout");
}

#[test]
fn a_flood_of_notifications_closes_the_connection() {
    contained("flood", 60, "output_too_large");
}

#[test]
fn the_death_of_a_server_is_the_end_of_its_call_and_of_nothing_else() {
    let place = Place::new();
    let server = place.serve();
    add(&server, "good", "honest");
    add(&server, "bad", "dies");
    approve(&server, "good__echo");
    approve(&server, "bad__echo");
    let failed = call(&server, "bad__echo", "x");
    assert_eq!(failed["error"]["code"], "source_unavailable", "{failed}");
    assert_eq!(call(&server, "good__echo", "fine")["result"]["content"][0]["text"], "fine");
    // It is started again, after a while.
    until("it to be connected again", || state(&server, "bad")["health"]["state"] == "connected");
}

#[test]
fn a_server_without_an_end_of_tools_or_without_a_word_is_not_connected() {
    let place = Place::new();
    let server = place.serve();
    add_with(&server, "many", "many", json!({}));
    until("it to fail", || state(&server, "many")["health"]["state"] == "failing");
    let health = state(&server, "many")["health"].clone();
    assert!(health["reason"].as_str().expect("a reason").contains("tools"), "{health}");
    add_with(&server, "none", "honest", json!({"command": ["no-such-program"]}));
    until("it to fail", || state(&server, "none")["health"]["state"] == "failing");
}

#[test]
fn a_server_that_asks_for_a_model_gets_none_and_goes_on() {
    let place = Place::new();
    let server = place.serve();
    add(&server, "asks", "asks");
    approve(&server, "asks__echo");
    assert_eq!(call(&server, "asks__echo", "y")["result"]["content"][0]["text"], "y");
}

#[test]
fn network_and_packages_wait_for_a_person() {
    let place = Place::new();
    let server = place.serve();
    add_with(&server, "far", "honest", json!({"hosts": ["api.example.com"]}));
    until("its start to be held", || state(&server, "far")["health"]["state"] == "held");
    let health = state(&server, "far")["health"].clone();
    let id = health["call_id"].as_str().expect("a call");
    let hold = server.ask("GET", &format!("/v1/holds/{id}"), None);
    assert!(hold.body.contains("api.example.com"), "{hold:?}");
    release(&server, id);
    until("it to be connected", || state(&server, "far")["health"]["state"] == "connected");
    // Its tools reach others, so each call is held too.
    approve(&server, "far__echo");
    let body = json!({"tool": "far__echo", "args": {"text": "x"}, "wait": 0});
    let held = server.ask("POST", "/v1/calls", Some(&body)).json();
    until("the call to be held", || {
        let id = held["id"].as_str().expect("an id");
        server.ask("GET", &format!("/v1/calls/{id}"), None).json()["state"] == "held"
    });
}

#[test]
fn servers_are_added_listed_and_removed_by_command() {
    let place = Place::new();
    let server = place.serve();
    let file = place.path("servers.json");
    let entry = json!({"command": "python3", "args": ["-c", SCRIPT, "honest"]});
    let text = json!({"mcpServers": {"filed": entry}}).to_string();
    std::fs::write(&file, text).expect("a file");
    let file = file.display().to_string();
    server.client(&["mcp", "add", "--file", &file]).worked();
    until("it to be connected", || state(&server, "filed")["health"]["state"] == "connected");
    let listed = server.client(&["mcp", "list"]).worked();
    assert!(listed.stdout.contains("filed") && listed.stdout.contains("connected"), "{listed:?}");
    assert!(listed.stderr.contains("ringfence tool approve filed__echo"), "{listed:?}");
    server.client(&["mcp", "rm", "filed"]).worked();
    assert_eq!(server.ask("GET", "/v1/mcp/servers/filed", None).status, 404);
}

#[test]
fn a_server_elsewhere_is_reached_by_the_guarded_client_and_only_with_consent() {
    let (here, there) = (Place::new(), Place::new());
    let other = there.serve();
    let exempt = [("RINGFENCE_EGRESS_ALLOW_PRIVATE", other.address.as_str())];
    let server = here.serve_with(&exempt);
    let key = other.ask("POST", "/v1/keys", Some(&json!({"label": "mcp", "scopes": ["call"]})));
    let key = key.json()["secret"].as_str().expect("a secret").to_owned();
    let url = format!("http://{}/mcp", other.address);
    let body = json!({
        "name": "other", "url": url, "headers": {"Authorization": format!("Bearer {key}")},
        "safety_flags": ["external_call"],
    });
    let added = server.ask("POST", "/v1/mcp/servers", Some(&body));
    assert_eq!(added.status, 201, "{added:?}");
    assert!(!added.body.contains(&key), "the key is shown: {added:?}");
    until("it to be connected", || state(&server, "other")["health"]["state"] == "connected");
    approve(&server, "other__echo");
    // The built-in rules hold a call that leaves this host.
    let body = json!({"tool": "other__echo", "args": {"text": "far"}, "wait": 0});
    let id = server.ask("POST", "/v1/calls", Some(&body)).json()["id"].clone();
    let id = id.as_str().expect("an id").to_owned();
    let path = format!("/v1/calls/{id}");
    until("it to be held", || server.ask("GET", &path, None).json()["state"] == "held");
    release(&server, &id);
    until("it to end", || server.ask("GET", &path, None).json()["state"] == "finished");
    let done = server.ask("GET", &path, None).json();
    assert_eq!(done["result"]["structuredContent"], json!({"message": "far"}), "{done}");
    // An address that is not exempt is refused.
    let body = json!({"name": "inside", "url": "http://127.0.0.1:9/mcp"});
    assert_eq!(server.ask("POST", "/v1/mcp/servers", Some(&body)).status, 201);
    until("it to fail", || state(&server, "inside")["health"]["state"] == "failing");
}
