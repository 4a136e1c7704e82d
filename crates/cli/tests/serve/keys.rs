//! Who may come in.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::{
    support::{Place, command, ran},
    wire,
};

#[test]
fn the_first_start_shows_the_key_once_and_keeps_it_for_its_owner() {
    let place = Place::new();
    let server = place.serve();
    assert_eq!(server.banner["admin_key"], Value::from(server.key.clone()));
    assert!(server.key.starts_with("rf_"), "{}", server.key);
    let file = place.data().join("admin.key");
    let mode = std::fs::metadata(file).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    let mode = std::fs::metadata(place.data()).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o700);
    let key = server.key.clone();
    assert_eq!(server.stop(), Some(0));

    let again = place.serve();
    assert_eq!(again.banner["admin_key"], Value::Null);
    assert_eq!(again.key, key);
    assert_eq!(again.call("echo", &serde_json::json!({"text": "x"}))["state"], "finished");
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
