//! Calls that are ended before they end.

use rustix::process::Signal;

use crate::{
    remains::descendants,
    support::{Place, command, signal, until},
};

const SLEEP: &str =
    "code=import os, time\nprint('up', flush=True)\nos.fork()\nos.fork()\ntime.sleep(600)";

#[test]
fn cancelling_a_call_leaves_no_process_of_it() {
    let place = Place::new();
    // Nothing is prepared ahead, so what descends from the server is the call's or the helpers'.
    let server = place.serve_with(&[("RINGFENCE_SANDBOX_POOL_LEAST", "0")]);
    server.client(&["call", "code_execute", "code=print(1)"]).worked();
    let made = server.client(&["call", "code_execute", SLEEP, "--no-wait"]).worked();
    let id = made.stdout.trim().to_owned();
    let printed = |id: &str| server.client(&["logs", id]).stdout;
    until("it runs", || printed(&id) == "up\n");
    let during = descendants(server.pid());
    server.client(&["cancel", &id]).worked();
    until("it is cancelled", || {
        server.ask("GET", &format!("/v1/calls/{id}"), None).json()["state"] == "cancelled"
    });
    let sleeping = |process: &&crate::remains::Process| process.lives();
    until("its processes are gone", || {
        // The four sleepers and their init at least.
        during.len() - during.iter().filter(sleeping).count() >= 5
    });
}

#[test]
fn a_call_that_finds_the_line_full_is_told_so_and_when_to_come_again() {
    let place = Place::new();
    let full = [("RINGFENCE_CALLS_RUNNING", "1"), ("RINGFENCE_CALLS_WAITING", "0")];
    let server = place.serve_with(&full);
    let made = server.client(&["call", "code_execute", SLEEP, "--no-wait"]).worked();
    let id = made.stdout.trim().to_owned();
    let body = serde_json::json!({"tool": "echo", "args": {"text": "one too many"}});
    let refused = server.ask("POST", "/v1/calls", Some(&body));
    assert_eq!((refused.status, &refused.json()["code"]), (429, &"too_many_calls".into()));
    assert!(refused.head.contains("\r\nretry-after: 1"), "{}", refused.head);
    server.client(&["cancel", &id]).worked();
    until("there is room", || server.ask("POST", "/v1/calls", Some(&body)).status == 200);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn an_interrupt_cancels_the_call_and_tells_so() {
    let place = Place::new();
    let server = place.serve();
    let mut client = command(&["call", "code_execute", SLEEP, "--data", &server.data]);
    let client = client
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the client starts");
    let running = || server.client(&["calls", "--state", "running", "--json"]).worked().stdout;
    until("it runs", || !running().is_empty());
    signal(client.id(), Signal::INT);
    let output = client.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    assert!(String::from_utf8_lossy(&output.stderr).contains("was cancelled"));
    until("nothing runs", || running().is_empty());
}
