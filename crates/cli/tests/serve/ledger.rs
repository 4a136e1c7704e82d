//! The ledger through the binary: what was acknowledged is proved, and what was changed is found.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
};

use ringfence_sqlite::{Connection, Db, Error, Options};
use ringfence_store::packed::{self, Unpacked};
use serde_json::{Value, json};

use crate::support::{Place, Ran, Server, command, ran, shown, until};

fn echo(server: &Server, text: &str) -> String {
    let call = server.call("echo", &json!({ "text": text }));
    call["id"].as_str().expect("an id").to_owned()
}

/// The offline command, in an environment that knows of no server.
fn verify(args: &[&str]) -> Ran {
    ran(&mut command(&[&["verify"], args].concat()))
}

fn log(data: &Path) -> Ran {
    verify(&["--log", "--json", "--data", &shown(data)])
}

/// Changes a database that no server has open.
pub(crate) fn meddle(data: &Path, sql: &'static str) {
    let db = Db::open(&data.join("ringfence.db"), &Options::default()).expect("the database");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let work =
        move |connection: &Connection| -> Result<(), Error> { Ok(connection.execute_batch(sql)?) };
    runtime.block_on(db.write(work)).expect("a change");
    db.close();
}

/// Changes to the data of a server, and the words that name them.
pub(crate) type Change<'a> = (&'a dyn Fn(&Path), &'a str);

/// The texts of one record of a call, to be changed.
#[derive(Debug)]
pub(crate) struct Texts {
    pub(crate) facts: String,
    pub(crate) entries: Vec<String>,
    pub(crate) decision: Option<(String, String)>,
    pub(crate) now: Option<String>,
    pub(crate) asked: Option<String>,
}

impl Texts {
    fn of(body: &[u8]) -> Self {
        let body = Unpacked::of(body).expect("a record");
        let texts = body.texts().expect("a record");
        let rest = texts.rest.expect("no record of these tests is large");
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Self {
            facts: texts.facts.to_owned(),
            entries: texts.entries.iter().map(|text| (*text).to_owned()).collect(),
            decision: rest.decision.map(|(said, input)| (said.to_owned(), input.to_owned())),
            now: owned(rest.now),
            asked: owned(rest.asked),
        }
    }

    fn pack(&self) -> Vec<u8> {
        let rest = packed::Rest {
            decision: self.decision.as_ref().map(|(said, input)| (said.as_str(), input.as_str())),
            now: self.now.as_deref(),
            asked: self.asked.as_deref(),
        };
        let entries = self.entries.iter().map(String::as_str).collect();
        packed::Texts { facts: &self.facts, entries, rest: Some(rest) }
            .pack()
            .expect("it packs")
            .body
    }
}

/// Puts one text in the place of another.
pub(crate) fn put(text: &mut Option<String>, from: &str, to: &str) {
    if let Some(text) = text {
        *text = text.replace(from, to);
    }
}

/// Changes the records of calls, also beside the server that has them open.
pub(crate) fn meddle_records(data: &Path, change: impl Fn(&mut Texts)) {
    let connection = Connection::open(data.join("ringfence.db")).expect("the database");
    connection.busy_timeout(std::time::Duration::from_secs(20)).expect("a setting");
    let mut statement = connection.prepare("SELECT position, body FROM records").expect("a query");
    let rows =
        statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?)));
    let rows: Vec<_> = rows.expect("rows").map(|row| row.expect("a row")).collect();
    let mut is_changed = false;
    for (position, body) in rows {
        let mut texts = Texts::of(&body);
        change(&mut texts);
        let changed = texts.pack();
        is_changed |= changed != body;
        let sql = "UPDATE records SET body = ?2 WHERE position = ?1";
        connection.execute(sql, (position, changed)).expect("a change");
    }
    assert!(is_changed, "there was nothing to change");
}

/// Changes the receipts of calls.
pub(crate) fn meddle_receipts(data: &Path) {
    meddle_records(data, |texts| {
        for entry in &mut texts.entries {
            *entry = entry.replace("\"state\":\"finished\"", "\"state\":\"cancelled\"");
        }
    });
}

/// Changes a database beside the server that has it open.
pub(crate) fn meddle_beside(data: &Path, sql: &str) {
    let connection = Connection::open(data.join("ringfence.db")).expect("the database");
    connection.busy_timeout(std::time::Duration::from_secs(20)).expect("a setting");
    connection.execute_batch(sql).expect("a change");
}

