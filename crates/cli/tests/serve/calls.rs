//! Calls over the wire and from the command line.

use serde_json::json;

use crate::support::{Place, shown, skill};

const TEXT: &str = "Ringfence runs tools for agents. Each tool runs in a sandbox of its own. \
                    The sandbox has no network. Policy decides about every call. Ada Lovelace \
                    asked for it at ada@example.com.";

#[test]
fn tools_answer_over_the_wire() {
    let place = Place::new();
    let server = place.serve();
    let echo = server.call("echo", &json!({"text": "hello"}));
    assert_eq!(
        (&echo["state"], &echo["result"]),
        (&json!("finished"), &json!({"message": "hello"}))
    );
    let summary = server.call("text_summarize", &json!({"text": TEXT, "max_sentences": 2}));
    assert_eq!(summary["state"], "finished", "{summary}");
    assert!(summary["result"]["summary"].as_str().is_some_and(|s| !s.is_empty()), "{summary}");
    let fetch = server.call("http_fetch", &json!({"url": "https://example.com/"}));
    assert_eq!(fetch["state"], "held", "by the built-in rules: {fetch}");
    let entities = server.call("extract_entities", &json!({"text": TEXT}));
    let found = entities["result"]["entities"].to_string();
    assert!(found.contains("ada@example.com") && found.contains("Ada Lovelace"), "{entities}");
    let artifacts = json!([{"id": "a", "type": "note", "content": {"text": TEXT}}]);
    let memory = server.call("compact_memory", &json!({"artifacts": artifacts}));
    assert_eq!(memory["state"], "finished", "{memory}");
    assert!(memory["error"].is_null(), "{memory}");
}

#[test]
fn the_command_line_types_arguments_and_prints_the_result() {
    let place = Place::new();
    let server = place.serve();
    let echo = server.client(&["call", "echo", "text=12"]).worked();
    assert_eq!((echo.stdout.as_str(), echo.stderr.as_str()), ("{\"message\":\"12\"}\n", ""));
    let args = ["call", "text_summarize", &format!("text={TEXT}"), "max_sentences=1"];
    let summary = server.client(&args).worked();
    assert!(summary.json()["summary"].is_string(), "{summary:?}");
    let wrong = server.client(&["call", "text_summarize", "text=x", "max_sentences=many"]);
    wrong.failed(2, &["max_sentences: `many` is not a whole number"]);
    server.client(&["call", "echo"]).failed(2, &["error: ", "hint: see what it takes"]);
    server
        .client(&["call", "ecko", "a=b"])
        .failed(2, &["did you mean `echo`?", "hint: list the tools"]);
    let listed = server.client(&["calls", "--tool", "echo"]).worked();
    assert_eq!(listed.stdout.lines().count(), 2, "{listed:?}");
    let id = listed.stdout.lines().nth(1).and_then(|line| line.split_whitespace().next());
    let made = server.client(&["calls", "--parent", id.unwrap()]).worked();
    assert_eq!((made.stdout.as_str(), made.stderr.as_str()), ("", "no calls\n"));
}

#[test]
fn code_runs_in_three_languages_and_fails_with_its_traceback() {
    let place = Place::new();
    let server = place.serve();
    for (language, good, bad, complaint) in [
        ("python", "print(6*7)", "x = {}\nx['gone']", "KeyError: 'gone'"),
        ("javascript", "console.log(6*7)", "null.gone", "the code failed: TypeError: "),
        ("bash", "echo $((6*7))", "cat /gone; exit 3", "/gone"),
    ] {
        let lang = format!("language={language}");
        let ran = server.client(&["call", "code_execute", &lang, &format!("code={good}")]);
        let ran = ran.worked();
        assert_eq!(ran.json()["stdout"], "42\n", "{language}");
        assert_eq!(ran.stderr, "42\n", "what it prints is shown while it runs");
        let failed = server.client(&["call", "code_execute", &lang, &format!("code={bad}")]);
        failed.failed(1, &["error: ", "code_failed", complaint]);
        assert_eq!(failed.stdout, "");
    }
    // Python's shows the line, and nothing but the caller's own code.
    let failed = server.client(&["call", "code_execute", "code=x = {}\nx['gone']"]);
    let trace = "Traceback (most recent call last):\n  File \"<code>\", line 2, in <module>\n    x['gone']\n";
    assert!(failed.stderr.starts_with(trace), "{}", failed.stderr);
}

