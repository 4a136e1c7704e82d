//! Rows of keys and approvals changed in the database: named at start and by `verify`, corrected by
//! `repair`, and never acted on.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::{
    ledger::{Change, Texts, meddle, meddle_beside, meddle_records, put},
    support::{Place, Ran, Server, command, ran, shown, skill, until},
};

fn serve(data: &Path) -> Ran {
    ran(&mut command(&["serve", "--listen", "127.0.0.1:0", "--data", &shown(data)]))
}

fn on(data: &Path, args: &[&str]) -> Ran {
    ran(&mut command(&[args, &["--data", &shown(data)]].concat()))
}

fn key(server: &Server, label: &str, scopes: &str) -> Value {
    server.client(&["key", "create", label, "--scope", scopes, "--json"]).worked().json()
}

fn with_key(server: &Server, secret: &Value, args: &[&str]) -> Ran {
    let mut args = args.to_vec();
    args.extend(["--data", &server.data]);
    ran(command(&args).env("RINGFENCE_KEY", secret.as_str().expect("a secret")))
}

/// A server's data with a revoked key, a narrow one, a used approval and a revoked one.
fn with_authority(place: &Place) -> String {
    skill(
        &place.skills(),
        "send_note",
        "side_effect",
        "def run(text):\n    return {'sent': text}\n",
    );
    let server = place.serve();
    let revoked = key(&server, "agent", "call");
    key(&server, "narrow", "read");
    let boss = key(&server, "boss", "approve");
    server.client(&["key", "revoke", revoked["key_id"].as_str().expect("an id")]).worked();
    let call = server.call("send_note", &json!({"text": "hello"}));
    let id = call["id"].as_str().expect("an id");
    with_key(&server, &boss["secret"], &["approve", id, "--yes"]).failed(0, &[]);
    let path = format!("/v1/calls/{id}");
    until("it ends", || server.ask("GET", &path, None).json()["state"] == "finished");
    server.stop();
    revoked["secret"].as_str().expect("a secret").to_owned()
}

fn copied(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a folder");
    for name in ["ringfence.db", "ledger.key", "ledger.head"] {
        fs::copy(from.join(name), to.join(name)).expect("a copy");
    }
}

/// Changes to rows by a person with access to the database, and the words that name them.
const MEDDLING: [(&str, &str, &str); 13] = [
    (
        "UPDATE keys SET revoked_at = NULL WHERE label = 'agent'",
        "key ",
        "revoked_at: the ledger says 2",
    ),
    (
        "UPDATE keys SET scopes = '[\"admin\"]' WHERE label = 'narrow'",
        "key ",
        "scopes: the ledger says [\"read\"], the row says [\"admin\"]",
    ),
    (
        "UPDATE keys SET tenant = 'acme' WHERE label = 'narrow'",
        "key ",
        "tenant: the ledger says default, the row says acme",
    ),
    (
        "UPDATE keys SET secret = zeroblob(32) WHERE label = 'narrow'",
        "key ",
        "secret (by fingerprint)",
    ),
    (
        "UPDATE keys SET person = 'ann' WHERE label = 'boss'",
        "key ",
        "person: the ledger says nothing",
    ),
    (
        "INSERT INTO keys SELECT zeroblob(16), tenant, persona, person, 'mine', prefix, zeroblob(32), scopes, created_at, created_by, expires_at, NULL, NULL FROM keys WHERE label = 'first admin key'",
        "key 00000000-0000-0000-0000-000000000000",
        "the ledger says there is none",
    ),
    ("DELETE FROM keys WHERE label = 'agent'", "key ", "the row says there is none"),
    (
        "UPDATE keys SET scopes = 'no JSON' WHERE label = 'narrow'",
        "row ",
        "of table `keys` cannot be read",
    ),
    ("UPDATE approvals SET uses = 100", "approval ", "uses: the ledger says 1, the row says 100"),
    (
        "UPDATE approvals SET approval = json_set(approval, '$.terms.uses', 100), uses = 100",
        "approval ",
        "terms: the ledger says",
    ),
    (
        "DELETE FROM approval_uses",
        "approval ",
        "calls that used it: the ledger says 1, the row says 0",
    ),
    (
        "INSERT INTO approvals SELECT zeroblob(16), tenant, tool, expires_at, uses, NULL, NULL, json_set(approval, '$.id', '00000000-0000-0000-0000-000000000000') FROM approvals",
        "approval 00000000-0000-0000-0000-000000000000",
        "there is none",
    ),
    ("UPDATE approvals SET approval = '{}'", "row ", "of table `approvals` cannot be read"),
];