#[test]
fn an_exported_call_is_verified_by_its_file_alone_and_not_if_a_byte_is_another() {
    let place = Place::new();
    let server = place.serve();
    let id = echo(&server, "hi");
    let file = place.path("proof.json");
    let path = shown(&file);
    server.client(&["export", &id, "--artifacts", "-o", &path]).worked();
    server.stop();
    let told = verify(&[&path]).worked();
    assert!(told.stdout.contains(&format!("verified    call {id}")), "{told:?}");
    assert!(told.stderr.contains("hint: compare the key"), "{told:?}");
    let object = verify(&[&path, "--json"]).worked().json();
    assert_eq!((&object["outcome"], &object["artifacts"]), (&json!("verified"), &json!(2)));
    assert_eq!(object["entries"][0]["predicate"]["tool"]["name"], "echo");
    let key = object["keyid"].as_str().expect("a key id");
    verify(&[&path, "--key", key]).worked();
    verify(&[&path, "--key", &"0".repeat(64)]).failed(1, &["does not hold", "not signed by"]);

    let text = fs::read_to_string(&file).expect("the file");
    fs::write(&file, text.replacen("\"index\":", "\"index\":1", 1)).expect("a change");
    verify(&[&path]).failed(1, &["error: ", "does not hold", "entry "]);
    fs::write(&file, &text[..text.len() - 1]).expect("a change");
    verify(&[&path]).failed(1, &["file: reformatted"]);
    fs::write(&file, &text[..text.len() / 2]).expect("a change");
    verify(&[&path]).failed(1, &["file: cut off after "]);
    fs::write(&file, "a letter").expect("a change");
    verify(&[&path]).failed(2, &["cannot verify", "not a file that `ringfence export` wrote"]);
    verify(&["/nonexistent/file"]).failed(2, &["cannot read"]);
    // A condition that is not looked at would be taken for one that holds.
    for flag in [&["--checkpoint", "kept.txt"][..], &["--artifacts"]] {
        verify(&[&[path.as_str()], flag].concat()).failed(2, &["cannot be used with"]);
    }
    verify(&[]).failed(2, &["required"]);
}

#[test]
fn a_session_is_exported_whole() {
    let place = Place::new();
    let server = place.serve();
    for number in 0..3 {
        let body = json!({"tool": "echo", "args": {"text": number.to_string()}, "session_id": "s"});
        assert_eq!(server.ask("POST", "/v1/calls", Some(&body)).status, 200);
    }
    echo(&server, "of no session");
    let file = shown(&place.path("session.json"));
    server.client(&["export", "s", "-o", &file]).worked();
    let object = verify(&[&file, "--json"]).worked().json();
    assert_eq!(object["entries"].as_array().map(Vec::len), Some(3));
    server.client(&["export", "unknown"]).failed(2, &["error: "]);
}

#[test]
fn the_log_holds_beside_a_running_server_and_after_a_kill() {
    let place = Place::new();
    let server = place.serve();
    let first = echo(&server, "one");
    log(&place.data()).worked();
    let last = echo(&server, "two");
    // Between the commit of the call and its checkpoint, most likely; whenever it is, nothing is lost.
    server.kill();
    let killed = log(&place.data()).worked().json();
    assert_eq!(killed["kinds"]["call"], 2);
    let server = place.serve();
    server.stop();
    let object = log(&place.data()).worked().json();
    assert_eq!((&object["kinds"]["call"], &object["uncommitted"]), (&json!(2), &json!(0)));
    for id in [first, last] {
        let data = shown(&place.data());
        let object = verify(&["--call", &id, "--data", &data, "--json"]).worked().json();
        assert_eq!(object["entries"][0]["predicate"]["call"], id);
    }
}

#[test]
fn calls_of_a_killed_server_are_signed_by_the_next_when_a_proof_is_asked_for() {
    let place = Place::new();
    let server = place.serve();
    let ids: Vec<_> = (0..40).map(|number| echo(&server, &number.to_string())).collect();
    server.kill();
    let killed = log(&place.data()).worked().json();
    assert_eq!((&killed["kinds"]["call"], &killed["uncommitted"]), (&json!(40), &json!(0)));
    let server = place.serve();
    let file = shown(&place.path("proof.json"));
    server.client(&["export", &ids[39], "-o", &file]).worked();
    let object = verify(&[&file, "--json"]).worked().json();
    assert_eq!(object["entries"][0]["predicate"]["call"], json!(ids[39]));
    server.stop();
    // What is kept stands under the checkpoint; the signature went out with the file.
    let data = shown(&place.data());
    let object = verify(&["--call", &ids[0], "--data", &data, "--json"]).worked().json();
    assert_eq!(object["entries"][0]["signed"], false);
    assert_eq!(log(&place.data()).worked().json()["unsigned"], 40);
}

