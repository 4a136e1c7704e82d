//! `kill -9` under load, at moments that differ but do not change from run to run.
//!
//! What must hold after each restart: every call that was acknowledged is there, with exactly one
//! final state, one receipt, its events in order; a request that is repeated with its idempotency
//! key is not done twice; a call that may have had an effect is begun once and, if its end
//! is unknown, says so; nothing of the dead server is left on the host.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    remains::{descendants, groups, mounts},
    support::{Place, Server, skill, until},
    wire,
};

/// Milliseconds from the start of the load to the kill; repeated when more rounds are asked for,
/// each time a little later.
const MOMENTS: [u64; 10] = [350, 40, 900, 120, 10, 600, 200, 75, 1500, 25];
/// Clients at one time.
const CLIENTS: usize = 8;

/// Requests, and their answers before the end.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) body: Value,
    /// The call as it was acknowledged.
    pub(crate) answer: Option<Value>,
}

/// Requests by idempotency key.
pub(crate) type Log = Mutex<BTreeMap<String, Sent>>;

pub(crate) fn locked(log: &Log) -> MutexGuard<'_, BTreeMap<String, Sent>> {
    log.lock().expect("no client has panicked")
}

/// Requests of one round.
fn of_round(log: &Log, round: usize) -> BTreeMap<String, Sent> {
    let log = locked(log);
    let prefix = format!("{round}-");
    let of_round = log.iter().filter(|(name, _)| name.starts_with(&prefix));
    of_round.map(|(name, sent)| (name.clone(), sent.clone())).collect()
}

/// Lets the skill with effects run, as an operator might who trusts it.
const POLICY: &str = r#"
package ringfence
default decision := {"decision": "allow", "reasons": [{"rule": "trusted", "message": "ours"}]}
decision := {"decision": "hold", "reasons": [{"rule": "outside", "message": "not ours"}]} if {
    input.tool.name == "http_fetch"
}
"#;

/// Long enough that every kill meets some of its calls half way.
const EFFECT: &str = "import time\ndef run(n):\n    time.sleep(0.3)\n    return {'n': n}\n";

pub(crate) fn place_with_effects() -> Place {
    let place = Place::new();
    skill(&place.skills(), "effect", "side_effect", EFFECT);
    std::fs::create_dir(place.path("policy")).expect("a folder for rules");
    std::fs::write(place.path("policy").join("rules.rego"), POLICY).expect("rules");
    place
}

#[test]
fn nothing_acknowledged_is_lost_or_doubled_by_a_kill() {
    let place = place_with_effects();
    let policy = place.path("policy").display().to_string();
    let serve = || place.serve_with(&[("RINGFENCE_POLICY", &policy)]);
    let (log, before) = (Log::default(), mounts());
    let mut server = serve();
    let mut acknowledged = 0;
    for round in 0..rounds() {
        let pid = server.pid();
        let below = load_until_killed(server, &log, round);
        acknowledged += of_round(&log, round).values().filter(|sent| sent.answer.is_some()).count();
        server = serve();
        repeat(&server, &log, round);
        check_list(&server, &log);
        for sent in of_round(&log, round).values() {
            check_call(&server, sent);
        }
        until("its processes are gone", || below.iter().all(|process| !process.lives()));
        until("its control groups are gone", || groups(pid).is_empty());
        assert_eq!(mounts(), before, "mounts of round {round}");
    }
    // No later kill changed what an earlier one had left.
    let ends: Vec<_> = locked(&log).values().map(|sent| check_call(&server, sent)).collect();
    assert_eq!(server.stop(), Some(0));
    assert!(acknowledged > rounds(), "the load was none: {acknowledged}");
    assert!(ends.iter().any(|end| end == "outcome_unknown"), "no kill met a call with effects");
}

#[expect(clippy::disallowed_methods, reason = "more rounds are asked for by a variable")]
fn rounds() -> usize {
    let asked = std::env::var("RINGFENCE_SERVE_KILLS").ok();
    asked.map_or(3, |count| count.parse::<usize>().expect("a number").clamp(1, 200))
}

/// Loads the server from several clients and kills it in the midst; what descended from it then.
fn load_until_killed(server: Server, log: &Log, round: usize) -> BTreeSet<crate::remains::Process> {
    let is_over = AtomicBool::new(false);
    let address = server.address.clone();
    let key = server.key.clone();
    let moment = MOMENTS[round % MOMENTS.len()] + 7 * (round / MOMENTS.len()) as u64;
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (address, key, is_over) = (&address, &key, &is_over);
            scope.spawn(move || {
                for number in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let name = format!("{round}-{client}-{number}");
                    let body = body(client + number, &name);
                    let sent = Sent { body: body.clone(), answer: None };
                    locked(log).insert(name.clone(), sent);
                    let Some(answer) = send(address, key, &name, &body) else { continue };
                    locked(log).get_mut(&name).expect("sent").answer = Some(answer);
                }
            });
        }
        // The moment is the test's input, not a wait for anything.
        std::thread::sleep(Duration::from_millis(moment));
        let below = descendants(server.pid());
        server.kill();
        is_over.store(true, Ordering::Relaxed);
        below
    })
}

