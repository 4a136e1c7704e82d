//! Servers on a PostgreSQL database: one, the same after a restart, and two at once.

use std::{fs, sync::OnceLock};

use ringfence_testkit::Postgres;
use serde_json::{Value, json};

use crate::{
    support::{Place, Ran, Server, command, ran, shown, skill, until},
    wire,
};

/// The cluster of this test run.
pub(crate) fn cluster() -> &'static Postgres {
    static CLUSTER: OnceLock<Postgres> = OnceLock::new();
    CLUSTER.get_or_init(|| Postgres::start().expect("a PostgreSQL cluster"))
}

/// Lets the skill with effects run, and holds another.
const POLICY: &str = r#"
package ringfence
default decision := {"decision": "allow", "reasons": [{"rule": "trusted", "message": "ours"}]}
decision := {"decision": "hold", "reasons": [{"rule": "outside", "message": "not ours"}]} if {
    input.tool.name == "held"
    input.approval == null
}
"#;

/// Long enough that it runs when the server is killed.
const SLOW: &str = "import time\ndef run(n):\n    time.sleep(1.5)\n    return {'n': n}\n";

/// Gives a server its skills and rules.
fn furnish(place: &Place) {
    skill(&place.skills(), "effect", "side_effect", SLOW);
    skill(&place.skills(), "pure", "none", SLOW);
    skill(&place.skills(), "held", "side_effect", "def run(n):\n    return {'n': n}\n");
    fs::create_dir(place.path("policy")).expect("a folder for rules");
    fs::write(place.path("policy").join("rules.rego"), POLICY).expect("rules");
}

/// A data directory, skills and rules of one server.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) place: Place,
    pub(crate) store: String,
    blobs: String,
    pub(crate) policy: String,
}

impl Host {
    /// The host that an installation begins on.
    pub(crate) fn first() -> Self {
        let name = cluster().database().expect("a database");
        Self::at(cluster().url(&name))
    }

    /// The host that an installation on this database begins on.
    pub(crate) fn at(store: String) -> Self {
        Self::new(store, None)
    }

    /// Another host, with the keys of the first.
    pub(crate) fn second(first: &Self) -> Self {
        let host = Self::new(first.store.clone(), Some(first.blobs.clone()));
        fs::create_dir(host.place.data()).expect("a data directory");
        for name in ["ledger.key", "admin.key"] {
            fs::copy(first.place.data().join(name), host.place.data().join(name)).expect("a key");
        }
        host
    }

    fn new(store: String, blobs: Option<String>) -> Self {
        let place = Place::new();
        furnish(&place);
        let blobs = blobs.unwrap_or_else(|| shown(&place.path("blobs")));
        let policy = shown(&place.path("policy"));
        Self { place, store, blobs, policy }
    }

    pub(crate) fn variables(&self) -> [(&str, &str); 3] {
        [
            ("RINGFENCE_STORE", &self.store),
            ("RINGFENCE_BLOBS", &self.blobs),
            ("RINGFENCE_POLICY", &self.policy),
        ]
    }

    pub(crate) fn serve(&self) -> Server {
        self.serve_with(&[])
    }

    pub(crate) fn serve_with(&self, further: &[(&str, &str)]) -> Server {
        self.place.serve_with(&[&self.variables(), further].concat())
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        let data = shown(&self.place.data());
        let args = [args, &["--data", &data]].concat();
        ran(command(&args).envs(self.variables()))
    }
}

pub(crate) fn call(server: &Server, id: &str) -> Value {
    server.ask("GET", &format!("/v1/calls/{id}"), None).json()
}

/// Makes a call and does not wait for its end.
pub(crate) fn begin(server: &Server, tool: &str) -> String {
    let body = json!({"tool": tool, "args": {"n": 7}, "wait": 0});
    let answer = server.ask("POST", "/v1/calls", Some(&body));
    assert!(answer.status < 300, "{answer:?}");
    answer.json()["id"].as_str().expect("an id").to_owned()
}