/// Entries that are added or changed in the database while no server runs are never signed.
#[test]
fn a_server_does_not_sign_entries_from_outside() {
    let place = Place::new();
    let server = place.serve();
    echo(&server, "one");
    server.stop();
    let serve = |data: &Path| {
        ran(&mut command(&["serve", "--listen", "127.0.0.1:0", "--data", &shown(data)]))
    };
    for (index, sql) in [
        "INSERT INTO ledger (kind, tenant, call, persona, tool, at, leaf, signer, record, part)
         SELECT kind, tenant, call, persona, tool, at, leaf, signer, record, part FROM ledger
         WHERE kind = 'call'",
        "DELETE FROM ledger WHERE position = (SELECT max(position) FROM ledger)",
        "UPDATE ledger SET leaf = zeroblob(32) WHERE kind = 'call'",
        "DELETE FROM checkpoints",
    ]
    .into_iter()
    .enumerate()
    {
        let copy = place.path(&format!("copy-{index}"));
        copied(&place.data(), &copy);
        meddle(&copy, sql);
        serve(&copy).failed(2, &["differs from its newest checkpoint"]);
    }
    // Not even what has no signature of its own.
    meddle_receipts(&place.data());
    serve(&place.data()).failed(2, &["does not match its hash"]);
}

fn copied(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a folder");
    for name in ["ringfence.db", "ledger.key"] {
        fs::copy(from.join(name), to.join(name)).expect("a copy");
    }
}