#[test]
fn every_row_that_was_changed_is_named_and_set_right() {
    let place = Place::new();
    let revoked = with_authority(&place);
    on(&place.data(), &["verify", "--log"]).worked();
    for (index, (sql, id, words)) in MEDDLING.into_iter().enumerate() {
        let copy = place.path(&format!("copy-{index}"));
        copied(&place.data(), &copy);
        meddle(&copy, sql);
        let named = ["rows of keys or approvals are not what the ledger says", id, words];
        serve(&copy).failed(2, &named);
        on(&copy, &["verify", "--log"]).failed(1, &named);
        let repaired = on(&copy, &["ledger", "repair", "--json"]).worked().json();
        assert!(repaired["differences"].to_string().contains(id), "{sql}: {repaired}");
        on(&copy, &["verify", "--log"]).worked();
        let again = on(&copy, &["ledger", "repair", "--json"]).worked().json();
        assert_eq!(again["differences"], json!([]), "{sql}");
    }
    // The control: an untouched copy starts, and what was revoked stays so.
    let server = place.serve();
    with_key(&server, &json!(revoked), &["tools"]).failed(2, &["error: "]);
    server.stop();
}

/// An entry that says so is taken away, or kept under another kind: the tree does not allow it.
#[test]
fn entries_about_keys_cannot_be_hidden() {
    let place = Place::new();
    with_authority(&place);
    for (index, sql) in [
        "UPDATE keys SET revoked_at = NULL WHERE label = 'agent';
         DELETE FROM ledger WHERE kind = 'key' AND payload LIKE '%\"event\":\"revoked\"%'",
        "UPDATE keys SET revoked_at = NULL WHERE label = 'agent';
         UPDATE ledger SET kind = 'tool' WHERE kind = 'key' AND payload LIKE '%revoked%'",
        "UPDATE keys SET revoked_at = NULL WHERE label = 'agent';
         UPDATE ledger SET payload = replace(payload, '\"event\":\"revoked\"', '\"event\":\"created\"')",
    ]
    .into_iter()
    .enumerate()
    {
        let copy = place.path(&format!("copy-{index}"));
        copied(&place.data(), &copy);
        meddle(&copy, sql);
        let refused = serve(&copy);
        assert_eq!(refused.code, Some(2), "{sql}: {refused:?}");
        let is_named = ["differs from its newest checkpoint", "revoked_at: the ledger says"]
            .iter()
            .any(|words| refused.stderr.contains(words));
        assert!(is_named, "{sql}: {refused:?}");
    }
}

