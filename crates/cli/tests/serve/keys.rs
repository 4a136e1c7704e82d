//! API keys.

use std::{
    io::{BufRead, BufReader, Read},
    os::unix::fs::PermissionsExt,
    process::Stdio,
};

use serde_json::Value;

use crate::{
    support::{Place, command, ran},
    wire,
};

#[test]
fn the_first_start_keeps_the_key_for_its_owner() {
    let place = Place::new();
    let server = place.serve();
    let file = place.data().join("admin.key");
    assert_eq!(server.banner["admin_key_file"], Value::from(file.to_str().unwrap()));
    assert!(server.key.starts_with("rf_"), "{}", server.key);
    let mode = std::fs::metadata(file).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    let mode = std::fs::metadata(place.data()).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o700);
    let key = server.key.clone();
    assert_eq!(server.stop(), Some(0));

    let again = place.serve();
    assert_eq!(again.key, key);
    assert_eq!(again.call("echo", &serde_json::json!({"text": "x"}))["state"], "finished");
}

/// Output of a first start without `--json` until it listens, and the key that it made.
fn first_words(format: &str) -> (String, String) {
    let place = Place::new();
    let data = place.data().to_str().expect("a path of text").to_owned();
    let args = ["serve", "--listen", "127.0.0.1:0", "--data", &data, "--log-format", format];
    let mut server = command(&args).stderr(Stdio::piped()).spawn().expect("a server");
    let mut words = String::new();
    let mut log = BufReader::new(server.stderr.take().expect("its log"));
    while !words.contains("listening") {
        assert_ne!(log.read_line(&mut words).expect("a line"), 0, "it ended: {words}");
    }
    let pid = rustix::process::Pid::from_child(&server);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("a process");
    log.read_to_string(&mut words).expect("the rest");
    assert!(server.wait().expect("its end").success(), "{words}");
    (words, std::fs::read_to_string(place.data().join("admin.key")).expect("a key"))
}

#[test]
fn without_a_terminal_the_log_says_where_the_key_is_and_never_the_key() {
    for format in ["text", "json"] {
        let (words, key) = first_words(format);
        assert!(key.starts_with("rf_"), "the control: it was made");
        assert!(!words.contains("rf_") && !words.contains(key.trim()), "{words}");
        let line = words.lines().find(|line| line.contains("listening")).unwrap();
        assert!(line.contains("http://127.0.0.1:") && line.contains("admin.key"), "{line}");
        let is_object = serde_json::from_str::<Value>(line).is_ok_and(|line| line.is_object());
        assert_eq!(is_object, format == "json", "{line}");
    }
}

#[test]
fn a_wrong_key_is_told_where_the_right_one_is() {
    let place = Place::new();
    let server = place.serve();
    let answer = wire::ask(&server.address, "GET", "/v1/calls", &[], None).unwrap();
    assert_eq!(answer.status, 401);
    let mut wrong = command(&["calls", "--data", &server.data]);
    ran(wrong.env("RINGFENCE_KEY", "rf_wrong")).failed(2, &["error: ", "hint: ", "admin.key"]);
    // The admin key of this directory is for this server alone.
    let url = format!("http://localhost:{}", server.address.rsplit(':').next().unwrap());
    let elsewhere = server.client(&["calls", "--url", &url]);
    elsewhere.failed(2, &["error: ", "hint: "]);
}

#[test]
fn a_key_is_made_listed_used_and_revoked() {
    let place = Place::new();
    let server = place.serve();
    let made = server.client(&["key", "create", "ci", "--scope", "read"]).worked();
    let secret = made.stdout.trim().to_owned();
    assert!(secret.starts_with("rf_"));
    let with = |args: &[&str]| {
        let mut args = args.to_vec();
        args.extend(["--data", &server.data]);
        ran(command(&args).env("RINGFENCE_KEY", &secret))
    };
    with(&["tools"]).worked();
    with(&["call", "echo", "--args", "{\"text\":\"x\"}"]).failed(2, &["hint: make a key that may"]);
    let listed = server.client(&["key", "list", "--json"]).worked();
    let keys: Vec<Value> =
        listed.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let id = keys.iter().find(|key| key["label"] == "ci").expect("it is listed")["key_id"].clone();
    assert!(!listed.stdout.contains(&secret));
    server.client(&["key", "revoke", id.as_str().unwrap()]).worked();
    with(&["tools"]).failed(2, &["hint: "]);
}