/// Changes to a database, and the words that name them.
type Meddling = (fn(&Path), &'static str);

const MEDDLING: [Meddling; 12] = [
    (
        |data| {
            meddle(
                data,
                "UPDATE ledger SET payload = replace(payload, 'echo', 'ecko')
                          WHERE kind = 'tool' AND tool = 'echo'",
            );
        },
        "the signature is not by the key",
    ),
    (
        |data| meddle(data, "UPDATE ledger SET signature = zeroblob(64) WHERE kind = 'tool'"),
        "the signature is not by",
    ),
    // Of what has a signature only when a proof is asked for.
    (
        |data| meddle(data, "UPDATE ledger SET signature = zeroblob(64) WHERE kind = 'call'"),
        "the signature is not by",
    ),
    (meddle_receipts, "its hash is not the one on record"),
    (|data| meddle(data, "UPDATE ledger SET signature = NULL WHERE position = 1"), "no signature"),
    (
        |data| meddle(data, "UPDATE ledger SET tenant = 'other' WHERE kind = 'call'"),
        "the columns beside it",
    ),
    (
        |data| meddle(data, "UPDATE ledger SET at = at + 1 WHERE kind = 'call'"),
        "the columns beside it",
    ),
    (
        |data| {
            meddle(
                data,
                "UPDATE ledger SET leaf = zeroblob(32) WHERE position =
                          (SELECT max(position) FROM ledger)",
            );
        },
        "its hash is not the one on record",
    ),
    (
        |data| {
            meddle(
                data,
                "DELETE FROM ledger WHERE position =
                          (SELECT max(position) - 1 FROM ledger)",
            );
        },
        "missing; entry ",
    ),
    (
        |data| {
            meddle(data, "DELETE FROM ledger WHERE position = (SELECT max(position) FROM ledger)");
        },
        "missing; there are only",
    ),
    (
        |data| {
            meddle(
                data,
                "UPDATE ledger SET position = -1
                          WHERE position = (SELECT max(position) FROM ledger);
                          UPDATE ledger SET position = position + 1
                          WHERE position = (SELECT max(position) FROM ledger);
                          UPDATE ledger SET position = (SELECT max(position) FROM ledger) - 1
                          WHERE position = -1",
            );
        },
        "not those under the checkpoint",
    ),
    (
        |data| {
            meddle(data, "UPDATE checkpoints SET note = replace(note, 'ringfence/', 'ringfense/')");
        },
        "of the log",
    ),
];

#[test]
fn whatever_is_done_to_the_database_is_found_and_named() {
    let place = Place::new();
    let server = place.serve();
    echo(&server, "one");
    echo(&server, "two");
    server.stop();
    log(&place.data()).worked();
    for (index, (change, words)) in MEDDLING.into_iter().enumerate() {
        let copy = place.path(&format!("copy-{index}"));
        fs::create_dir(&copy).expect("a folder");
        fs::copy(place.data().join("ringfence.db"), copy.join("ringfence.db")).expect("a copy");
        log(&copy).worked();
        change(&copy);
        log(&copy).failed(1, &["does not hold", words]);
    }
}

#[test]
fn a_new_key_takes_over_and_what_the_old_one_signed_still_holds() {
    let place = Place::new();
    let server = place.serve();
    let old = echo(&server, "by the first key");
    let file = shown(&place.path("old.json"));
    server.client(&["export", &old, "-o", &file]).worked();
    let kept = server.client(&["ledger", "checkpoint"]).worked().stdout;
    fs::write(place.path("kept.txt"), &kept).expect("a file");
    let data = shown(&place.data());
    let rotate = || ran(&mut command(&["ledger", "rotate", "--json", "--data", &data]));
    server.stop();
    let rotated = rotate().worked().json();
    let server = place.serve();
    let new = echo(&server, "by the second key");
    let ids = keys(&server);
    assert_eq!(ids, [rotated["replaces"].clone(), rotated["keyid"].clone()]);
    let both = shown(&place.path("both.json"));
    let (first, second) = (ids[0].as_str().expect("an id"), ids[1].as_str().expect("an id"));
    for (id, key, other) in [(&old, second, first), (&new, second, first)] {
        server.client(&["export", id, "-o", &both]).worked();
        verify(&[&both, "--key", key]).worked();
        verify(&[&both, "--key", other]).failed(1, &["not signed by"]);
    }
    verify(&[&file, "--key", first]).worked();
    server.stop();
    let older = shown(&place.path("kept.txt"));
    let log = ["--log", "--data", &data, "--checkpoint", &older];
    verify(&log).worked();
    fs::write(place.path("kept.txt"), kept.replacen("ringfence/", "ringfence/x", 1)).unwrap();
    verify(&log).failed(1, &["checkpoint over"]);
}

/// The keys that signed, by their ids.
fn keys(server: &Server) -> Vec<Value> {
    let listed = server.client(&["ledger", "keys", "--json"]).worked().stdout;
    let ids = listed.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    ids.map(|key| key["keyid"].clone()).collect()
}

#[test]
fn keys_take_over_while_calls_go_on() {
    let place = Place::new();
    let server = place.serve();
    let old = echo(&server, "by the first key");
    let file = shown(&place.path("old.json"));
    server.client(&["export", &old, "-o", &file]).worked();
    let (is_over, made) = (AtomicBool::new(false), AtomicUsize::new(0));
    let rotated: Vec<Value> = std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    let id = echo(&server, "meanwhile");
                    made.fetch_add(1, Relaxed);
                    let proof = server.ask("GET", &format!("/v1/calls/{id}/proof"), None);
                    assert_eq!(proof.status, 200, "{proof:?}");
                    ringfence_ledger::Bundle::verify(proof.body.as_bytes(), None)
                        .expect("it holds");
                }
            });
        }
        let rotated = (0..5).map(|_| {
            let before = made.load(Relaxed);
            until("calls go on", || made.load(Relaxed) > before + 4);
            server.client(&["ledger", "rotate", "--json"]).worked().json()
        });
        let rotated = rotated.collect();
        is_over.store(true, Relaxed);
        rotated
    });
    let ids = keys(&server);
    let after: Vec<_> = rotated.iter().map(|one| one["keyid"].clone()).collect();
    assert_eq!(ids[1..], after);
    assert!(rotated.windows(2).all(|pair| pair[1]["replaces"] == pair[0]["keyid"]), "{rotated:?}");
    let agent = server
        .client(&["key", "create", "agent", "--tenant", "acme", "--scope", "admin", "--json"]);
    let agent = agent.worked().json()["secret"].as_str().expect("a secret").to_owned();
    let authorization = [("authorization", format!("Bearer {agent}"))];
    let refused =
        crate::wire::ask(&server.address, "POST", "/v1/ledger/rotate", &authorization, None);
    assert_eq!(refused.expect("an answer").status, 403, "only the operator's admins");
    server.stop();
    verify(&[&file, "--key", ids[0].as_str().expect("an id")]).worked();
    let object = log(&place.data()).worked().json();
    assert_eq!(object["kinds"]["checkpoint-key"], 6);
    let server = place.serve();
    echo(&server, "after a restart");
    assert_eq!(keys(&server).len(), 6);
}

