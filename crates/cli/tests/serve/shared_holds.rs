//! Two servers on one database: held calls are rechecked by one of them, and tools are on the ledger once.

use std::fs;

use serde_json::Value;

use crate::{
    postgres::{Host, begin, call},
    support::{Server, until},
};

/// Lets everything run.
const ALLOW: &str = r#"
package ringfence
default decision := {"decision": "allow", "reasons": [{"rule": "trusted", "message": "ours"}]}
"#;

fn decisions(server: &Server, id: &str) -> Vec<Value> {
    let answer = server.ask("GET", &format!("/v1/calls/{id}/decisions"), None).json();
    answer["decisions"].as_array().expect("decisions").clone()
}

/// Counts entries of the ledger of a kind.
fn entries(server: &Server, kind: &str) -> Vec<Value> {
    let listed = server.client(&["audit", "--kind", kind, "--json"]).worked().stdout;
    listed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn held_calls_of_all_servers_are_rechecked_by_one_and_tools_are_recorded_once() {
    let first = Host::first();
    first.run(&["migrate"]).worked();
    let second = Host::second(&first);
    let (one, other) = (first.serve(), second.serve());
    // Both have the same tools, and the second start adds nothing.
    let tools = entries(&one, "tool");
    let added = tools.iter().filter(|entry| entry.to_string().contains("\"held\"")).count();
    assert_eq!(added, 1, "{tools:?}");

    let held: Vec<_> = (0..3).flat_map(|_| [begin(&one, "held"), begin(&other, "held")]).collect();
    for id in &held {
        until("it is held", || call(&one, id)["state"] == "held");
    }
    // The server that rechecks may be either; the one that is left does it when the other is gone.
    one.kill();
    for host in [&first, &second] {
        fs::write(host.place.path("policy").join("rules.rego"), ALLOW).expect("rules");
    }
    for id in &held {
        until("it runs", || call(&other, id)["state"] == "finished");
        let allowed = decisions(&other, id);
        let allowed = allowed.iter().filter(|kept| kept["decision"]["verdict"] == "allow");
        assert!(allowed.count() <= 1, "{:?}", decisions(&other, id));
    }
    let receipts = entries(&other, "call");
    for id in &held {
        let own = receipts.iter().filter(|entry| entry["call_id"] == id.as_str()).count();
        assert_eq!(own, 1, "one receipt of {id}");
    }
    // A restart with the same tools records none of them again.
    let before = entries(&other, "tool").len();
    let one = first.serve();
    assert_eq!(entries(&one, "tool").len(), before);
}
