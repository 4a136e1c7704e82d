//! Every limit has its typed outcome, evidence and hint. As root, with cgroups.

use serde_json::Value;

use crate::support::{json, ringfence};

/// Runs something that must meet the limit, and looks at what is told about it.
fn check(limit: &str, flag: &str, args: &[&str]) {
    let (code, object) = json(args);
    let hit = &object["limit"];
    assert_eq!(object["outcome"], "over_limit", "{limit}: {object}");
    assert_eq!(hit["limit"], limit, "{object}");
    assert_eq!(code, Some(if limit == "wall" { 124 } else { 1 }), "{limit}");
    let hint = hit["hint"].as_str().expect("a hint");
    assert!(hint.contains(flag), "{hint}");
    let evidence = hit["evidence"].as_array().expect("evidence");
    assert!(!evidence.is_empty(), "{limit} has no evidence");
    assert!(evidence.iter().all(|item| item["source"].is_string() && item["value"].is_string()));
}

#[test]
fn wall() {
    check("wall", "--timeout", &["--timeout", "300ms", "--", "sleep", "60"]);
}

#[test]
fn cpu_time() {
    let spin = "while True: pass";
    check("cpu_time", "--cpu-time", &["--cpu-time", "500ms", "-c", spin]);
}

#[test]
fn memory() {
    check("memory", "--memory", &["--memory", "64M", "-c", "x = bytearray(10**9)"]);
}

#[test]
fn processes() {
    let code =
        "import os\nwhile True:\n    if os.fork() == 0:\n        import time; time.sleep(60)";
    check("processes", "--pids", &["--pids", "16", "-c", code]);
}

#[test]
fn disk() {
    let code = "open('big', 'wb').write(b'x' * (64 << 20))";
    check("disk", "--disk", &["--disk", "1M", "-c", code]);
}

#[test]
fn inodes() {
    let code = "for n in range(10_000): open(f'f{n}', 'w')";
    check("inodes", "--inodes", &["--inodes", "64", "-c", code]);
}

#[test]
fn open_files() {
    let code = "import os\nfds = [os.open('/dev/null', 0) for _ in range(10_000)]";
    check(
        "open_files",
        "--open-files",
        &["--open-files", "32", "--isolation", "zygote", "-c", code],
    );
}

#[test]
fn open_files_of_javascript_in_a_cold_sandbox() {
    let code = "const fs = require('fs'); for (;;) fs.openSync('/dev/null')";
    let args = ["--open-files", "32", "--lang", "javascript", "-c", code];
    check("open_files", "--open-files", &args);
}

/// Refused descriptors are not counted: without a driver only the program's own output shows them.
#[test]
fn open_files_without_a_driver_are_hinted_at_and_never_proven() {
    let code = "import os\nfds = [os.open('/dev/null', 0) for _ in range(10_000)]";
    let lie = ["--", "sh", "-c", "echo 'Too many open files' >&2; exit 1"];
    for args in [&["--open-files", "32", "-c", code][..], &lie] {
        let (exit, object) = json(args);
        assert_eq!((exit, &object["outcome"]), (Some(1), &"exited".into()), "{object}");
        assert_eq!(object["limit"], Value::Null);
        assert_eq!(object["hints"][0]["limit"], "open_files", "{object}");
        let hint = object["hints"][0]["hint"].as_str().expect("a hint");
        assert!(hint.contains("raise --open-files"), "{hint}");
    }
    let (_, object) = json(&["--", "sh", "-c", "echo 'Too many open files' >&2"]);
    assert_eq!(object["hints"], serde_json::json!([]), "it ended well");
    let ran = ringfence(&["run", "--open-files", "32", "-c", code]);
    ran.failed(1, &["hint: the program's output mentions `too many open files`"]);
}

#[test]
fn output() {
    check("output", "--output-total", &["--output-total", "1M", "--", "yes"]);
}

#[test]
fn a_program_that_stays_within_its_limits_met_none() {
    let (code, object) = json(&["--memory", "64M", "--pids", "8", "-c", "print(1)"]);
    assert_eq!((code, &object["limit"]), (Some(0), &Value::Null));
}

#[test]
fn a_limit_is_explained_on_standard_error() {
    let ran = ringfence(&["run", "--memory", "64M", "-c", "x = bytearray(10**9)"]);
    ran.failed(
        1,
        &["error: the program reached its memory limit of 64 MiB", "hint: raise --memory"],
    );
}

#[test]
fn the_default_workspace_shrinks_with_the_memory_but_a_given_one_does_not() {
    ringfence(&["run", "--memory", "64M", "--", "true"]).said(0, "");
    let ran = ringfence(&["run", "--memory", "64M", "--disk", "64M", "--", "true"]);
    ran.failed(2, &["--disk must be below memory"]);
}

#[test]
fn a_program_sees_its_share_of_processors() {
    let (_, object) =
        json(&["--cpu", "0.5", "-c", "import os; print(len(os.sched_getaffinity(0)))"]);
    assert_eq!(object["stdout"], "1\n");
}

#[test]
fn network_and_terminals_are_there_for_those_who_ask() {
    let listen = "import socket; socket.create_server(('127.0.0.1', 0)); print('up')";
    ringfence(&["run", "--network", "loopback", "-c", listen]).said(0, "up\n");
    let terminal = "import os; os.openpty(); print('open')";
    ringfence(&["run", "--terminals", "1", "-c", terminal]).said(0, "open\n");
    let (code, object) = json(&["-c", listen]);
    assert_eq!((code, &object["outcome"]), (Some(1), &"exited".into()), "{object}");
    assert_eq!(object["hints"][0]["limit"], "network", "{object}");
    let (_, object) = json(&["-c", "import pty; pty.openpty()"]);
    assert_eq!(object["hints"][0]["limit"], "terminals", "{object}");
    ringfence(&["run", "--network", "host", "--terminals", "99", "-c", "1"]).failed(
        2,
        &[
            "--network: `host` is not one of `none` and `loopback`",
            "--terminals must be at most 16",
        ],
    );
}