#[test]
fn whatever_names_code_leaves_it_is_no_failure() {
    let place = Place::new();
    let server = place.serve();
    let left = |code: &str| {
        let call = server.call("code_execute", &json!({"code": code}));
        assert_eq!(call["error"], json!(null), "{code}: {call}");
        call["result"]["locals"].clone()
    };
    let rude = "class Rude:\n    def __repr__(self): raise SystemExit(3)\n_rude = Rude\ndel Rude\n";
    for (code, locals) in [
        ("a = '\\ud800'", json!({"a": "'\\ud800'"})),
        ("globals()['\\ud800'] = 1", json!({"\\ud800": 1})),
        ("globals()[7] = 1\nb = 2", json!({"b": 2})),
        ("c = {1, 2}; d = float('nan')", json!({"c": "{1, 2}", "d": "nan"})),
        (&format!("{rude}e = _rude()"), json!({"e": "<Rude whose repr fails: SystemExit>"})),
        ("f = 'ü 🙂'; g = [True, None, 1.5]", json!({"f": "ü 🙂", "g": [true, null, 1.5]})),
    ] {
        assert_eq!(left(code), locals, "{code}");
    }
    let deep = left("h = 1\nfor _ in range(100): h = [h]\n");
    assert!(deep["h"].as_str().is_some_and(|text| text.starts_with("[[[[")), "{deep}");
}

/// Holds what goes out, denies the time, allows the rest.
const RULES: &str = r#"package ringfence

decision := {"decision": "deny", "reasons": [{"rule": "no_clocks", "message": "time is a secret"}]} if {
	input.tool.name == "timestamp"
} else := {"decision": "hold", "reasons": [{"rule": "no_net", "message": "ask first"}]} if {
	"network_access" in input.tool.safety_flags
} else := {"decision": "allow", "reasons": []}
"#;

#[test]
fn exit_codes_tell_how_a_call_ended() {
    let place = Place::new();
    let sleeps = "import time\ndef run():\n    print('half done')\n    time.sleep(60)\n";
    skill(&place.skills(), "sleeps", "none", sleeps);
    let rules = place.path("rules");
    std::fs::create_dir(&rules).unwrap();
    std::fs::write(rules.join("own.rego"), RULES).unwrap();
    let server = place.serve_with(&[("RINGFENCE_POLICY", &shown(&rules))]);
    server.client(&["call", "sleeps"]).failed(124, &["timeout"]);
    let ended = server.client(&["calls", "--tool", "sleeps", "--json"]).worked().json();
    let logs = server.client(&["logs", ended["id"].as_str().expect("an id")]).worked();
    assert_eq!(logs.stdout, "half done\n", "printed before its time was over");
    server.client(&["call", "timestamp"]).failed(3, &["denied: ", "no_clocks: time is a secret"]);
    let held = server.client(&["call", "http_fetch", "url=https://example.com/"]);
    held.failed(4, &["held: ", "no_net: ask first", "hint: "]);
    let held = server.client(&["calls", "--state", "held", "--json"]).worked().json();
    let id = held["id"].as_str().expect("an id").to_owned();
    server.client(&["cancel", &id]).worked();
    assert_eq!(server.ask("GET", &format!("/v1/calls/{id}"), None).json()["state"], "cancelled");
}

#[test]
fn the_output_of_a_call_is_kept_and_can_be_followed() {
    let place = Place::new();
    let server = place.serve();
    let code = "code=import sys, time\nprint('one')\nprint('bad', file=sys.stderr)\n\
                time.sleep(1)\nprint('two')";
    let made = server.client(&["call", "code_execute", code, "--no-wait"]).worked();
    let id = made.stdout.trim().to_owned();
    let followed = server.client(&["logs", &id, "-f"]).worked();
    assert_eq!(followed.stdout, "one\ntwo\n");
    assert_eq!(server.client(&["logs", &id]).worked().stdout, "one\ntwo\n");
    assert_eq!(server.client(&["logs", &id, "--stderr"]).worked().stdout, "bad\n");
    let events = server.client(&["events", "--after", "0-0", "--limit", "2", "--json"]).worked();
    assert!(events.stdout.lines().all(|line| line.contains(&id)), "{events:?}");
}

#[test]
fn the_same_idempotency_key_is_done_once() {
    let place = Place::new();
    let server = place.serve();
    let call = |text: &str| {
        server.client(&["call", "echo", text, "--idempotency-key", "a \"b\"", "--json"])
    };
    let (first, second) = (call("text=x").worked().json(), call("text=x").worked().json());
    assert_eq!(first["id"], second["id"]);
    call("text=y").failed(2, &["error: "]);
}