#[test]
fn a_server_on_postgres_does_what_one_on_sqlite_does_and_finds_it_again() {
    let host = Host::first();
    let refused = host.run(&["serve", "--listen", "127.0.0.1:0"]);
    refused.failed(2, &["schema version 0", "ringfence migrate"]);
    host.run(&["migrate"]).worked();
    let again = host.run(&["migrate", "--json"]).worked();
    let again = again.json();
    assert!(again["version_before"].as_u64() > Some(0) && again["new"] == false, "{again}");

    let server = host.serve();
    let echo = server.call("echo", &json!({"text": "hello"}));
    assert_eq!(echo["result"], json!({"message": "hello"}), "{echo}");
    let code = server.call("code_execute", &json!({"code": "print('x' * 600_000)"}));
    assert_eq!(code["state"], "finished", "{code}");
    let held = begin(&server, "held");
    until("the call to be held", || call(&server, &held)["state"] == "held");
    let boss = server.client(&["key", "create", "boss", "--scope", "approve"]).worked();
    let data = shown(&host.place.data());
    let approve = ["approve", &held, "--yes", "--data", &data];
    ran(command(&approve).env("RINGFENCE_KEY", boss.stdout.trim())).worked();
    until("the call to end", || call(&server, &held)["state"] == "finished");
    let audited = server.client(&["audit", "--json"]).worked();
    assert!(audited.stdout.lines().count() > 4, "{}", audited.stdout);
    host.run(&["verify", "--log", "--artifacts"]).worked();
    assert_eq!(server.stop(), Some(0));

    let server = host.serve();
    for id in [echo["id"].as_str().expect("an id"), &held] {
        assert_eq!(call(&server, id)["state"], "finished");
    }
    let output = format!("/v1/calls/{}/output/stdout", code["id"].as_str().expect("an id"));
    assert_eq!(server.ask("GET", &output, None).status, 200);
    server.call("echo", &json!({"text": "again"}));
    assert_eq!(server.stop(), Some(0));
    host.run(&["verify", "--log", "--artifacts"]).worked();
}

#[test]
fn two_hosts_that_migrate_at_once_make_one_installation() {
    let (one, mut other) = (Host::first(), Host::first());
    other.store.clone_from(&one.store);
    let outcomes = std::thread::scope(|scope| {
        let both = [&one, &other]
            .map(|host| scope.spawn(|| host.run(&["migrate", "--json"]).worked().json()));
        both.map(|run| run.join().expect("no panic")["new"] == json!(true))
    });
    assert_eq!(outcomes.iter().filter(|new| **new).count(), 1, "{outcomes:?}");
    let keys = [&one, &other].map(|host| host.place.data().join("ledger.key").exists());
    assert_eq!(keys, outcomes, "the key is where the installation was made");
}

#[test]
fn calls_of_a_killed_server_are_taken_over_by_another() {
    let one = Host::first();
    one.run(&["migrate"]).worked();
    let other = Host::second(&one);
    let (first, second) = (one.serve(), other.serve());
    let (effect, pure, held) =
        (begin(&first, "effect"), begin(&first, "pure"), begin(&first, "held"));
    until("the effect to run", || call(&first, &effect)["state"] == "running");
    until("the other to see it", || call(&second, &effect)["state"] == "running");
    first.kill();
    until("the effect to be unknown", || call(&second, &effect)["state"] == "outcome_unknown");
    until("the pure call to be run again", || call(&second, &pure)["state"] == "finished");
    assert_eq!(call(&second, &pure)["result"], json!({"n": 7}));
    assert_eq!(call(&second, &held)["state"], "held");
    let boss = second.client(&["key", "create", "boss", "--scope", "approve"]).worked();
    let data = shown(&other.place.data());
    let denied = ["deny", &held, "--reason", "no", "--data", &data];
    let denied = ran(command(&denied).env("RINGFENCE_KEY", boss.stdout.trim()));
    assert_eq!(call(&second, &held)["state"], "denied", "{denied:?}");
    // The killed one comes back and goes on.
    let first = one.serve();
    assert_eq!(call(&first, &pure)["state"], "finished");
    first.call("echo", &json!({"text": "back"}));
    second.call("echo", &json!({"text": "here"}));
    // A key that one server revokes is refused by the other.
    let body = json!({"label": "short-lived", "scopes": ["read"]});
    let key = first.ask("POST", "/v1/keys", Some(&body)).json();
    let secret = key["secret"].as_str().expect("a secret");
    let bearer = [("authorization", format!("Bearer {secret}"))];
    let status = || {
        let answer = wire::ask(&second.address, "GET", "/v1/calls", &bearer, None);
        answer.expect("an answer").status
    };
    assert_eq!(status(), 200);
    let path = format!("/v1/keys/{}", key["key_id"].as_str().expect("an id"));
    assert!(first.ask("DELETE", &path, None).status < 300);
    until("the key to be refused by the other", || status() == 401);
    assert_eq!((first.stop(), second.stop()), (Some(0), Some(0)));
    one.run(&["verify", "--log"]).worked();
}
