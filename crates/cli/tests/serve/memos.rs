//! Results that are given again, through the binary: a skill that never gives the same twice tells
//! whether it ran.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{Place, Server, command, ran, shown, skill, until};

/// Skill whose result differs in every run.
const DICE: &str = "import os\n\ndef run(n=0):\n    print('rolled')\n    \
                    return {'rolled': os.urandom(8).hex()}\n";

const REMEMBER: [(&str, &str); 1] = [("RINGFENCE_MEMO_TOOLS", "dice,sent")];

fn place() -> Place {
    let place = Place::new();
    skill(&place.skills(), "dice", "none", DICE);
    place
}

/// Result of a call, and the call whose result was reused.
fn roll(server: &Server, n: u32) -> (Value, Option<String>) {
    given(&server.call("dice", &json!({ "n": n })))
}

fn given(call: &Value) -> (Value, Option<String>) {
    assert_eq!(call["error"], Value::Null, "{call}");
    let by = call["memoised"]["call_id"].as_str().map(str::to_owned);
    (call["result"]["rolled"].clone(), by)
}

#[test]
fn an_equal_call_does_not_run_and_is_proved_with_the_one_that_did_after_a_kill() {
    let place = place();
    let server = place.serve_with(&REMEMBER);
    let first = server.call("dice", &json!({"n": 1}));
    let id = first["id"].as_str().expect("an id").to_owned();
    let (rolled, by) = given(&first);
    assert_eq!(by, None);
    server.kill();

    let server = place.serve_with(&REMEMBER);
    let second = server.call("dice", &json!({"n": 1}));
    assert_eq!(given(&second), (rolled, Some(id.clone())));
    assert_eq!(second["outputs_hash"], first["outputs_hash"]);
    assert_eq!(second["usage"], Value::Null, "nothing ran");
    assert_eq!(second["memoised"]["receipt"], format!("/v1/calls/{id}/receipt"));
    let printed = server.ask("GET", second["stdout"]["href"].as_str().expect("a path"), None);
    assert_eq!(printed.body, "rolled\n", "what the program printed is there as well");
    assert_ne!(roll(&server, 2).1, Some(id.clone()), "other arguments");

    let proof = shown(&place.path("proof.json"));
    let later = second["id"].as_str().expect("an id");
    server.client(&["export", later, "--artifacts", "-o", &proof]).worked();
    server.stop();
    let verified = ran(&mut command(&["verify", &proof, "--json"])).worked().json();
    let entries = verified["entries"].as_array().expect("a list");
    let calls: Vec<_> = entries.iter().map(|entry| &entry["predicate"]["call"]).collect();
    assert_eq!(calls, [&json!(id), &json!(later)], "the receipt of the one that ran comes with it");
    assert_eq!(entries[1]["predicate"]["memoised"]["entry"], entries[0]["index"]);
    assert_eq!(entries[1]["predicate"]["result"], entries[0]["predicate"]["result"]);
    let told = ran(&mut command(&["verify", &proof])).worked().stdout;
    assert!(told.contains(&format!("memoised    the result is that of call {id}")), "{told}");
}

#[test]
fn nothing_is_given_again_by_default_or_for_a_tool_with_effects() {
    let place = place();
    skill(&place.skills(), "sent", "network_access", DICE);
    let server = place.serve();
    assert_ne!(roll(&server, 1).0, roll(&server, 1).0);
    server.stop();
    let rules = place.path("rules");
    std::fs::create_dir(&rules).expect("a folder");
    let allow = "package ringfence\n\ndecision := {\"decision\": \"allow\"}\n";
    std::fs::write(rules.join("allow.rego"), allow).expect("a file");
    let rules = shown(&rules);
    let server = place.serve_with(&[REMEMBER[0], ("RINGFENCE_POLICY", &rules)]);
    let send = || given(&server.call("sent", &json!({"n": 1})));
    let (one, other) = (send(), send());
    assert_ne!(one.0, other.0);
    assert_eq!((one.1, other.1), (None, None));
    let memoised = |tool: &str| server.ask("GET", &format!("/v1/tools/{tool}"), None).json();
    assert_eq!(memoised("sent")["memoised"], false);
    assert_eq!(memoised("dice")["memoised"], true);
}

