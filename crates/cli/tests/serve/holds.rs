//! A call that waits, from the command line: seen, approved, denied; and across a `kill -9`.

use ringfence_types::{Digest, Json};
use serde_json::{Value, json};

use crate::support::{Place, Ran, Server, command, ran, skill, until};

/// A skill with an effect, as far as its author says.
fn sends(place: &Place) {
    skill(
        &place.skills(),
        "send_note",
        "side_effect",
        "def run(text):\n    return {'sent': text}\n",
    );
}

/// A key with these scopes, made by the admin.
fn key(server: &Server, scopes: &str) -> String {
    server.client(&["key", "create", "person", "--scope", scopes]).stdout.trim().to_owned()
}

fn with_key(server: &Server, key: &str, args: &[&str]) -> Ran {
    let mut args = args.to_vec();
    args.extend(["--data", &server.data]);
    ran(command(&args).env("RINGFENCE_KEY", key))
}

/// Makes a call that is held and says its name.
fn held(server: &Server) -> String {
    let call = server.call("send_note", &json!({"text": "hello"}));
    assert_eq!(call["state"], "held", "{call}");
    call["id"].as_str().expect("a name").to_owned()
}

fn call(server: &Server, id: &str) -> Value {
    server.ask("GET", &format!("/v1/calls/{id}"), None).json()
}

