//! A name server that never answers: fetches wait for it, and nothing else does.

use std::{fs, net::UdpSocket, os::unix::fs::PermissionsExt as _, path::PathBuf};

use serde_json::{Value, json};

use crate::{
    support::{BINARY, Place, Server, shown, until},
    wire,
};

/// Tenants with hanging lookups, each with as many as one tenant may have. Together more than the 16
/// threads on which all other blocking work of the server is done.
const TENANTS: [&str; 3] = ["one", "two", "three"];
const PER_TENANT: usize = 8;

/// A binary that runs the server in a mount namespace with its own `/etc/resolv.conf`.
fn with_name_server(place: &Place, address: &str) -> PathBuf {
    let (config, script) = (place.path("resolv.conf"), place.path("serve-here"));
    let text = format!("nameserver {address}\noptions timeout:30 attempts:5\n");
    fs::write(&config, text).expect("a file");
    let text = format!(
        "#!/bin/sh\nexec unshare --mount sh -c \
         'mount --bind {} /etc/resolv.conf && exec {BINARY} \"$@\"' sh \"$@\"\n",
        shown(&config)
    );
    fs::write(&script, text).expect("a file");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).expect("a program");
    script
}

fn key(server: &Server, tenant: &str) -> String {
    let body = json!({"label": tenant, "tenant": tenant, "scopes": ["call", "read"]});
    let made = server.ask("POST", "/v1/keys", Some(&body)).json();
    made["secret"].as_str().expect("a secret").to_owned()
}

fn call(server: &Server, key: &str, body: &Value) -> Value {
    let headers = [("authorization", format!("Bearer {key}"))];
    let answer = wire::ask(&server.address, "POST", "/v1/calls", &headers, Some(body));
    let answer = answer.expect("an answer");
    assert!(answer.status < 300, "{answer:?}");
    answer.json()
}

/// Lookups under way, by the names of their threads.
fn lookups(server: &Server) -> usize {
    let threads = fs::read_dir(format!("/proc/{}/task", server.pid())).expect("its threads");
    let names = threads.filter_map(|thread| {
        // A thread may end meanwhile.
        fs::read_to_string(thread.ok()?.path().join("comm")).ok()
    });
    names.filter(|name| name.trim() == "name-lookup").count()
}

/// Answers everything that was asked: there are no such names. What is asked later is refused by the
/// kernel.
fn answer(silent: UdpSocket) {
    silent.set_nonblocking(true).expect("a socket");
    let mut question = [0; 512];
    while let Ok((length, to)) = silent.recv_from(&mut question) {
        question[2] |= 0x80;
        question[3] = question[3] & 0xf0 | 3;
        silent.send_to(&question[..length], to).expect("an answer");
    }
}

/// The lookups hang until the test lets go of them.
#[test]
fn a_name_server_that_never_answers_keeps_no_other_work_waiting() {
    let [.., b, c, d] = std::process::id().to_be_bytes();
    let address = format!("127.{}.{c}.{d}", 64 | b);
    let silent = UdpSocket::bind((address.as_str(), 53)).expect("a name server's port, as root");
    let place = Place::new();
    fs::create_dir(place.path("rules")).expect("a folder");
    let rules = "package ringfence\n\ndecision := {\"decision\": \"allow\"}\n";
    fs::write(place.path("rules").join("allow.rego"), rules).expect("a rule");
    let rules = shown(&place.path("rules"));
    let variables = [("RINGFENCE_POLICY", rules.as_str()), ("RINGFENCE_CALLS_RUNNING", "64")];
    let server = place.serve_as(&with_name_server(&place, &address), &variables);
    let folder = place.data().join("work/reader");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("note.txt"), "read").expect("a file");
    let (reader, mut fetches) = (key(&server, "reader"), Vec::new());
    for tenant in TENANTS {
        let key = key(&server, tenant);
        // One more than may be looked up: it waits for its tenant's others.
        for number in 0..=PER_TENANT {
            let url = format!("http://n{number}.{tenant}.test/");
            let args = json!({"url": url, "timeout": 50});
            let body = json!({"tool": "http_fetch", "args": args, "wait": 0});
            fetches.push((key.clone(), call(&server, &key, &body)));
        }
    }
    let hanging = TENANTS.len() * PER_TENANT;
    until("the lookups hang", || lookups(&server) == hanging);
    let read = json!({"tool": "file_read", "args": {"path": "note.txt"}, "wait": 60});
    let read = call(&server, &reader, &read);
    assert_eq!((&read["state"], &read["result"]["content"]), (&json!("finished"), &json!("read")));
    assert_eq!(lookups(&server), hanging, "all of them hang, and none more was begun");
    answer(silent);
    until("the lookups are over", || lookups(&server) == 0);
    for (key, made) in fetches {
        let headers = [("authorization", format!("Bearer {key}"))];
        let path = made["links"]["self"].as_str().expect("a path");
        let read = || wire::ask(&server.address, "GET", path, &headers, None).expect("it").json();
        until("the fetch has ended", || read()["state"] == "finished");
        let code = read()["error"]["code"].clone();
        let named = ["dns_timeout", "dns_busy", "dns_failed"].map(|code| json!(code));
        assert!(named.contains(&code), "{}", read());
    }
    assert_eq!(server.stop(), Some(0));
}
