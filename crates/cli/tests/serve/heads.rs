//! A ledger that was erased, put back or replaced: a server does not sign a second history, and says what
//! to do.

use std::{fs, path::Path, process::Stdio, time::Duration};

use serde_json::{Value, json};

use crate::{
    ledger::meddle,
    support::{Place, Ran, Server, command, ran, shown, until},
};

fn serve(data: &Path) -> Ran {
    ran(&mut command(&["serve", "--listen", "127.0.0.1:0", "--data", &shown(data)]))
}

fn on(data: &Path, args: &[&str]) -> Ran {
    ran(&mut command(&[args, &["--data", &shown(data)]].concat()))
}

fn echo(server: &Server) {
    server.call("echo", &json!({"text": "hi"}));
}

/// The number of entries that the head beside the key is over.
fn head_size(data: &Path) -> u64 {
    let note = fs::read_to_string(data.join("ledger.head")).unwrap_or_default();
    note.lines().nth(1).and_then(|size| size.parse().ok()).unwrap_or(0)
}

fn entries(data: &Path) -> u64 {
    let object = on(data, &["verify", "--log", "--json"]).worked().json();
    object["entries"].as_u64().expect("a number")
}

/// Files of the data directory that a backup would have.
fn copied(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a folder");
    for name in ["ringfence.db", "ledger.key", "ledger.head"] {
        fs::copy(from.join(name), to.join(name)).expect("a copy");
    }
}

/// Erases a ledger and leaves nothing that contradicts itself.
const ERASE: &str = "DELETE FROM ledger; DELETE FROM checkpoints; DELETE FROM tiles;";

#[test]
fn an_erased_ledger_is_not_followed_by_another_under_the_same_key() {
    let place = Place::new();
    let server = place.serve();
    echo(&server);
    server.stop();
    for index in 0..4 {
        let copy = place.path(&format!("copy-{index}"));
        copied(&place.data(), &copy);
        // By rows, and by the whole database; with the head, which an attacker may take away, and without.
        match index % 2 {
            0 => meddle(&copy, ERASE),
            _ => fs::remove_file(copy.join("ringfence.db")).expect("it was there"),
        }
        if index > 1 {
            fs::remove_file(copy.join("ledger.head")).expect("it was there");
        }
        let blob = copy.join("blobs/whole/kept");
        fs::create_dir_all(blob.parent().expect("a folder")).expect("a folder");
        fs::write(&blob, "evidence").expect("a file");
        let words = ["the ledger is empty, and it was not before", "ringfence ledger begin-anew"];
        serve(&copy).failed(2, &words);
        serve(&copy).failed(2, &words);
        assert!(blob.exists() || index % 2 == 0, "what is left stays");
        assert!(copy.join("ledger.key").exists(), "it is left as it was");
    }
    // The control: the same directory with its ledger.
    let copy = place.path("whole");
    copied(&place.data(), &copy);
    on(&copy, &["ledger", "begin-anew"]).failed(2, &["entries", "move the whole directory away"]);
    on(&copy, &["verify", "--log"]).worked();
}

#[test]
fn a_lost_ledger_begins_anew_under_a_new_key_and_says_so() {
    let place = Place::new();
    let server = place.serve();
    echo(&server);
    server.stop();
    let head = fs::read_to_string(place.data().join("ledger.head")).expect("a head");
    let old = on(&place.data(), &["verify", "--log", "--json"]).worked().json();
    meddle(&place.data(), ERASE);
    let begun = on(&place.data(), &["ledger", "begin-anew", "--json"]).worked().json();
    assert_ne!(begun["origin"], old["origin"], "another log");
    let before = begun["before"].as_str().expect("a folder").to_owned();
    assert!(
        Path::new(&before).join("ledger.key").exists()
            && Path::new(&before).join("ringfence.db").exists()
    );
    let server = place.serve();
    echo(&server);
    let lines = server.client(&["audit", "--kind", "maintenance", "--json"]).worked().stdout;
    let entry: Value = serde_json::from_str(&lines).expect("one line");
    assert!(lines.contains("began_anew") && entry["index"] == 1, "{lines}");
    let origin = head.lines().next().expect("a name");
    assert!(lines.contains(origin), "it names the log before: {lines}");
    server.stop();
    let new = on(&place.data(), &["verify", "--log", "--json"]).worked().json();
    assert_ne!(new["keyid"], old["keyid"], "another key");
    on(&place.data(), &["ledger", "begin-anew"]).failed(2, &["entries"]);
}