#[test]
fn a_decision_or_a_state_that_was_changed_is_found_by_verify() {
    let place = Place::new();
    with_authority(&place);
    let input = |texts: &mut Texts| {
        if let Some((_, input)) = &mut texts.decision {
            *input = input.replace("hello", "bye");
        }
    };
    let verdict = |texts: &mut Texts| {
        if let Some((said, _)) = &mut texts.decision {
            let mut decision: serde_json::Value = serde_json::from_str(said).expect("JSON");
            decision["verdict"] = json!("deny");
            *said = decision.to_string();
        }
    };
    let state = |texts: &mut Texts| put(&mut texts.now, "\"finished\"", "\"cancelled\"");
    let fact =
        |texts: &mut Texts| texts.facts = texts.facts.replace("call.finished", "call.denied");
    let changes: [Change<'_>; 5] = [
        (&|copy| meddle_records(copy, input), "the stored decision"),
        (&|copy| meddle_records(copy, verdict), "the stored decision"),
        (&|copy| meddle(copy, "UPDATE records SET decided_at = NULL"), "the stored decision"),
        (
            &|copy| {
                meddle(copy, "UPDATE calls SET state = 'cancelled'");
                meddle_records(copy, state);
            },
            "cannot read the records",
        ),
        (&|copy| meddle_records(copy, fact), "the stored fact of its end"),
    ];
    for (index, (change, words)) in changes.into_iter().enumerate() {
        let copy = place.path(&format!("copy-{index}"));
        copied(&place.data(), &copy);
        change(&copy);
        let told = on(&copy, &["verify", "--log"]);
        assert!(told.stderr.contains(words) && told.code != Some(0), "{index}: {told:?}");
    }
}

#[test]
fn an_unreadable_call_is_named_and_does_not_prevent_a_start() {
    let place = Place::new();
    skill(
        &place.skills(),
        "send_note",
        "side_effect",
        "def run(text):\n    return {'sent': text}\n",
    );
    let server = place.serve();
    let broken = server.call("send_note", &json!({"text": "one"}));
    let whole = server.call("send_note", &json!({"text": "two"}));
    server.stop();
    meddle_records(&place.data(), |texts| {
        if texts.asked.as_ref().is_some_and(|asked| asked.contains("\"one\"")) {
            texts.now = Some("no JSON".to_owned());
        }
    });
    let server = place.serve();
    let id = broken["id"].as_str().expect("an id");
    let log = fs::read_to_string(place.path("log")).expect("a log");
    assert!(log.contains("of table `calls` cannot be read") && log.contains(id), "{log}");
    // The other one waits as before, and lists go on.
    let listed = server.client(&["calls", "--json"]).worked().stdout;
    assert!(listed.contains(whole["id"].as_str().expect("an id")), "{listed}");
    server.stop();
}

/// Even while a server runs: a forged approval lets nothing run.
#[test]
fn an_approval_that_the_ledger_does_not_know_is_not_used() {
    let place = Place::new();
    let handler = "def run(text):\n    return {'sent': text}\n";
    skill(&place.skills(), "send_note", "side_effect", handler);
    let server = place.serve();
    let boss = key(&server, "boss", "approve")["secret"].clone();
    let held = || {
        let call = server.call("send_note", &json!({"text": "hello"}));
        assert_eq!(call["state"], "held", "{call}");
        call["id"].as_str().expect("an id").to_owned()
    };
    let state =
        |id: &str| server.ask("GET", &format!("/v1/calls/{id}"), None).json()["state"].clone();
    let approved = held();
    with_key(&server, &boss, &["approve", &approved, "--yes"]).failed(0, &[]);
    until("it ends", || state(&approved) == "finished");
    // The same approval once more, for another call; everything else of it is true.
    let forged = held();
    let sql = format!(
        "INSERT INTO approvals SELECT zeroblob(16), tenant, tool, expires_at, uses, NULL, NULL,
         json_set(approval, '$.id', '00000000-0000-0000-0000-000000000000', '$.call', '{forged}',
                  '$.terms.reach.once', '{forged}') FROM approvals"
    );
    meddle_beside(&place.data(), &sql);
    with_key(&server, &boss, &["holds", &forged, "--reevaluate"]).failed(0, &["judged again"]);
    assert_eq!(state(&forged), "held");
    let log = fs::read_to_string(place.path("log")).expect("a log");
    assert!(log.contains("an approval is not what the ledger says"), "{log}");
    // The control: a true one lets the same call run.
    with_key(&server, &boss, &["approve", &forged, "--yes"]).failed(0, &[]);
    until("it ends", || state(&forged) == "finished");
    server.stop();
    serve(&place.data()).failed(2, &["approval 00000000-0000-0000-0000-000000000000"]);
}
