//! Exit codes are an interface: each one from a real end.

use std::{io::Read, process::Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{BINARY, Ran, command, json, processes_of, ringfence, scratch, until, write};

#[test]
fn the_program_s_own_code_is_ours() {
    for code in [0, 1, 2, 3, 77, 124, 255] {
        let script = format!("exit {code}");
        ringfence(&["run", "--", "sh", "-c", &script]).said(code, "");
    }
}

#[test]
fn a_signal_is_told_as_shells_do() {
    for signal in [9, 15, 11] {
        let script = format!("kill -{signal} $$");
        ringfence(&["run", "--", "sh", "-c", &script]).said(128 + signal, "");
    }
}

#[test]
fn an_exception_is_the_program_s_failure() {
    ringfence(&["run", "-c", "raise ValueError('no')"]).failed(1, &["ValueError: no"]);
}

#[test]
fn a_timeout_is_124_with_cause_and_hint() {
    let ran = ringfence(&["run", "--timeout", "300ms", "--", "sleep", "60"]);
    ran.failed(
        124,
        &["error: the program reached its wall limit of 300ms", "hint: raise --timeout"],
    );
}

#[test]
fn a_command_that_does_not_exist_is_our_failure() {
    let ran = ringfence(&["run", "--", "no-such-program"]);
    ran.failed(2, &["error: cannot start `no-such-program`: No such file", "must exist inside"]);
}

#[test]
fn a_file_that_is_no_program_is_told_with_what_it_lacks() {
    let start = |script: &str| ringfence(&["run", "--lang", "bash", "-c", script]);
    // The control: with everything a program needs, it runs.
    let made = "printf '%s\\n' '#!/bin/sh' 'echo ran' > f; chmod +x f; ./f";
    start(made).said(0, "ran\n");
    ringfence(&["run", "--", "/etc/passwd"]).failed(2, &["Permission denied", "chmod a+rx"]);
    let dir = scratch();
    let text = format!("{}:f", write(dir.path(), "f", "neither"));
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.path().join("f"), mode).expect("a mode");
    let ran = ringfence(&["run", "--file", &text, "--", "./f"]);
    ran.failed(2, &["cannot start `./f`: Exec format error", "neither a program"]);
}

#[test]
fn misuse_is_2_and_names_every_problem() {
    let ran = ringfence(&[
        "run",
        "--memory",
        "1",
        "--pids",
        "-3",
        "--timeout",
        "soon",
        "--env",
        "novalue",
        "--file",
        "/no/such/file:x",
        "--out",
        "../up:y",
        "--root",
        "/no/such/root",
        "--",
        "true",
    ]);
    ran.failed(
        2,
        &[
            "problems with the request",
            "--memory must be at least 8M",
            "--pids: `-3` is not a count",
            "--timeout: `soon` is not a duration",
            "--env `novalue`: is not of the form NAME=VALUE",
            "--file `/no/such/file`",
            "--out `../up:y`: path `../up` contains `..`",
            "--root `/no/such/root`",
        ],
    );
}

#[test]
fn nothing_to_run_says_what_could_be() {
    ringfence(&["run"]).failed(2, &["error: nothing to run", "hint: give code"]);
}

#[test]
fn an_unknown_flag_gets_a_suggestion() {
    let ran = ringfence(&["run", "--memmory", "1G", "--", "true"]);
    ran.failed(2, &["unexpected argument '--memmory'", "--memory"]);
}

#[test]
fn code_and_a_file_exclude_each_other() {
    ringfence(&["run", "-c", "1", "x.py"]).failed(2, &["cannot be used with"]);
}

/// Starts a program that says it runs, sends us a signal, and gives our exit code.
fn code_after(signal: Signal) -> (Option<i32>, String) {
    let mut child = command(BINARY)
        .args(["run", "--", "sh", "-c", "echo up; exec sleep 60"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut out = child.stdout.take().expect("a pipe");
    out.read_exact(&mut [0; 3]).expect("the program runs");
    kill_process(Pid::from_child(&child), signal).expect("it lives");
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("it ends");
    (child.wait().expect("it ends").code(), rest)
}

#[test]
fn being_told_to_end_ends_the_program_and_tells_by_whom() {
    assert_eq!(code_after(Signal::INT), (Some(130), String::new()));
    assert_eq!(code_after(Signal::TERM), (Some(143), String::new()));
}

#[test]
fn an_interrupted_program_still_has_its_whole_report() {
    let mut child = command(BINARY)
        .args(["run", "--json", "--", "sh", "-c", "echo up; cat; exec sleep 60"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    // The object comes at the end, so what shows that the program runs is its process.
    let shells = || processes_of("sh\0-c\0echo up; cat; exec sleep 60\0");
    until("the program runs", || shells() == 1);
    drop(child.stdin.take());
    until("it has echoed and is something else", || shells() == 0);
    kill_process(Pid::from_child(&child), Signal::INT).expect("it lives");
    let ran = Ran::from(child.wait_with_output().expect("it ends"));
    let object = ran.json();
    assert_eq!((ran.code, &object["outcome"]), (Some(130), &"cancelled".into()), "{object}");
    assert_eq!(object["stdout"], "up\n");
    assert!(object["usage"]["wall_secs"].as_f64().is_some_and(|secs| secs > 0.0), "{object}");
    assert!(object["usage"]["memory_peak_bytes"].as_u64().is_some_and(|most| most > 0), "{object}");
    assert!(object["timings"]["setup_secs"].as_f64().is_some_and(|secs| secs > 0.0), "{object}");
    assert!(object["layers"]["seccomp"]["active"].is_string(), "{object}");
    assert_eq!(object["isolation"], "cold");
}

#[test]
fn the_code_is_the_same_with_json() {
    assert_eq!(json(&["--", "sh", "-c", "exit 7"]).0, Some(7));
    assert_eq!(json(&["--timeout", "200ms", "--", "sleep", "60"]).0, Some(124));
    assert_eq!(json(&["--", "sh", "-c", "kill -9 $$"]).0, Some(137));
    let (code, object) = json(&["--", "no-such-program"]);
    assert_eq!((code, &object["outcome"]), (Some(2), &"failed".into()));
    assert!(object["error"]["message"].as_str().is_some_and(|text| text.contains("no-such")));
}
