//! Commands that a person reads: one call, lists, waiting; on a terminal and elsewhere.

use std::{fs::File, io::Read, os::fd::OwnedFd, process::Stdio};

use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use serde_json::{Value, json};

use crate::support::{Place, Server, command, until};

/// Makes a call that goes on by itself, and its id.
fn begun(server: &Server, code: &str) -> String {
    let made = server.client(&["call", "code_execute", &format!("code={code}"), "--no-wait"]);
    made.worked().stdout.trim().to_owned()
}

/// The id of a call that policy holds.
fn held(server: &Server) -> String {
    let call = server.call("http_fetch", &json!({"url": "https://example.com/"}));
    assert_eq!(call["state"], "held", "{call}");
    call["id"].as_str().expect("an id").to_owned()
}

fn short(id: &str) -> &str {
    &id[id.len() - 8..]
}

#[test]
fn show_tells_everything_about_a_call() {
    let place = Place::new();
    let server = place.serve();
    let made =
        server.call("code_execute", &json!({"code": "print(6*7)\nx = 12345678901234567890"}));
    let id = made["id"].as_str().expect("an id");
    let shown = server.client(&["show", short(id)]).worked().stdout;
    let receipt = server.ask("GET", &format!("/v1/calls/{id}/receipt"), None).json();
    let result = format!("result {}", receipt["result"].as_str().expect("a digest"));
    for part in [
        &format!("call       {id}\n"),
        "state      finished\n",
        "tool       code_execute ",
        "\"code\": \"print(6*7)\\nx = 12345678901234567890\"\n",
        "decision   allow by rego, policy sha256:",
        "rule none: the tool has no effect outside its sandbox\n",
        " accepted (",
        " finished (",
        "\"x\": 12345678901234567890\n",
        "output     stdout 3 B\n",
        " of 512 MiB\n",
        "processes 1 of 128\n",
        "layers     ",
        "seccomp",
        &result,
        made["trace_id"].as_str().expect("a trace"),
    ] {
        assert!(shown.contains(part), "no `{part}` in {shown}");
    }
    let shown = server.client(&["show", id, "--json"]).worked().json();
    assert_eq!((&shown["call"], &shown["receipt"]), (&made, &receipt));
    let kinds: Vec<_> = shown["events"].as_array().expect("a list").iter().collect();
    assert_eq!(kinds.first().map(|fact| &fact["type"]), Some(&json!("call.accepted")));
    assert_eq!(kinds.last().map(|fact| &fact["type"]), Some(&json!("call.finished")));
    server.client(&["show", "01a1ec2f-3bbe-7700-a549-ac7753d9790e"]).failed(2, &["error: "]);
}

#[test]
fn show_tells_why_a_call_waits_and_how_one_failed() {
    let place = Place::new();
    let server = place.serve();
    let waiting = server.client(&["show", &held(&server)]).worked().stdout;
    for part in ["state      held\n", "rule network_access: ", "approved by 0 of 1\n", "timeline\n"]
    {
        assert!(waiting.contains(part), "no `{part}` in {waiting}");
    }
    let failed = server.call("code_execute", &json!({"code": "{}['gone']"}));
    let id = failed["id"].as_str().expect("an id");
    let shown = server.client(&["show", id]).worked().stdout;
    for part in ["error      code_failed: ", "  KeyError: 'gone'\n", "output     stdout 0 B\n"] {
        assert!(shown.contains(part), "no `{part}` in {shown}");
    }
    assert!(!shown.contains("\nresult\n"), "{shown}");
}

#[test]
fn wait_ends_with_the_call_and_with_its_exit_code() {
    let place = Place::new();
    let server = place.serve();
    let good = begun(&server, "import time; time.sleep(0.3); print(42)");
    let waited = server.client(&["wait", short(&good)]).worked();
    assert_eq!(waited.json()["stdout"], "42\n");
    let waited = server.client(&["wait", &good, "--json"]).worked();
    assert_eq!(waited.json()["id"], json!(good), "a call that has ended is not waited for");
    let bad = begun(&server, "raise ValueError('no')");
    server.client(&["wait", &bad]).failed(1, &["code_failed", "ValueError: no"]);
    server.client(&["wait", &held(&server)]).failed(4, &["held: ", "network_access: "]);
    let endless = begun(&server, "import time; time.sleep(50)");
    let running =
        || server.ask("GET", &format!("/v1/calls/{endless}"), None).json()["state"] == "running";
    until("it runs", running);
    let waited = server.client(&["wait", &endless, "--timeout", "100ms"]);
    waited.failed(124, &["is still running", "hint: it goes on", "ringfence cancel "]);
    assert!(running(), "waiting changes nothing");
    server.client(&["wait", &endless, "--timeout", "soon"]).failed(2, &["--timeout", "`soon`"]);
    server.client(&["cancel", &endless]).worked();
    server.client(&["wait", &endless]).failed(1, &["cancelled"]);
}