#[test]
fn a_first_start_that_is_killed_at_any_moment_is_followed_by_one_that_works() {
    for moment in [0, 2, 5, 10, 20, 30, 45, 60, 90, 140] {
        let place = Place::new();
        let data = shown(&place.data());
        let mut first = command(&["serve", "--listen", "127.0.0.1:0", "--data", &data]);
        let mut first =
            first.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        // The moment is the test's input, not a wait for anything.
        std::thread::sleep(Duration::from_millis(moment));
        first.kill().expect("it can be killed");
        first.wait().expect("it ends");
        let server = place.serve();
        echo(&server);
        server.stop();
        on(&place.data(), &["verify", "--log"]).worked();
    }
}

#[test]
fn a_first_key_that_no_commit_names_is_made_again_and_one_that_is_named_takes_its_place() {
    let place = Place::new();
    fs::create_dir(place.data()).expect("a folder");
    // As a crash before the first commit leaves it.
    place.serve().stop();
    let key = fs::read(place.data().join("ledger.key")).expect("a key");
    for name in ["ringfence.db", "ledger.head", "ledger.key"] {
        fs::remove_file(place.data().join(name)).expect("it was there");
    }
    fs::write(place.data().join("ledger.next.key"), &key).expect("a file");
    use std::os::unix::fs::PermissionsExt as _;
    let only_ours = fs::Permissions::from_mode(0o600);
    fs::set_permissions(place.data().join("ledger.next.key"), only_ours).expect("a change");
    place.serve().stop();
    let made = fs::read(place.data().join("ledger.key")).expect("a key");
    assert_ne!(made, key, "nothing was signed by the other");
    // As a crash after the first commit leaves it.
    fs::rename(place.data().join("ledger.key"), place.data().join("ledger.next.key"))
        .expect("moved");
    place.serve().stop();
    assert_eq!(fs::read(place.data().join("ledger.key")).expect("a key"), made);
    on(&place.data(), &["verify", "--log"]).worked();
}

#[test]
fn the_head_follows_the_log_also_after_a_kill() {
    let place = Place::new();
    let elsewhere = place.path("elsewhere.txt");
    let server = place.serve_with(&[("RINGFENCE_LEDGER_HEAD_PATH", &shown(&elsewhere))]);
    let before = head_size(&place.data());
    echo(&server);
    until("the head follows", || head_size(&place.data()) > before && elsewhere.exists());
    server.kill();
    assert!(head_size(&place.data()) <= entries(&place.data()), "never ahead");
    place.serve().stop();
    assert_eq!(head_size(&place.data()), entries(&place.data()), "a good end leaves nothing out");
    // One that is missing is made again, and told.
    fs::remove_file(place.data().join("ledger.head")).expect("it was there");
    place.serve().stop();
    let log = fs::read_to_string(place.path("log")).expect("a log");
    assert!(log.contains("there is no newest checkpoint beside the key"), "{log}");
    assert_eq!(head_size(&place.data()), entries(&place.data()));
}

#[test]
fn an_older_database_that_is_put_back_is_noticed_and_accepted_only_on_record() {
    let place = Place::new();
    let server = place.serve();
    let made =
        server.client(&["key", "create", "agent", "--scope", "call", "--json"]).worked().json();
    server.stop();
    let backup = place.path("backup.db");
    fs::copy(place.data().join("ringfence.db"), &backup).expect("a copy");
    let server = place.serve();
    server.client(&["key", "revoke", made["key_id"].as_str().expect("an id")]).worked();
    server.stop();
    let newest = fs::read(place.data().join("ringfence.db")).expect("the database");
    let kept = fs::read_to_string(place.data().join("ledger.head")).expect("a head");
    fs::copy(&backup, place.data().join("ringfence.db")).expect("a copy");
    let words = [
        "not a continuation of its newest checkpoint",
        "an older database was put back",
        "keys that were revoked",
        "ringfence ledger accept-rollback",
    ];
    serve(&place.data()).failed(2, &words);
    on(&place.data(), &["verify", "--log"]).failed(1, &["missing; there are only"]);
    // The control: the newest one is taken.
    let copy = place.path("newest");
    copied(&place.data(), &copy);
    fs::write(copy.join("ringfence.db"), &newest).expect("a file");
    on(&copy, &["ledger", "accept-rollback"]).failed(2, &["nothing to accept"]);
    on(&copy, &["verify", "--log"]).worked();

    on(&place.data(), &["ledger", "accept-rollback"]).worked();
    let server = place.serve();
    let lines = server.client(&["audit", "--kind", "maintenance", "--json"]).worked().stdout;
    let root = kept.lines().nth(2).expect("a root");
    assert!(lines.contains("rollback_accepted") && lines.contains(root), "{lines}");
    // Another history, longer than the one that was given up.
    (0..5).for_each(|_| echo(&server));
    server.stop();
    on(&place.data(), &["verify", "--log"]).worked();
    fs::write(place.data().join("ledger.head"), kept).expect("a file");
    serve(&place.data()).failed(2, &["not those that", "rewritten", "accept-rollback"]);
}

