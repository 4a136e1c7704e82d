//! Starting and ending.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    remains::{descendants, groups, helpers},
    support::{Place, Server, command, ran, shown, signal, until},
};

#[test]
fn what_others_can_reach_in_the_clear_is_refused() {
    let place = Place::new();
    let data = shown(&place.data());
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:7420"] {
        let ran = ran(&mut command(&["serve", "--data", &data, "--listen", address]));
        ran.failed(2, &["error: ", "TLS", "hint: ", "--tls-cert", "--insecure-allow-remote"]);
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
    // The address is still written down, and clients ignore it.
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

/// Starts a call of `code_execute` and waits until it runs; its path.
fn running_call(server: &Server, code: &str) -> String {
    let body = json!({"tool": "code_execute", "wait": 0, "args": {"code": code}});
    let made = server.ask("POST", "/v1/calls", Some(&body)).json();
    let path = format!("/v1/calls/{}", made["id"].as_str().expect("an id"));
    until("it runs", || server.ask("GET", &path, None).json()["state"] == "running");
    path
}

#[test]
fn while_calls_end_reads_are_answered_and_new_calls_refused() {
    let place = Place::new();
    let server = place.serve_with(&[("RINGFENCE_STOP_GRACE", "1h")]);
    let path = running_call(&server, "import time; time.sleep(600)");
    let pid = server.pid();
    signal(pid, Signal::TERM);
    // Such as a service manager that signals a whole group and then the main process.
    signal(pid, Signal::INT);
    let asked_at = Instant::now();
    until("it is not ready", || server.ask("GET", "/readyz", None).status == 503);
    let ready = server.ask("GET", "/readyz", None);
    assert_eq!(ready.json()["status"], "stopping");
    assert!(ready.head.contains("\nretry-after: "), "{}", ready.head);
    let echo = json!({"tool": "echo", "args": {"text": "x"}});
    let new_sandbox = json!({});
    for (path, body) in [("/v1/calls", &echo), ("/v1/sandboxes", &new_sandbox)] {
        let refused = server.ask("POST", path, Some(body));
        assert_eq!((refused.status, &refused.json()["code"]), (503, &json!("stopping")), "{path}");
        assert!(refused.head.contains("\nretry-after: "), "{}", refused.head);
    }
    // A signal within a second of the first was no second request: the call still runs after that.
    until("the second is over", || {
        assert_eq!(server.ask("GET", &path, None).json()["state"], "running");
        asked_at.elapsed() > Duration::from_secs(2)
    });
    assert_eq!(server.stop(), Some(128 + 15));
    until("its control groups are gone", || groups(pid).is_empty());
}

#[test]
fn a_client_that_waits_gets_its_result_although_the_server_was_told_to_stop() {
    let place = Place::new();
    let server = place.serve_with(&[("RINGFENCE_STOP_GRACE", "1h")]);
    let code = "code=import time; print('begun', flush=True); time.sleep(2); print('done')";
    let mut client = command(&["call", "code_execute", code, "--json", "--data", &server.data]);
    let client = client.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a client");
    until("it runs", || {
        let calls = server.ask("GET", "/v1/calls", None).json();
        calls["calls"].as_array().is_some_and(|calls| calls.iter().any(|c| c["state"] == "running"))
    });
    signal(server.pid(), Signal::TERM);
    let output = client.wait_with_output().expect("the client ends");
    let call: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!((output.status.code(), &call["state"]), (Some(0), &json!("finished")), "{call}");
    assert_eq!(call["result"]["stdout"], "begun\ndone\n", "{call}");
    server.gone();
}

#[test]
fn helpers_outlive_requests_to_end_that_are_for_the_server() {
    let place = Place::new();
    let server = place.serve();
    let path = running_call(&server, "import time; time.sleep(2); print('done')");
    let helpers: Vec<u32> = helpers(server.pid());
    // A spawner, a template, a zygote, and the first process of the call's sandbox.
    assert!(helpers.len() >= 4, "{helpers:?}");
    for request in [Signal::HUP, Signal::INT, Signal::TERM] {
        for helper in &helpers {
            signal(*helper, request);
        }
    }
    until("it ends", || server.ask("GET", &path, None).json()["state"] != "running");
    let call = server.ask("GET", &path, None).json();
    assert_eq!(call["result"]["stdout"], "done\n", "{call}");
    let alive = |helper: &u32| std::path::Path::new(&format!("/proc/{helper}")).exists();
    assert!(helpers.iter().filter(|helper| alive(helper)).count() >= 3, "{helpers:?}");
    // Programs are ended by the same signals as anywhere.
    let code = "import os, signal, subprocess\n\
                for s in (signal.SIGTERM, signal.SIGHUP):\n  \
                print(subprocess.run(['sh', '-c', f'kill -{int(s)} $$; sleep 9']).returncode)\n\
                try:\n  os.kill(os.getpid(), signal.SIGINT)\n\
                except KeyboardInterrupt:\n  print('interrupted')\n";
    let call = server.call("code_execute", &json!({"code": code}));
    assert_eq!(call["result"]["stdout"], "-15\n-1\ninterrupted\n", "{call}");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn the_server_is_ready_soon() {
    let place = Place::new();
    place.serve().stop();
    // The best of a few, for other tests run meanwhile; a debug build is the slower one.
    let ready = (0..5).map(|_| place.serve().ready).min().expect("a few");
    assert!(ready < Duration::from_millis(300), "{ready:?}");
}