#[test]
fn a_kill_while_the_key_changes_leaves_one_key_in_force() {
    let place = Place::new();
    for moment in [0, 1, 2, 3, 5, 8, 13, 21] {
        let server = place.serve();
        echo(&server, "before");
        std::thread::scope(|scope| {
            let rotating = scope.spawn(|| {
                let key = [("authorization", format!("Bearer {}", server.key))];
                // Whether it is answered is up to the moment.
                let _ = crate::wire::ask(&server.address, "POST", "/v1/ledger/rotate", &key, None);
            });
            // Not to wait for anything: the moment is the test.
            std::thread::sleep(std::time::Duration::from_millis(moment));
            crate::support::signal(server.pid(), rustix::process::Signal::KILL);
            rotating.join().expect("it asks");
        });
        server.gone();
        log(&place.data()).worked();
        let server = place.serve();
        let id = echo(&server, "after");
        server.stop();
        let object = log(&place.data()).worked().json();
        assert_eq!(object["uncommitted"], 0, "{moment} ms");
        let data = shown(&place.data());
        verify(&["--call", &id, "--data", &data]).worked();
        assert!(!place.data().join("ledger.next.key").exists(), "{moment} ms");
    }
}

#[test]
fn the_key_is_its_owner_s_alone_and_a_past_without_it_is_no_beginning() {
    let place = Place::new();
    place.serve().stop();
    let key = place.data().join("ledger.key");
    assert_eq!(fs::metadata(&key).expect("a key").permissions().mode() & 0o7777, 0o600);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("a change");
    let data = shown(&place.data());
    let serve = || ran(&mut command(&["serve", "--listen", "127.0.0.1:0", "--data", &data]));
    serve().failed(2, &["others can read the key", "chmod 600"]);
    fs::remove_file(&key).expect("it was there");
    serve().failed(2, &["cannot read the key of the ledger"]);
    assert!(!key.exists(), "none was made");
}

#[test]
fn an_audit_lists_what_happened() {
    let place = Place::new();
    let server = place.serve();
    let id = echo(&server, "hi");
    let told = server.client(&["audit", "--since", "1h"]).worked();
    for words in ["INDEX", "checkpoint-key", "created first admin key", &id, "finished"] {
        assert!(told.stdout.contains(words), "no `{words}` in {}", told.stdout);
    }
    let lines = server.client(&["audit", "--kind", "call", "--json"]).worked().stdout;
    let entry: Value = serde_json::from_str(&lines).expect("one line");
    assert_eq!(entry["call_id"], id);
    server.client(&["audit", "--since", "soon"]).failed(2, &["--since"]);
    server.client(&["audit", "--kind", "gossip"]).failed(2, &["not a kind of entry"]);
}

#[test]
fn a_replay_tells_what_is_the_same_what_is_not_and_what_cannot_be() {
    let place = Place::new();
    let server = place.serve();
    let id = echo(&server, "hi");
    let object = server.client(&["replay", &id, "--json"]).worked().json();
    assert_eq!((&object["outcome"], &object["call"]), (&json!("equal"), &json!(id)));
    assert_ne!(object["replay"], object["call"], "a call of its own, on record");
    let audit = server.client(&["audit", "--kind", "call", "--json"]).worked().stdout;
    assert_eq!(audit.lines().count(), 2);
    let clock = server.call("timestamp", &json!({"format": "%H:%M:%S.%f"}));
    let other = server.client(&["replay", clock["id"].as_str().expect("an id")]);
    assert_eq!((other.code, other.stdout.lines().next()), (Some(1), Some("different")));
    let held = server.call("http_fetch", &json!({"url": "https://example.com/"}));
    let held = held["id"].as_str().expect("an id").to_owned();
    server.client(&["cancel", &held]).worked();
    server.client(&["replay", &held]).failed(2, &["cannot be made again", "without a result"]);
}