#[test]
fn a_changed_skill_and_another_binary_run() {
    let place = place();
    let server = place.serve_with(&REMEMBER);
    let (rolled, _) = roll(&server, 1);
    assert_eq!(roll(&server, 1).0, rolled, "the control");
    let digest = || server.ask("GET", "/v1/tools/dice", None).json()["digest"].clone();
    let before = digest();
    let handler = place.skills().join("dice/handler.py");
    std::fs::write(&handler, format!("{DICE}\n# changed\n")).expect("a change");
    until("the skill is read anew", || digest() != before);
    let changed = roll(&server, 1);
    assert_eq!(changed.1, None);
    assert_ne!(changed.0, rolled);
    server.stop();
    let other = copy_of_the_binary(&place);
    let server = place.serve_as(&other, &REMEMBER);
    assert_eq!(roll(&server, 1).1, None, "another runtime");
    server.stop();
    let server = place.serve_with(&REMEMBER);
    assert_eq!(roll(&server, 1).0, changed.0, "the first runtime again");
}

fn copy_of_the_binary(place: &Place) -> PathBuf {
    let copy = place.path("ringfence");
    std::fs::copy(crate::support::BINARY, &copy).expect("a copy");
    copy
}

#[test]
fn people_see_what_did_not_run_and_can_have_it_run() {
    let place = place();
    let server = place.serve_with(&REMEMBER);
    let first = server.client(&["call", "dice", "n=1"]).worked();
    assert!(!first.stderr.contains("memoised"), "{first:?}");
    let second = server.client(&["call", "dice", "n=1"]).worked();
    assert_eq!(second.stdout, first.stdout);
    for words in ["rolled", "memoised: the result of call ", "--fresh runs it anew"] {
        assert!(second.stderr.contains(words), "no `{words}` in {second:?}");
    }
    let object = server.client(&["call", "dice", "n=1", "--json"]).worked().json();
    assert!(object["memoised"]["call_id"].is_string(), "{object}");
    let fresh = server.client(&["call", "dice", "n=1", "--fresh"]).worked();
    assert_ne!(fresh.stdout, first.stdout);
    let listed = server.client(&["calls"]).worked().stdout;
    assert_eq!(listed.matches("\n  memoised\n").count(), 2, "{listed}");
    assert!(listed.lines().all(|line| line.chars().count() <= 80), "{listed}");
    assert!(server.client(&["tools"]).worked().stdout.contains("none memoised"));
    // What is remembered would prove nothing.
    let id = object["id"].as_str().expect("an id");
    let replayed = server.client(&["replay", id, "--json"]);
    assert_eq!((replayed.code, &replayed.json()["outcome"]), (Some(1), &json!("different")));
    let bad = json!({"tool": "dice", "args": {}, "fresh": "yes"});
    assert_eq!(server.ask("POST", "/v1/calls", Some(&bad)).status, 422);
    let executed = json!({"skill": "dice", "args": {"n": 1}});
    let fresh = json!({"skill": "dice", "args": {"n": 1}, "fresh": true});
    let execute =
        |body| server.ask("POST", "/skills/execute", Some(body)).json()["result"]["rolled"].clone();
    assert_eq!(execute(&executed), execute(&executed));
    assert_ne!(execute(&executed), execute(&fresh));
    let metrics = server.ask("GET", "/metrics", None).body;
    assert!(metrics.contains("tool_memo_lookups_total{tool=\"dice\",result=\"hit\"}"), "{metrics}");
}

#[test]
fn settings_of_memory_are_checked() {
    let place = Place::new();
    let data = shown(&place.data());
    let mut wrong = command(&["serve", "--listen", "127.0.0.1:0", "--data", &data]);
    let wrong = wrong.envs([
        ("RINGFENCE_MEMO_TOOLS", "no name!"),
        ("RINGFENCE_MEMO_KEEP_FOR", "a while"),
        ("RINGFENCE_MEMO_MOST_PER_TENANT", "0"),
    ]);
    let told = ["memo.tools (from RINGFENCE_MEMO_TOOLS)", "memo.keep_for", "memo.most_per_tenant"];
    ran(wrong).failed(2, &told);
}