#[test]
fn a_head_that_no_key_of_this_log_signed_is_named() {
    let place = Place::new();
    place.serve().stop();
    let head = place.data().join("ledger.head");
    let note = fs::read_to_string(&head).expect("a head");
    let other = Place::new();
    other.serve().stop();
    let foreign = fs::read_to_string(other.data().join("ledger.head")).expect("a head");
    let size = head_size(&place.data());
    let lower = note.replacen(&format!("\n{size}\n"), &format!("\n{}\n", size - 1), 1);
    assert_ne!(lower, note);
    for (text, words) in [
        (foreign.as_str(), "no key of this log has signed it"),
        (lower.as_str(), "no key of this log has signed it"),
        ("", "not a checkpoint of a log"),
        ("some text\n", "not a checkpoint of a log"),
    ] {
        fs::write(&head, text).expect("a file");
        serve(&place.data()).failed(2, &["ledger.head", words, "hint: "]);
    }
    fs::write(&head, note).expect("a file");
    place.serve().stop();
}

#[test]
fn a_head_at_a_url_is_stored_compared_and_delays_no_call() {
    let (url, kept) = keeper();
    let place = Place::new();
    let settings = [("RINGFENCE_LEDGER_HEAD_URL", url.as_str())];
    let server = place.serve_with(&settings);
    echo(&server);
    server.stop();
    let local = fs::read_to_string(place.data().join("ledger.head")).expect("a head");
    assert_eq!(*kept.lock().expect("it lives"), local);
    // Erased with everything in the directory that says so.
    for name in ["ringfence.db", "ledger.head", "ledger.key"] {
        fs::remove_file(place.data().join(name)).expect("it was there");
    }
    let data = shown(&place.data());
    let refused = ran(command(&["serve", "--listen", "127.0.0.1:0", "--data", &data])
        .envs(settings.iter().copied()));
    refused.failed(2, &["the ledger is empty, and it was not before"]);
    // The control, and a URL without a server: reported and counted.
    let place = Place::new();
    let server = place.serve_with(&[("RINGFENCE_LEDGER_HEAD_URL", "http://127.0.0.1:1/head")]);
    echo(&server);
    until("it is counted", || {
        let text = server.ask("GET", "/metrics", None).body;
        text.lines().any(|line| {
            line.strip_prefix("ringfence_ledger_head_failures_total ")
                .is_some_and(|count| count != "0")
        })
    });
    server.stop();
}

/// Keeps what is put to it, and gives it back.
fn keeper() -> (String, std::sync::Arc<std::sync::Mutex<String>>) {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/head", listener.local_addr().expect("an address"));
    let kept = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let shared = kept.clone();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let mut reader = BufReader::new(stream);
            let (mut line, mut length, mut method) = (String::new(), 0, String::new());
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                let lower = line.to_ascii_lowercase();
                if let Some(value) = lower.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap_or(0);
                }
                if method.is_empty() {
                    method = line.split(' ').next().unwrap_or_default().to_owned();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            let _ = reader.read_exact(&mut body);
            let mut held = shared.lock().expect("it lives");
            if method == "PUT" {
                *held = String::from_utf8(body).unwrap_or_default();
            }
            let (status, text) = match (method.as_str(), held.is_empty()) {
                ("PUT", _) => ("204 No Content", String::new()),
                (_, true) => ("404 Not Found", String::new()),
                _ => ("200 OK", held.clone()),
            };
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                text.len()
            );
            let _ = reader.get_mut().write_all(format!("{head}{text}").as_bytes());
        }
    });
    (url, kept)
}
