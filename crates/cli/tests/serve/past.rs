//! Rules tested without a server, tried on a server's past, and made to explain themselves.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::support::{Place, Server, command, ran};

const RULES: &str = r#"package ringfence

default decision := {"decision": "allow"}

decision := {"decision": "deny", "reasons": [{"rule": "no_secrets", "message": "it is a secret"}]} if {
	contains(input.args.text, "secret")
}
"#;

/// A folder with one file.
fn folder(place: &Place, name: &str, text: &str) -> String {
    let folder = place.path("proposed");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join(name), text).expect("a file");
    folder.to_str().expect("a name").to_owned()
}

fn first_call(server: &Server) -> String {
    let calls = server.client(&["calls", "--json"]).worked();
    let call: Value =
        serde_json::from_str(calls.stdout.lines().last().expect("a call")).expect("JSON");
    call["id"].as_str().expect("a name").to_owned()
}

#[test]
fn tests_pass_fail_and_are_counted() {
    let place = Place::new();
    let proposed = folder(&place, "rules.rego", RULES);
    let test = |expected: &str| {
        format!(
            "package t_test\n\nimport data.ringfence\n\ntest_a if {{\n\tringfence.decision.decision \
             == \"{expected}\" with input as {{\"args\": {{\"text\": \"secret\"}}}}\n}}\n"
        )
    };
    ran(&mut command(&["policy", "test", &proposed]))
        .failed(2, &["error: there are no tests", "hint: "]);
    folder(&place, "rules_test.rego", &test("deny"));
    let passed = ran(&mut command(&["policy", "test", &proposed, "--coverage"])).worked();
    assert!(passed.stdout.contains("1 passed, 0 failed"), "{}", passed.stdout);
    assert!(passed.stdout.contains("rules.rego: "), "{}", passed.stdout);
    folder(&place, "rules_test.rego", &test("allow"));
    let failed = ran(&mut command(&["policy", "test", &proposed, "--json"]));
    assert_eq!(failed.code, Some(1));
    let lines: Vec<Value> =
        failed.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((&lines[0]["outcome"], &lines[0]["at"]["line"]), (&json!("failed"), &json!(6)));
    assert_eq!(lines[1]["failed"], 1);
    folder(&place, "rules.rego", "package ringfence\n\ndecision := nope(1)\n");
    ran(&mut command(&["policy", "test", &proposed]))
        .failed(2, &["rules.rego:3: no function `nope`"]);
}

#[test]
fn the_past_is_tried_told_as_a_test_and_explained() {
    let place = Place::new();
    let server = place.serve();
    for text in ["a secret", "plain", "another secret"] {
        server.call("echo", &json!({"text": text}));
    }
    let proposed = folder(&place, "rules.rego", RULES);
    let replay =
        server.client(&["policy", "replay", "--bundle", &proposed, "--since", "1h"]).worked();
    for part in ["2 of 3 decisions would flip", "allow -> deny", "no_secrets"] {
        assert!(replay.stdout.contains(part), "{part}: {}", replay.stdout);
    }
    assert!(replay.stderr.contains("per second"), "{}", replay.stderr);
    let args = ["policy", "replay", "--bundle", &proposed, "--limit", "1", "--json"];
    let replay: Value = serde_json::from_str(&server.client(&args).worked().stdout).expect("JSON");
    assert_eq!(
        (&replay["flips"]["total"], replay["calls"].as_array().map(Vec::len)),
        (&json!(2), Some(1))
    );
    let (call, file) = (first_call(&server), Path::new(&proposed).join("case_test.rego"));
    let file = file.to_str().expect("a name");
    server.client(&["policy", "case", &call, "-o", file]).worked();
    server.client(&["policy", "case", &call, "-o", file]).failed(2, &["cannot write"]);
    let tested = ran(&mut command(&["policy", "test", &proposed]));
    assert_eq!(tested.code, Some(1), "{}", tested.stdout);
    assert!(tested.stdout.contains("decision.decision == \"allow\""), "{}", tested.stdout);
    let explained = server.client(&["policy", "explain", &call]).worked();
    assert!(explained.stdout.contains("/tool/safety_flags is [\"none\"]"), "{}", explained.stdout);
}
