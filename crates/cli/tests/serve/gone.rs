//! Files of the database deleted under a running server: calls are refused from then on, and nothing
//! that was acknowledged is lost.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Mutex,
};

use serde_json::{Value, json};

use crate::{
    support::{Place, Server, command, ran, shown, until},
    wire,
};

/// Clients at one time.
const CLIENTS: usize = 4;
/// Acknowledged calls before the file is deleted.
const MIN_CALLS: usize = 40;

/// Makes calls until the server refuses them, and deletes `path` meanwhile. Gives the ids of those that
/// were acknowledged.
fn acknowledged(server: &Server, path: &Path) -> Vec<String> {
    let ids = Mutex::new(Vec::new());
    let count = || ids.lock().expect("no client has panicked").len();
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while let Ok(call) = echo(server) {
                    let id = call["id"].as_str().expect("an id").to_owned();
                    ids.lock().expect("no client has panicked").push(id);
                }
            });
        }
        until("calls are acknowledged", || count() >= MIN_CALLS);
        fs::remove_file(path).expect("it is there");
    });
    ids.into_inner().expect("no client has panicked")
}

/// A call that is acknowledged, or the code of the refusal.
fn echo(server: &Server) -> Result<Value, String> {
    let body = json!({"tool": "echo", "args": {"text": "x".repeat(500)}});
    let answer = server.ask("POST", "/v1/calls", Some(&body));
    match answer.status {
        200 => Ok(answer.json()),
        status => {
            let code = answer.json()["code"].as_str().unwrap_or_default().to_owned();
            assert_eq!((status, code.as_str()), (503, "store_gone"), "{answer:?}");
            Err(code)
        }
    }
}

/// Health of the server, again and again.
fn check_refusing(place: &Place, server: &Server, ids: &[String]) {
    let ready = server.ask("GET", "/readyz", None);
    assert_eq!((ready.status, &ready.json()["status"]), (503, &json!("store_gone")), "{ready:?}");
    assert_eq!(server.ask("GET", "/livez", None).status, 200, "it lives on");
    for _ in 0..20 {
        echo(server).expect_err("refused for good");
    }
    assert_eq!(server.ask("GET", &format!("/v1/calls/{}", ids[0]), None).status, 200, "it reads");
    let log = fs::read_to_string(place.path("log")).expect("a log");
    assert_eq!(log.matches("the database was changed under the server").count(), 1, "{log}");
}

/// Every call that was acknowledged is on record, and the ledger holds.
fn check_kept(place: &Place, server: Server, ids: &[String]) {
    for id in ids {
        let call = server.ask("GET", &format!("/v1/calls/{id}"), None);
        assert_eq!((call.status, &call.json()["state"]), (200, &json!("finished")), "{call:?}");
    }
    echo(&server).expect("calls are taken again");
    assert_eq!(server.stop(), Some(0));
    ran(&mut command(&["verify", "--log", "--data", &shown(&place.data())])).worked();
}

/// As after any crash: the next server finds everything in the database.
fn restarts_after_losing(name: &str) {
    let place = Place::new();
    let server = place.serve();
    let ids = acknowledged(&server, &place.data().join(name));
    check_refusing(&place, &server, &ids);
    server.kill();
    check_kept(&place, place.serve(), &ids);
}

#[test]
fn a_deleted_log_stops_calls_and_loses_none() {
    restarts_after_losing("ringfence.db-wal");
}

#[test]
fn a_deleted_lock_file_stops_calls_and_loses_none() {
    restarts_after_losing("ringfence.db.lock");
}

/// The files are still there for as long as the server runs, as the log says and the guide describes.
#[test]
fn a_deleted_database_stops_calls_and_can_be_copied_from_the_server() {
    let place = Place::new();
    let server = place.serve();
    let ids = acknowledged(&server, &place.data().join("ringfence.db"));
    check_refusing(&place, &server, &ids);
    let other = Place::new();
    copy(&place.data(), &other.data());
    for name in ["ringfence.db", "ringfence.db-wal"] {
        fs::copy(held(server.pid(), name), other.data().join(name)).expect("a copy");
    }
    server.kill();
    check_kept(&other, other.serve(), &ids);
}

/// A file that a process has open, by the name that it had.
fn held(pid: u32, name: &str) -> PathBuf {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).expect("its descriptors");
    let is_it = |path: &PathBuf| {
        let target = fs::read_link(path).unwrap_or_default();
        let target = target.to_string_lossy().into_owned();
        target.trim_end_matches(" (deleted)").ends_with(&format!("/{name}"))
    };
    entries.map(|entry| entry.expect("an entry").path()).find(is_it).expect("it is open")
}

/// Everything but the files of the database.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            copy(&path, &to.join(name));
        } else if !name.to_string_lossy().starts_with("ringfence.db") {
            fs::copy(&path, to.join(name)).expect("a copy");
        }
    }
}

/// Control: without a change of the files nothing is refused.
#[test]
fn a_server_whose_files_are_left_alone_takes_calls() {
    let place = Place::new();
    let server = place.serve();
    fs::write(place.data().join("another-file"), "").expect("a file");
    let ids: Vec<_> = (0..MIN_CALLS)
        .map(|_| echo(&server).expect("taken")["id"].as_str().expect("an id").to_owned())
        .collect();
    let ready = wire::ask(&server.address, "GET", "/readyz", &[], None).expect("an answer");
    assert_eq!(ready.status, 200);
    check_kept(&place, server, &ids);
}
