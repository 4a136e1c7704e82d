//! The demo: real calls of every kind, labelled, and removed by one command.

use serde_json::Value;

use crate::support::{Place, Server};

/// States of the calls of a session, sorted.
fn states(server: &Server, session: &str) -> Vec<String> {
    let answer = server.ask("GET", &format!("/v1/calls?session_id={session}&limit=100"), None);
    let calls = answer.json();
    let state = |call: &Value| {
        assert_eq!(call["persona_id"], "demo", "{call}");
        call["state"].as_str().expect("a state").to_owned()
    };
    let mut states: Vec<_> = calls["calls"].as_array().expect("calls").iter().map(state).collect();
    states.sort_unstable();
    states
}

fn listed(server: &Server, path: &str, name: &str) -> Vec<Value> {
    server.ask("GET", path, None).json()[name].as_array().expect("a list").clone()
}

#[test]
fn the_demo_fills_a_server_and_is_removed() {
    let place = Place::new();
    let server = place.serve();
    let told = server.client(&["demo", "--json"]).worked();
    let told: Value = serde_json::from_str(told.stdout.trim()).expect("one object");
    assert_eq!(told["held"], 1);
    assert_eq!(
        states(&server, "demo-reports"),
        ["denied", "finished", "finished", "finished", "finished", "held"],
        "denied, approved, changed, approved for the session, run by that, waiting"
    );
    assert_eq!(states(&server, "demo-triage-4711"), ["finished"; 5]);
    let nightly = states(&server, "demo-nightly");
    assert!(nightly.contains(&"cancelled".to_owned()), "{nightly:?}");
    hostile_programs_got_nowhere(&server);
    plot_is_a_picture(&server);

    // A second one adds to the first.
    server
        .client(&["demo"])
        .failed(0, &["1 of them waits for a person", "ringfence demo --remove"]);
    assert_eq!(states(&server, "demo-triage-4711").len(), 10);

    let removed = server.client(&["demo", "--remove", "--json"]).worked().json();
    assert_eq!(
        (&removed["sandboxes"], &removed["skills"], &removed["keys"]),
        (&2.into(), &1.into(), &4.into())
    );
    assert!(removed["calls"].as_u64().expect("a number") >= 2, "{removed}");
    assert_eq!(listed(&server, "/v1/sandboxes", "sandboxes"), Vec::<Value>::new());
    assert!(!states(&server, "demo-reports").contains(&"held".to_owned()));
    let skills = listed(&server, "/skills/list", "skills");
    assert!(skills.iter().all(|skill| skill["name"] != "demo_send_report"));
    let keys = listed(&server, "/v1/keys", "keys");
    let demo = keys.iter().filter(|key| key["label"].as_str().expect("text").starts_with("demo: "));
    assert_eq!(
        demo.map(|key| key["revoked"].clone()).collect::<Vec<_>>(),
        [true, true, true, true]
    );
    server.client(&["demo", "--remove"]).failed(
        0,
        &["removed 0 sandboxes and 0 skills, revoked 0 keys", "entries of the ledger stay"],
    );
    assert_eq!(server.stop(), Some(0));
}

fn hostile_programs_got_nowhere(server: &Server) {
    let calls = listed(server, "/v1/calls?session_id=demo-hostile", "calls");
    assert_eq!(calls.len(), 5);
    let printed: String =
        calls.iter().filter_map(|call| call["result"]["stdout"].as_str()).collect();
    for line in printed.lines() {
        let got = [" read ", "connected", "-> done"].iter().any(|word| line.contains(word));
        assert!(!got, "{line}");
    }
    assert!(printed.contains("/etc/shadow ->") && printed.contains("169.254.169.254 80 ->"));
    let codes: Vec<_> = calls.iter().filter_map(|call| call["error"]["code"].as_str()).collect();
    assert_eq!(codes.len(), 2, "the memory limit and the refused address: {codes:?}");
}

fn plot_is_a_picture(server: &Server) {
    let sandboxes = listed(server, "/v1/sandboxes", "sandboxes");
    assert_eq!(sandboxes[0]["metadata"]["name"], "demo: sales analysis");
    let id = sandboxes[0]["id"].as_str().expect("an id");
    let cells = listed(server, &format!("/v1/calls?session_id={id}&tool=sandbox_execute"), "calls");
    let results: Vec<_> = cells.iter().map(|cell| &cell["result"]["results"][0]["data"]).collect();
    assert!(results[0]["image/png"].as_str().expect("a picture").starts_with("iVBORw0KGgo"));
    assert!(results[1]["text/html"].as_str().expect("a table").contains("<td>241</td>"));
}

#[test]
fn the_demo_needs_a_valid_time_and_an_admin() {
    let place = Place::new();
    let server = place.serve();
    server.client(&["demo", "--over", "soon"]).failed(2, &["--over: "]);
    server.client(&["demo", "--over", "25h"]).failed(2, &["--over: must be at most 24h"]);
    let key = server.client(&["key", "create", "agent", "--scope", "call", "--scope", "read"]);
    let mut demo = crate::support::command(&["demo", "--data", &server.data]);
    let ran = crate::support::ran(demo.env("RINGFENCE_KEY", key.stdout.trim()));
    ran.failed(2, &["error: "]);
}