/// Quick ones, slow ones, detached ones, held ones, and some with effects.
fn body(number: usize, name: &str) -> Value {
    match number % 6 {
        0 | 1 => json!({"tool": "echo", "args": {"text": name}}),
        2 => json!({"tool": "echo", "args": {"text": name}, "wait": 0}),
        3 => json!({"tool": "code_execute", "args": {"code": format!("print('{name}')")}}),
        4 => json!({"tool": "effect", "args": {"n": number}, "wait": number % 2}),
        _ => json!({"tool": "http_fetch", "args": {"url": format!("https://example.com/{name}")}}),
    }
}

/// `None` if there was no whole answer, or one that says that there is no call.
pub(crate) fn send(address: &str, key: &str, name: &str, body: &Value) -> Option<Value> {
    let headers =
        [("authorization", format!("Bearer {key}")), ("idempotency-key", format!("\"{name}\""))];
    let answer = wire::ask(address, "POST", "/v1/calls", &headers, Some(body)).ok()?;
    assert!(matches!(answer.status, 200 | 202 | 409 | 429 | 503), "{answer:?}");
    (answer.status < 300).then(|| answer.json())
}

/// Sends everything of this round again that was not answered; each is done once in the end.
pub(crate) fn repeat(server: &Server, log: &Log, round: usize) {
    let open = of_round(log, round).into_iter().filter(|(_, sent)| sent.answer.is_none());
    for (name, Sent { body, .. }) in open {
        until("a repeated request is answered", || {
            let answer = send(&server.address, &server.key, &name, &body);
            let is_answered = answer.is_some();
            locked(log).get_mut(&name).expect("sent").answer = answer;
            is_answered
        });
    }
}

/// As many calls as requests, and no request without its own.
pub(crate) fn check_list(server: &Server, log: &Log) {
    let log = locked(log);
    let listed = all_calls(server);
    let ids: BTreeSet<&String> = listed.iter().collect();
    assert_eq!(ids.len(), listed.len(), "no call is listed twice");
    assert_eq!(listed.len(), log.len(), "as many calls as idempotency keys");
    let acknowledged: BTreeSet<_> = log.values().map(id_of).collect();
    assert_eq!(acknowledged.len(), log.len(), "each request has a call of its own");
}

fn id_of(sent: &Sent) -> String {
    let answer = sent.answer.as_ref().expect("answered by now");
    answer["id"].as_str().expect("an id").to_owned()
}

fn all_calls(server: &Server) -> Vec<String> {
    let mut ids = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = server.ask("GET", &format!("/v1/calls?limit=200{cursor}"), None).json();
        let calls = page["calls"].as_array().expect("a list").iter();
        ids.extend(calls.map(|call| call["id"].as_str().expect("an id").to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return ids,
        }
    }
}

/// The states in which a call may stand still.
fn ends(sent: &Sent) -> &'static [&'static str] {
    match sent.body["tool"].as_str() {
        Some("http_fetch" | "held") => &["held"],
        Some("effect") => &["finished", "outcome_unknown"],
        _ => &["finished"],
    }
}

/// One end, one receipt, its events. Gives the state in which it ended.
pub(crate) fn check_call(server: &Server, sent: &Sent) -> String {
    let path = format!("/v1/calls/{}", id_of(sent));
    let read = || server.ask("GET", &path, None).json();
    let is_end = |call: &Value| ends(sent).iter().any(|end| call["state"] == **end);
    until("the call stands still", || is_end(&read()));
    let call = read();
    // What was told of its end before the kill is still so.
    let told = sent.answer.as_ref().expect("answered");
    if is_end(told) {
        for field in ["state", "result", "error", "changed_at", "outputs_hash", "reasons"] {
            assert_eq!(call[field], told[field], "{field} of {path}");
        }
    }
    let state = call["state"].as_str().expect("a state");
    let receipt = server.ask("GET", &format!("{path}/receipt"), None);
    match state {
        "held" => assert_eq!(receipt.status, 409, "{receipt:?}"),
        state => {
            assert_eq!(receipt.json()["call"], call["id"]);
            assert_eq!(receipt.json()["state"], state);
            let kinds = check_events(server, &path, &format!("call.{state}"));
            let begun = kinds.iter().filter(|kind| **kind == "call.dispatched").count();
            assert!(begun == 1 || sent.body["tool"] != "effect", "begun {begun} times: {kinds:?}");
        }
    }
    state.to_owned()
}

/// They begin with the acceptance, end with the only end, and are in order. Gives their kinds.
fn check_events(server: &Server, path: &str, end: &str) -> Vec<String> {
    let events = server.ask("GET", &format!("{path}/events"), None).events();
    let place = |id: &str| {
        let (position, index) = id.split_once('-').expect("an event id");
        (position.parse::<u64>().expect("a number"), index.parse::<u64>().expect("a number"))
    };
    let places: Vec<_> = events.iter().map(|(id, _)| place(id)).collect();
    assert!(places.is_sorted_by(|one, other| one < other), "{events:?}");
    let kinds: Vec<_> = events.into_iter().map(|(_, kind)| kind).collect();
    assert_eq!(kinds.first().map(String::as_str), Some("call.accepted"), "{kinds:?}");
    assert_eq!(kinds.last().map(String::as_str), Some(end), "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| *kind == end).count(), 1, "{kinds:?}");
    kinds
}