#[test]
fn what_is_held_is_shown_and_runs_when_a_reviewer_approves() {
    let place = Place::new();
    sends(&place);
    let server = place.serve();
    server.client(&["holds"]).failed(0, &["nothing waits for a decision"]);
    let waits = server.client(&["call", "send_note", "text=hello"]);
    waits.failed(4, &["held: call ", "side_effect: ", "hint: ", "ringfence holds "]);
    let boss = key(&server, "approve");
    let listed = with_key(&server, &boss, &["holds", "--json"]);
    let hold: Value = serde_json::from_str(listed.stdout.trim()).expect("one object");
    let id = hold["id"].as_str().expect("a name");
    let shown = with_key(&server, &boss, &["holds", id]);
    for part in ["send_note 1.0.0", "outside its sandbox", "0 of 1", "\"text\": \"hello\""] {
        assert!(shown.stdout.contains(part), "{part}: {}", shown.stdout);
    }
    // The maker may not approve; without a terminal, --yes is needed.
    server.client(&["approve", id, "--yes"]).failed(2, &["error: ", "approve"]);
    with_key(&server, &boss, &["approve", id]).failed(2, &["would run with", "--yes"]);
    assert_eq!(call(&server, id)["state"], "held");
    with_key(&server, &boss, &["approve", id, "--yes", "--edit", "text=hi", "--reason", "ok"])
        .failed(0, &["approved; it runs now"]);
    until("the call to end", || call(&server, id)["state"] == "finished");
    let ended = call(&server, id);
    assert_eq!(ended["result"], json!({"sent": "hi"}));
    assert_eq!(ended["args"], json!({"text": "hi"}), "what ran");
    assert_eq!(ended["asked_args"], json!({"text": "hello"}), "what was asked for");
    let receipt = server.ask("GET", &format!("/v1/calls/{id}/receipt"), None).json();
    let digest = |args: &str| Digest::of_json(&Json::parse(args.as_bytes()).unwrap()).to_string();
    assert_eq!(receipt["args"], digest(r#"{"text":"hi"}"#));
    assert_eq!(receipt["asked_args"], digest(r#"{"text":"hello"}"#));
    let approvals = with_key(&server, &boss, &["approvals", "--all"]);
    assert!(approvals.stdout.contains("1 of 1"), "{}", approvals.stdout);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn an_edit_gets_its_type_from_the_schema_of_the_tool() {
    let place = Place::new();
    skill(&place.skills(), "pay", "side_effect", "def run(amount):\n    return amount\n");
    let schema = r#"{"input": {"type": "object", "properties": {"amount": {"type": "integer"}}}, "output": {}}"#;
    std::fs::write(place.skills().join("pay/schema.json"), schema).unwrap();
    let server = place.serve();
    let held = server.call("pay", &json!({"amount": 2000}));
    let id = held["id"].as_str().expect("a name");
    let boss = key(&server, "approve");
    with_key(&server, &boss, &["approve", id, "--yes", "--edit", "amount=much"])
        .failed(2, &["amount: `much` is not a whole number"]);
    with_key(&server, &boss, &["approve", id, "--yes", "--edit", "amount=20"])
        .failed(0, &["approved; it runs now"]);
    until("the call to end", || call(&server, id)["state"] == "finished");
    assert_eq!(call(&server, id)["result"], json!(20), "a number and not text");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn the_denial_of_a_reviewer_is_shown_to_the_caller() {
    let place = Place::new();
    sends(&place);
    let server = place.serve();
    let (id, boss) = (held(&server), key(&server, "approve"));
    with_key(&server, &boss, &["deny", &id, "--reason", "not today"]).failed(0, &["is denied"]);
    let denied = call(&server, &id);
    assert_eq!(denied["state"], "denied");
    assert!(denied["reasons"][0]["message"].as_str().expect("words").ends_with("not today"));
    with_key(&server, &boss, &["deny", &id]).failed(2, &["not held"]);
}

#[test]
fn holds_and_approvals_survive_a_kill() {
    let place = Place::new();
    sends(&place);
    let server = place.serve();
    let (first, boss) = (held(&server), key(&server, "approve"));
    let second = held(&server);
    with_key(&server, &boss, &["approve", &first, "--yes"]).failed(0, &[]);
    server.kill();
    let server = place.serve();
    until("the approved one to end", || {
        // It may have been cut off in the middle of its effect: then its outcome is unknown.
        ["finished", "outcome_unknown"].contains(&call(&server, &first)["state"].as_str().unwrap())
    });
    assert_eq!(call(&server, &second)["state"], "held");
    with_key(&server, &boss, &["approve", &second, "--yes"]).failed(0, &[]);
    until("the other to end", || call(&server, &second)["state"] == "finished");
}

#[test]
fn a_hold_is_sent_to_its_webhook() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
    let place = Place::new();
    sends(&place);
    let settings = [
        ("RINGFENCE_WEBHOOK_URLS", url.as_str()),
        ("RINGFENCE_WEBHOOK_SECRET", "a secret between two services"),
    ];
    let server = place.serve_with(&settings);
    let id = held(&server);
    let (mut stream, _) = listener.accept().expect("a delivery");
    let told = request(&mut stream);
    for part in ["POST /hook", "webhook-signature: v1,", "ce-type: policy.blocked"] {
        assert!(told.contains(part), "no {part} in {told}");
    }
    let body = told.split("\r\n\r\n").nth(1).expect("a body");
    let body: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!((&body["requeue_id"], &body["resource"]), (&json!(id), &json!("send_note")));
    let shown = server.client(&["config", "show"]).stdout;
    assert!(!shown.contains("a secret between"), "{shown}");
    assert_eq!(server.stop(), Some(0));
}

/// One request, answered with success.
fn request(stream: &mut std::net::TcpStream) -> String {
    use std::io::{Read, Write};
    let mut bytes = Vec::new();
    loop {
        let mut part = [0; 4096];
        let read = stream.read(&mut part).expect("bytes");
        bytes.extend_from_slice(&part[..read]);
        if bytes.ends_with(b"}") || read == 0 {
            break;
        }
    }
    let answer = "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
    stream.write_all(answer.as_bytes()).expect("an answer");
    String::from_utf8(bytes).expect("text")
}

#[test]
fn a_client_that_follows_an_expiring_call_sees_the_end() {
    let place = Place::new();
    sends(&place);
    let server = place.serve_with(&[("RINGFENCE_CALLS_HOLD_FOR", "1s")]);
    let id = held(&server);
    // Both were there before it expired, and would wait for ever for another end.
    let stream = server.ask("GET", &format!("/v1/calls/{id}/events"), None);
    let kinds: Vec<_> = stream.events().into_iter().map(|(_, kind)| kind).collect();
    assert_eq!(kinds.last().map(String::as_str), Some("call.expired"), "{kinds:?}");
    server.client(&["logs", "--follow", &id]).worked();
    assert_eq!(call(&server, &id)["state"], "expired");
}
