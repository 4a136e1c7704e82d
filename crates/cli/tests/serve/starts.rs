//! Starting and ending.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::{
    remains::{descendants, groups},
    support::{Place, command, ran, shown, signal, until},
};

#[test]
fn what_others_can_reach_in_the_clear_is_refused() {
    let place = Place::new();
    let data = shown(&place.data());
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:7420"] {
        let ran = ran(&mut command(&["serve", "--data", &data, "--listen", address]));
        ran.failed(2, &["error: ", "TLS", "hint: ", "--insecure-allow-remote"]);
        assert_eq!(ran.stdout, "");
    }
    assert!(!place.data().exists(), "nothing was made");
    // The control: the same address when it was accepted.
    let server = place.serve_on("0.0.0.0:0", &[("RINGFENCE_INSECURE_ALLOW_REMOTE", "true")]);
    server.client(&["call", "echo", "text=x"]).worked();
}

#[test]
fn a_client_needs_no_certificates_to_speak_in_the_clear() {
    let place = Place::new();
    let server = place.serve();
    let client = |url: &str| {
        let mut client = command(&["call", "echo", "text=x", "--data", &server.data]);
        client.env("SSL_CERT_FILE", "/nonexistent").env("SSL_CERT_DIR", "/nonexistent");
        if !url.is_empty() {
            client.env("RINGFENCE_URL", url);
        }
        ran(&mut client)
    };
    client("").worked();
    // The control: a connection that needs certificates finds none.
    client("https://127.0.0.1:1").failed(2, &["certificates"]);
}

#[test]
fn one_data_directory_has_one_server() {
    let place = Place::new();
    let server = place.serve();
    let second = command(&["serve", "--data", &server.data, "--listen", "127.0.0.1:0"]).output();
    let second: crate::support::Ran = second.expect("the binary starts").into();
    second.failed(2, &["another server uses this data directory", "hint: "]);
    server.client(&["call", "echo", "text=still"]).worked();
}

#[test]
fn a_client_without_a_server_is_told_how_to_start_one() {
    let place = Place::new();
    let data = shown(&place.data());
    let alone = ran(&mut command(&["tools", "--data", &data]));
    alone.failed(2, &["no server runs", "hint: start one: ringfence serve --data"]);
    let server = place.serve();
    let address = server.address.clone();
    server.kill();
    // The address is still written down, and nobody believes it.
    assert!(place.data().join("server.json").exists());
    ran(&mut command(&["tools", "--data", &data])).failed(2, &["no server runs"]);
    let url = format!("http://{address}");
    let named = ran(&mut command(&["tools", "--data", &data, "--url", &url, "--json"]));
    named.failed(2, &["no server answers", "hint: start one"]);
    assert_eq!(named.json()["outcome"], "failed");
}

#[test]
fn a_request_to_stop_is_honoured_in_good_order() {
    let place = Place::new();
    let server = place.serve();
    let pid = server.pid();
    server.client(&["call", "code_execute", "code=print(1)"]).worked();
    let below = descendants(pid);
    assert!(!below.is_empty());
    assert_eq!(server.stop(), Some(0));
    assert!(!place.data().join("server.json").exists());
    until("its processes are gone", || below.iter().all(|process| !process.lives()));
    until("its control groups are gone", || groups(pid).is_empty());
}

#[test]
fn a_call_that_runs_is_waited_for_and_a_second_request_is_not() {
    let place = Place::new();
    let server = place.serve_with(&[("RINGFENCE_STOP_GRACE", "1h")]);
    let sleeping = json!({"tool": "code_execute", "wait": 0, "args": {"code": "import time; time.sleep(600)"}});
    let made = server.ask("POST", "/v1/calls", Some(&sleeping)).json();
    let path = format!("/v1/calls/{}", made["id"].as_str().expect("an id"));
    until("it runs", || server.ask("GET", &path, None).json()["state"] == "running");
    let pid = server.pid();
    signal(pid, Signal::TERM);
    until("it takes no more", || std::net::TcpStream::connect(&server.address).is_err());
    assert_eq!(server.stop(), Some(128 + 15));
    until("its control groups are gone", || groups(pid).is_empty());
}

#[test]
fn the_server_is_ready_soon() {
    let place = Place::new();
    place.serve().stop();
    // The best of a few, for other tests run meanwhile; a debug build is the slower one.
    let ready = (0..5).map(|_| place.serve().ready).min().expect("a few");
    assert!(ready < Duration::from_millis(300), "{ready:?}");
}
