//! A disk that is full: calls are refused at once and in words, nothing told is lost, and the server
//! goes on when there is room again.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::json;

use crate::support::{Place, Server, command, ran, shown, skill, until};

/// A small disk of its own, gone with this value.
struct Disk(PathBuf);

impl Disk {
    fn at(path: &Path) -> Self {
        std::fs::create_dir_all(path).expect("a directory to mount on");
        mount(path, "size=6m,mode=0700");
        Self(path.to_owned())
    }

    fn grow(&self) {
        mount(&self.0, "remount,size=64m");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        run("umount", &["--lazy", &self.0.display().to_string()]);
    }
}

fn mount(path: &Path, options: &str) {
    run("mount", &["-t", "tmpfs", "-o", options, "tmpfs", &path.display().to_string()]);
}

#[expect(clippy::disallowed_methods, reason = "the disk is the test's own")]
fn run(program: &str, args: &[&str]) {
    let status = Command::new(program).args(args).status();
    assert!(status.is_ok_and(|status| status.success()), "{program} {args:?}, which needs root");
}

fn echo(server: &Server, text: &str) -> crate::wire::Answer {
    server.ask("POST", "/v1/calls", Some(&json!({"tool": "echo", "args": {"text": text}})))
}

/// Calls that are made in vain.
const REFUSED: usize = 200;

/// Lines of the log with these words, and how many they stand for: the same line is written again after
/// a while only, and then says how often it was left out.
fn logged(place: &Place, words: &str) -> (usize, usize) {
    let log = std::fs::read_to_string(place.path("log")).unwrap_or_default();
    let lines: Vec<_> = log.lines().filter(|line| line.contains(words)).collect();
    let repeated = |line: &&str| {
        let (_, rest) = line.split_once(" repeated=")?;
        rest.split(' ').next()?.parse::<usize>().ok()
    };
    (lines.len(), lines.len() + lines.iter().filter_map(repeated).sum::<usize>())
}

#[test]
fn a_full_disk_refuses_calls_and_loses_none_that_were_told() {
    let place = Place::new();
    let disk = Disk::at(&place.data());
    // Without a reserve, so that it does become full.
    let server = place.serve_with(&[("RINGFENCE_LIMITS_DISK_RESERVE", "0")]);
    let large = "x".repeat(60_000);
    let mut told = Vec::new();
    let refused = loop {
        let answer = echo(&server, &large);
        match answer.status {
            200 => told.push(answer.json()["id"].as_str().expect("an id").to_owned()),
            _ => break answer,
        }
        assert!(told.len() < 1_000, "six megabytes never fill");
    };
    assert!(!told.is_empty(), "it never worked: {refused:?}");
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(refused.json()["code"], "store_unavailable");
    // Each refused call wrote a line, onto a disk that may be the same.
    for _ in 0..REFUSED {
        assert_eq!(echo(&server, &large).status, 503);
    }
    let lines = logged(&place, "a call is not recorded").0;
    assert!((1..REFUSED / 10).contains(&lines), "{lines} lines for {REFUSED} refused calls");
    let detail = refused.json()["detail"].as_str().expect("words").to_owned();
    assert!(detail.starts_with("the disk of the server is full"), "{detail}");
    assert_eq!(server.ask("GET", "/livez", None).status, 200, "it lives on");
    assert_eq!(server.ask("GET", "/v1/tools", None).status, 200, "and reads");
    disk.grow();
    until("calls are taken again", || echo(&server, "after").status == 200);
    let after = 1;
    for id in &told {
        let call = server.ask("GET", &format!("/v1/calls/{id}"), None).json();
        assert_eq!(call["state"], "finished", "{call}");
    }
    assert_eq!(server.stop(), Some(0));
    // What was told is on the ledger, and what was refused is not: a call that cannot be put on
    // record does not happen.
    let data = place.data().display().to_string();
    let log = ran(&mut command(&["verify", "--log", "--json", "--data", &data])).worked().json();
    assert_eq!(log["kinds"]["call"], told.len() as u64 + after, "{log}");
}

/// The effect has happened and cannot be had twice, so its end waits for room, however long that takes.
#[test]
fn what_ran_while_the_disk_was_full_is_recorded_when_there_is_room() {
    let place = Place::new();
    let disk = Disk::at(&place.data());
    let handler = "import time\ndef run():\n    time.sleep(1)\n    return {'done': True}\n";
    skill(&place.skills(), "slow", "side_effect", handler);
    let rules = place.path("policy");
    std::fs::create_dir(&rules).expect("a folder");
    std::fs::write(rules.join("r.rego"), "package ringfence\ndecision := true\n").expect("a rule");
    let server = place.serve_with(&[("RINGFENCE_POLICY", &shown(&rules))]);
    let body = json!({"tool": "slow", "args": {}, "wait": 0});
    let call = server.ask("POST", "/v1/calls", Some(&body)).json();
    let path = format!("/v1/calls/{}", call["id"].as_str().expect("an id"));
    until("it runs", || server.ask("GET", &path, None).json()["state"] == "running");
    let filler = place.data().join("filler");
    // Ends with an error, when nothing more fits.
    let _ = std::fs::write(&filler, vec![0; 16 << 20]);
    let tries = || logged(&place, "what became of a call is not recorded yet").1;
    until("it says so", || {
        let ready = server.ask("GET", "/readyz", None);
        ready.status == 503 && ready.json()["status"] == "store_unavailable"
    });
    until("its end was tried often", || tries() > 5);
    assert_eq!(server.ask("GET", &path, None).json()["state"], "running");
    std::fs::remove_file(&filler).expect("room");
    disk.grow();
    until("its end is on record", || server.ask("GET", &path, None).json()["state"] == "finished");
    assert_eq!(server.ask("GET", &path, None).json()["result"], json!({"done": true}));
    until("it is ready again", || server.ask("GET", "/readyz", None).status == 200);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn little_space_is_told_before_the_disk_is_full_and_reading_goes_on() {
    let place = Place::new();
    let disk = Disk::at(&place.data());
    let server = place.serve_with(&[("RINGFENCE_LIMITS_DISK_RESERVE", "3M")]);
    let large = "x".repeat(60_000);
    let mut told = Vec::new();
    let refused = loop {
        let answer = echo(&server, &large);
        match answer.status {
            200 => told.push(answer.json()["id"].as_str().expect("an id").to_owned()),
            _ => break answer,
        }
        assert!(told.len() < 1_000, "the reserve is never reached");
    };
    assert!(!told.is_empty(), "it never worked: {refused:?}");
    assert_eq!((refused.status, &refused.json()["code"]), (503, &json!("storage_low")));
    let ready = server.ask("GET", "/readyz", None);
    assert_eq!((ready.status, &ready.json()["status"]), (503, &json!("storage_low")));
    for id in &told {
        let call = server.ask("GET", &format!("/v1/calls/{id}"), None).json();
        assert_eq!(call["state"], "finished", "{call}");
    }
    disk.grow();
    until("calls are taken again", || echo(&server, "after").status == 200);
    until("it is ready again", || server.ask("GET", "/readyz", None).status == 200);
    assert_eq!(server.stop(), Some(0));
}