#[test]
fn lists_show_short_ids_that_every_command_takes() {
    let place = Place::new();
    let server = place.serve();
    let call = server.call("code_execute", &json!({"code": "print(1)"}));
    let id = call["id"].as_str().expect("an id");
    let listed = server.client(&["calls", "--tool", "code_execute"]).worked().stdout;
    assert!(listed.contains(&format!("\n{}  finished ", short(id))), "{listed}");
    assert!(listed.contains(" s ago ") && !listed.contains(id), "{listed}");
    assert_eq!(server.client(&["logs", short(id)]).worked().stdout, "1\n");
    for command in [&["policy", "explain"][..], &["policy", "case"], &["replay"], &["export"]] {
        let by = |id: &str| server.client(&[command, &[id][..]].concat()).worked();
        // Proofs and replays are made anew each time; explanations and cases are the same text.
        let (by_short, by_whole) = (by(short(id)), by(id));
        if command[0] == "policy" {
            assert_eq!(by_short.stdout, by_whole.stdout);
        }
    }
    let audited = |id: &str| server.client(&["audit", "--call", id]).worked().stdout;
    assert_eq!(audited(short(id)), audited(id));
    let waits = held(&server);
    let holds = server.client(&["holds"]).worked().stdout;
    assert!(
        holds.contains(short(&waits)) && holds.contains("{\"url\":\"https://example.com/\"}"),
        "{holds}"
    );
    let shown = server.client(&["holds", short(&waits)]).worked().stdout;
    assert!(shown.contains(&waits), "the whole id: {shown}");
    let boss = server.client(&["key", "create", "boss", "--scope", "approve"]).worked();
    let mut deny = command(&["deny", short(&waits), "--data", &server.data]);
    crate::support::ran(deny.env("RINGFENCE_KEY", boss.stdout.trim())).failed(0, &["is denied"]);
    server.client(&["cancel", "00000000"]).failed(2, &["no call ends with `00000000`", "hint: "]);
    let keys = server.client(&["key", "list", "--json"]).worked().stdout;
    let key = keys.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let key = key.into_iter().find(|key| key["label"] == "boss").expect("the key");
    server.client(&["key", "revoke", short(key["key_id"].as_str().expect("an id"))]).worked();
    let listed = server.client(&["key", "list"]).worked().stdout;
    assert!(
        listed.lines().any(|line| line.contains("boss") && line.contains("revoked")),
        "{listed}"
    );
}

#[test]
fn a_short_id_needs_a_key_that_may_list() {
    let place = Place::new();
    let server = place.serve();
    let id = begun(&server, "print(1)");
    let key = server.client(&["key", "create", "agent", "--scope", "call"]).worked().stdout;
    let mut cancel = command(&["cancel", short(&id), "--data", &server.data]);
    crate::support::ran(cancel.env("RINGFENCE_KEY", key.trim())).failed(2, &["give the whole id"]);
    let mut cancel = command(&["cancel", &id, "--data", &server.data]);
    crate::support::ran(cancel.env("RINGFENCE_KEY", key.trim())).worked();
}

#[test]
fn calls_are_filtered_as_the_api_filters_them() {
    let place = Place::new();
    let server = place.serve();
    for session in ["one", "two"] {
        server.client(&["call", "echo", "text=x", "--session", session]).worked();
    }
    let listed = server.client(&["calls", "--session", "two", "--json"]).worked().json();
    assert_eq!(listed["session_id"], "two");
    server.client(&["calls", "--state", "gone"]).failed(2, &["state", "must be one of"]);
}

/// Output of a command on a terminal of that many columns.
fn on_terminal(server: &Server, args: &[&str], columns: u16, variables: &[(&str, &str)]) -> String {
    let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&screen).and_then(|()| unlockpt(&screen)).expect("a terminal");
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&screen, size).expect("a terminal");
    let name = ptsname(&screen, Vec::new()).expect("its name").into_string().expect("text");
    let end: OwnedFd = File::options().read(true).write(true).open(name).expect("its end").into();
    let mut command = command(args);
    command.args(["--data", &server.data]).envs(variables.iter().copied());
    let child = command.stdout(Stdio::from(end)).stderr(Stdio::null()).spawn();
    // It holds the other end, and a terminal is read to its end when that is closed everywhere.
    drop(command);
    let (mut screen, mut seen, mut buffer) = (File::from(screen), Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = screen.read(&mut buffer) {
        seen.extend_from_slice(&buffer[..count]);
    }
    assert!(child.expect("it runs").wait().expect("it ends").success(), "{args:?}");
    String::from_utf8(seen).expect("text").replace("\r\n", "\n")
}

#[test]
fn a_terminal_gets_colours_by_meaning_and_lines_of_its_width() {
    let place = Place::new();
    let server = place.serve();
    server.call("echo", &json!({"text": "x"}));
    server.call("code_execute", &json!({"code": "1/0"}));
    held(&server);
    let shown = on_terminal(&server, &["calls"], 80, &[]);
    for part in ["\x1b[33mheld\x1b[0m ", "\x1b[32mfinished\x1b[0m ", "\x1b[31mfinished\x1b[0m "] {
        assert!(shown.contains(part), "no {part:?} in {shown:?}");
    }
    for variables in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let shown = on_terminal(&server, &["calls"], 80, &[variables]);
        assert!(shown.contains("held") && !shown.contains('\x1b'), "{variables:?}: {shown:?}");
    }
    assert!(!server.client(&["calls"]).worked().stdout.contains('\x1b'), "a pipe is no terminal");
    for columns in [60, 130] {
        let shown = on_terminal(&server, &["tools"], columns, &[]);
        let longest = shown.lines().map(|line| line.chars().count()).max();
        assert_eq!(longest, Some(usize::from(columns)), "{shown}");
    }
}
