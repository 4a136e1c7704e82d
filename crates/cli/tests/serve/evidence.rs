//! Evidence beyond the ledger itself: the artifacts that it names, a stored checkpoint, and the
//! identity of approvers.

use std::{fs, path::Path};

use serde_json::json;

use crate::ledger::{Change, Texts, meddle, meddle_receipts, meddle_records, put};
use crate::support::{Place, Ran, Server, command, ran, shown, skill, until};

fn verify(data: &Path, args: &[&str]) -> Ran {
    ran(&mut command(&[&["verify", "--data", &shown(data)], args].concat()))
}

fn copied(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a folder");
    fs::copy(from.join("ringfence.db"), to.join("ringfence.db")).expect("a copy");
}

/// A call with arguments, a result and something printed.
fn printing(server: &Server) -> String {
    let code = "print('printed')\nx = 'a result'";
    let call = server.call("code_execute", &json!({ "code": code }));
    assert_eq!(call["state"], "finished", "{call}");
    call["id"].as_str().expect("an id").to_owned()
}

#[test]
fn what_is_kept_beside_the_ledger_is_compared_with_what_the_ledger_names() {
    let place = Place::new();
    let server = place.serve();
    let id = printing(&server);
    server.stop();
    let told = verify(&place.data(), &["--log", "--artifacts", "--json"]).worked().json();
    assert!(told["artifacts"].as_u64() >= Some(3), "{told}");
    let result = |texts: &mut Texts| put(&mut texts.now, "a result", "another");
    let args = |texts: &mut Texts| put(&mut texts.asked, "a result", "another");
    let blobs = "UPDATE blobs SET bytes =
                 CAST(replace(CAST(bytes AS TEXT), 'printed', 'planted') AS BLOB)";
    let changes: [Change<'_>; 4] = [
        (&|copy| meddle_records(copy, result), "the stored result"),
        (&|copy| meddle_records(copy, args), "the stored args"),
        (&|copy| meddle(copy, blobs), "the stored stdout"),
        (&|copy| meddle(copy, "DELETE FROM blobs"), "the stored stdout"),
    ];
    for (index, (change, name)) in changes.into_iter().enumerate() {
        let copy = place.path(&format!("copy-{index}"));
        copied(&place.data(), &copy);
        verify(&copy, &["--log", "--artifacts"]).worked();
        change(&copy);
        verify(&copy, &["--log"]).worked();
        verify(&copy, &["--log", "--artifacts"]).failed(1, &["does not hold", "entry ", name]);
        verify(&copy, &["--call", &id]).failed(1, &["does not hold", "entry ", name]);
    }
}

#[test]
fn a_server_exports_no_bytes_that_are_not_those_of_the_receipt() {
    let place = Place::new();
    let server = place.serve();
    let id = printing(&server);
    server.client(&["export", &id, "--artifacts"]).worked();
    server.stop();
    meddle_records(&place.data(), |texts| put(&mut texts.now, "a result", "another"));
    let server = place.serve();
    let words = ["error: ", "result of call", "differs from its receipt"];
    server.client(&["export", &id, "--artifacts"]).failed(2, &words);
    // The entries themselves are what they were.
    let file = shown(&place.path("proof.json"));
    server.client(&["export", &id, "-o", &file]).worked();
    ran(&mut command(&["verify", &file])).worked();
}

#[test]
fn a_server_exports_no_entry_that_is_not_what_was_signed() {
    let place = Place::new();
    let server = place.serve();
    let id = printing(&server);
    server.client(&["export", &id]).worked();
    meddle_receipts(&place.data());
    server.client(&["export", &id]).failed(2, &["error: "]);
}

#[test]
fn a_read_only_copy_is_verified_and_left_as_it_was() {
    let place = Place::new();
    let server = place.serve();
    printing(&server);
    server.stop();
    let copy = place.path("copy");
    copied(&place.data(), &copy);
    verify(&copy, &["--log"]).worked();
    let names = fs::read_dir(&copy).expect("a folder").map(|entry| entry.expect("one").file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().expect("text")).collect();
    names.retain(|name| !name.starts_with("ringfence.db"));
    assert_eq!(names, [""; 0]);
}

#[test]
fn a_stored_checkpoint_shows_that_the_log_only_grew() {
    let place = Place::new();
    let server = place.serve();
    let kept = server.client(&["ledger", "checkpoint"]).worked().stdout;
    let file = place.path("kept.txt");
    fs::write(&file, &kept).expect("a file");
    let path = shown(&file);
    server.call("echo", &json!({"text": "more"}));
    let same = server.client(&["ledger", "consistency", &path]).worked();
    assert!(same.stdout.starts_with("consistent  the log has only grown since"), "{same:?}");
    server.client(&["ledger", "rotate"]).worked();
    server.call("echo", &json!({"text": "by another key"}));
    let grown = server.client(&["ledger", "consistency", &path, "--json"]).worked().json();
    assert!(grown["to"]["size"].as_u64() > grown["from"]["size"].as_u64(), "{grown}");
    // That of another log, whose name and key are others.
    let other = Place::new();
    let stranger = other.serve().client(&["ledger", "checkpoint"]).worked().stdout;
    fs::write(&file, stranger).expect("a file");
    server.client(&["ledger", "consistency", &path]).failed(1, &["does not hold", "checkpoint"]);
    fs::write(&file, kept.replacen("ringfence/", "ringfence/x", 1)).expect("a file");
    server.client(&["ledger", "consistency", &path]).failed(1, &["does not hold"]);
    fs::write(&file, "no checkpoint").expect("a file");
    server.client(&["ledger", "consistency", &path]).failed(2, &["not a checkpoint of a log"]);
}

#[test]
fn a_proof_tells_in_words_what_ran_and_who_approved_it() {
    let place = Place::new();
    let handler = "def run(text):\n    return {'sent': text}\n";
    skill(&place.skills(), "send_note", "side_effect", handler);
    let server = place.serve();
    let id = server.call("send_note", &json!({"text": "hello"}))["id"].clone();
    let id = id.as_str().expect("an id");
    let key = ["key", "create", "boss", "--scope", "approve", "--person", "ann@ours.example"];
    let boss = server.client(&key).worked().stdout;
    let approve = ["approve", id, "--yes", "--edit", "text=hi", "--data", &server.data];
    ran(command(&approve).env("RINGFENCE_KEY", boss.trim())).worked();
    until("the call to end", || {
        server.ask("GET", &format!("/v1/calls/{id}"), None).json()["state"] == "finished"
    });
    let file = shown(&place.path("proof.json"));
    server.client(&["export", id, "--artifacts", "-o", &file]).worked();
    let told = ran(&mut command(&["verify", &file])).worked().stdout;
    for words in [
        "decision  send_note hold",
        "resolution  send_note approve by ann@ours.example",
        "resolution  send_note edit by ann@ours.example",
        "approval  send_note given by ann@ours.example",
        "call  send_note finished",
        // Both versions of the arguments, and the result.
        "artifacts   3, each with its digest",
    ] {
        assert!(told.contains(words), "no `{words}` in {told}");
    }
}
