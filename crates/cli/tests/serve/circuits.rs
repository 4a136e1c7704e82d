//! Tools that fail again and again.

use serde_json::{Value, json};

use crate::support::{Place, Server, skill, until};

/// Sleeps for `n` seconds; its limit is two.
const SLOW: &str = "import time\ndef run(n=0):\n    time.sleep(n)\n    return {}\n";

fn call(server: &Server, seconds: u32) -> crate::wire::Answer {
    let body = json!({"tool": "slow", "args": {"n": seconds}});
    server.ask("POST", "/v1/calls", Some(&body))
}

fn circuit(server: &Server) -> Value {
    server.ask("GET", "/v1/tools/slow", None).json()["circuit"].clone()
}

#[test]
fn a_skill_that_takes_too_long_is_left_alone_and_tried_again() {
    let place = Place::new();
    skill(&place.skills(), "slow", "none", SLOW);
    // The variables of SomaAgent 01.
    let server = place.serve_with(&[
        ("TOOL_EXECUTOR_CIRCUIT_FAILURE_THRESHOLD", "1"),
        ("TOOL_EXECUTOR_CIRCUIT_RESET_TIMEOUT_SECONDS", "2"),
    ]);
    assert_eq!(circuit(&server), Value::Null);
    assert_eq!(call(&server, 600).json()["error"]["code"], "timeout");
    let refused = call(&server, 0);
    assert_eq!((refused.status, &refused.json()["code"]), (503, &json!("circuit_open")));
    assert!(refused.head.contains("\nretry-after: "), "{}", refused.head);
    let open = circuit(&server);
    assert_eq!((&open["state"], &open["failures"]), (&json!("open"), &json!(1)), "{open}");
    let listed = server.client(&["tools"]).worked();
    assert!(listed.stdout.contains("circuit_open"), "{}", listed.stdout);
    let metrics = server.ask("GET", "/metrics", None).body;
    assert!(metrics.contains("\ntool_circuits_open 1\n"), "{metrics}");
    // Other tools are not concerned.
    server.call("echo", &json!({"text": "x"}));
    until("it is tried again", || call(&server, 0).status == 200);
    assert_eq!(circuit(&server), Value::Null);
}
