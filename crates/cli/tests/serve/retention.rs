//! Erasure on request and retention: records go, the ledger stays and verifies, on both backends.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::{
    ledger::meddle,
    postgres::Host,
    support::{Place, Ran, Server, command, ran, shown, skill, until},
};

/// Text that nothing else has, so that a search of the files finds it if it is there.
const SECRET: &str = "Rosalind-Franklin-4711";

/// A program whose output is long enough to be a blob of its own, and larger than a blob in a table.
const PRINTS: &str = "def run(n):\n    print('Rosalind-Franklin-4711 ' * n)\n    return {'n': n}\n";

fn call(server: &Server, tool: &str, args: &Value, session: &str) -> String {
    let body = json!({"tool": tool, "args": args, "session_id": session, "wait": 30});
    let answer = server.ask("POST", "/v1/calls", Some(&body));
    assert_eq!(answer.json()["state"], "finished", "{answer:?}");
    answer.json()["id"].as_str().expect("an id").to_owned()
}

/// Calls with personal data in arguments, result, output and a session event; one of another session.
fn with_records(server: &Server) -> (Vec<String>, String) {
    let said = json!({"text": SECRET});
    let mut calls = vec![call(server, "echo", &said, "thread-17")];
    for n in [1, 20_000] {
        calls.push(call(server, "prints", &json!({ "n": n }), "thread-17"));
    }
    let event = json!({"session_id": "thread-17", "pane": "notes", "content": said});
    assert!(server.ask("POST", "/v1/canvas/event", Some(&event)).status < 300);
    (calls, call(server, "echo", &json!({"text": "stays"}), "thread-18"))
}

/// The text and the exit code of a verification of everything.
fn verified(check: impl Fn(&[&str]) -> Ran) -> String {
    let ran = check(&["verify", "--log", "--artifacts"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran.stdout
}

/// Erases a call and the rest of its session; what is left is what may be left.
fn erase_all(server: &Server) -> Vec<String> {
    let (calls, other) = with_records(server);
    let receipt = format!("/v1/calls/{}/receipt", calls[1]);
    let before = server.ask("GET", &receipt, None).json();
    let ran = server.client(&["erase", &calls[1], "--reason", "request 12", "--json"]).worked();
    assert_eq!(ran.json()["calls"], 1, "{ran:?}");
    let again = server.client(&["erase", &calls[1], "--json"]).worked();
    assert_eq!(again.json()["calls"], 0, "{again:?}");

    let gone = server.ask("GET", &format!("/v1/calls/{}", calls[1]), None);
    assert_eq!((gone.status, &gone.json()["code"]), (410, &json!("call_erased")));
    assert_eq!(server.ask("GET", &receipt, None).json(), before, "the receipt stays");
    let output = format!("/v1/calls/{}/output/stdout", calls[1]);
    assert_eq!(server.ask("GET", &output, None).status, 404);

    let ran = server.client(&["erase", "thread-17", "--json"]).worked();
    assert_eq!(ran.json()["calls"], 2, "{ran:?}");
    let list = server.ask("GET", "/v1/calls?session_id=thread-17", None).json();
    assert_eq!(list["calls"], json!([]), "{list}");
    let canvas = server.ask("GET", "/v1/canvas/thread-17", None).json();
    assert!(!canvas.to_string().contains(SECRET), "{canvas}");
    server.client(&["erase", "no-such-session"]).failed(2, &["nothing of this name"]);
    assert_eq!(server.ask("GET", &format!("/v1/calls/{other}"), None).status, 200);

    let entries = server.client(&["audit", "--kind", "erasure", "--json"]).worked().stdout;
    assert_eq!(entries.lines().count(), 4, "three calls and a session: {entries}");
    assert!(entries.contains("request 12"), "{entries}");
    calls
}

#[test]
fn erased_records_are_gone_and_the_log_verifies_and_says_so() {
    let place = Place::new();
    skill(&place.skills(), "prints", "none", PRINTS);
    let server = place.serve();
    let calls = erase_all(&server);
    let file = shown(&place.path("proof.json"));
    server.client(&["export", &calls[1], "--artifacts", "-o", &file]).worked();
    let told = ran(&mut command(&["verify", &file])).worked().stdout;
    assert!(told.contains(": erased on request"), "{told}");
    let check =
        |args: &[&str]| ran(&mut command(&[args, &["--data", &shown(&place.data())]].concat()));
    let told = verified(check);
    assert!(told.contains("erased      the records of 3 calls"), "{told}");
    assert!(told.contains("erased, as entries of the ledger say"), "{told}");
    assert_eq!(server.stop(), Some(0));
    // The write-ahead log is emptied when the server stops, and rows are overwritten.
    assert_eq!(files_with(&place.data(), SECRET), [""; 0]);

    // Records that are missing without an entry that says so are a flaw as before.
    meddle(
        &place.data(),
        "DELETE FROM records WHERE call = (SELECT max(seq) FROM calls WHERE erased_in IS NULL AND session = 'thread-18') AND position NOT IN (SELECT record FROM ledger WHERE record IS NOT NULL); UPDATE calls SET erased_in = 1, version = 99 WHERE session = 'thread-18'",
    );
    check(&["verify", "--log"]).failed(1, &["differs from the receipt"]);
}

/// Files below a directory that have this text.
fn files_with(directory: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("a file")) {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if fs::read(&path)
            .is_ok_and(|bytes| bytes.windows(text.len()).any(|part| part == text.as_bytes()))
        {
            found.push(shown(&path));
        }
    }
    found
}

#[test]
fn the_same_holds_on_postgresql() {
    let host = Host::first();
    skill(&host.place.skills(), "prints", "none", PRINTS);
    host.run(&["migrate"]).worked();
    let server = host.serve();
    erase_all(&server);
    let told = verified(|args| host.run(args));
    assert!(told.contains("erased      the records of 3 calls"), "{told}");
}

/// Numbers that `prune --json` prints.
fn pruned(server: &Server, args: &[&str]) -> Value {
    server.client(&[&["prune", "--json"], args].concat()).worked().json()
}

fn retain(server: Server, restart: impl FnOnce() -> Server) {
    let (calls, other) = with_records(&server);
    let ran = server.client(&["prune", "--dry-run"]);
    ran.failed(2, &["keeps records for ever", "--older-than 90d"]);
    let none = pruned(&server, &["--older-than", "1h"]);
    assert_eq!((&none["calls"], &none["events"]), (&json!(0), &json!(0)), "{none}");
    let all = pruned(&server, &["--older-than", "0s", "--dry-run"]);
    assert_eq!(all["expired"]["calls"], 4, "{all}");
    // What is older than a moment goes when a server with that retention starts.
    assert_eq!(server.stop(), Some(0));
    let server = restart();
    for id in calls.iter().chain([&other]) {
        until("the retention erases it", || {
            server.ask("GET", &format!("/v1/calls/{id}"), None).status == 410
        });
    }
    let later = call(&server, "echo", &json!({"text": "later"}), "thread-19");
    assert_eq!(server.ask("GET", &format!("/v1/calls/{later}"), None).status, 200);
    let all = pruned(&server, &["--older-than", "0s"]);
    assert_eq!(all["calls"], 1, "{all}");
    let metrics = server.ask("GET", "/metrics", None).body;
    assert!(metrics.contains("records_erased_total{kind=\"call\"} 5"), "{metrics}");
}

#[test]
fn what_is_older_than_the_retention_goes() {
    let place = Place::new();
    skill(&place.skills(), "prints", "none", PRINTS);
    let server = place.serve();
    retain(server, || place.serve_with(&[("RINGFENCE_RETENTION_KEEP_FOR", "1ms")]));
}
