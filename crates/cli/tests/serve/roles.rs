//! Servers that accept calls and servers that run them.

use serde_json::{Value, json};

use crate::{
    postgres::{Host, call},
    support::{Server, command, ran, shown, until},
    wire,
};

const API: &[(&str, &str)] = &[("RINGFENCE_ROLE", "api")];
const WORKER: &[(&str, &str)] = &[("RINGFENCE_ROLE", "worker")];

/// Two hosts of one installation: one that accepts calls and one that runs them.
fn two() -> (Host, Host) {
    let one = Host::first();
    one.run(&["migrate"]).worked();
    let other = Host::second(&one);
    (one, other)
}

/// Asks for a program and does not wait.
fn begin(server: &Server, code: &str) -> String {
    let body = json!({"tool": "code_execute", "args": {"code": code}, "wait": 0});
    let answer = server.ask("POST", "/v1/calls", Some(&body));
    assert!(answer.status < 300, "{answer:?}");
    answer.json()["id"].as_str().expect("an id").to_owned()
}

fn state(server: &Server, id: &str) -> String {
    call(server, id)["state"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn what_one_server_accepts_another_one_runs() {
    let (one, other) = two();
    let api = one.serve_with(API);
    // Accepted and recorded, and run by none.
    let waiting = begin(&api, "print('ran')");
    let cancelled = begin(&api, "print('never')");
    assert_eq!(state(&api, &waiting), "accepted");
    let answer = api.ask("DELETE", &format!("/v1/calls/{cancelled}"), None);
    assert_eq!((answer.status, &answer.json()["state"]), (200, &json!("cancelled")), "{answer:?}");
    let none = api.ask("POST", "/v1/sandboxes", Some(&json!({})));
    assert_eq!((none.status, &none.json()["code"]), (503, &json!("sandbox_unavailable")));
    let worker = other.serve_with(WORKER);
    let ended = api.ask("GET", &format!("/v1/calls/{waiting}?wait=50"), None).json();
    assert_eq!(
        (&ended["state"], &ended["result"]["stdout"]),
        (&json!("finished"), &json!("ran\n"))
    );
    // A caller that waits gets the end, whatever kind of tool it is.
    for (tool, args) in [
        ("echo", json!({"text": "there and back"})),
        ("pure", json!({"n": 4})),
        ("effect", json!({"n": 5})),
    ] {
        let body = json!({"tool": tool, "args": args, "wait": 50});
        let answer = api.ask("POST", "/v1/calls", Some(&body));
        assert_eq!(
            (answer.status, &answer.json()["state"]),
            (200, &json!("finished")),
            "{answer:?}"
        );
    }
    // Its output while it runs, and its end by cancellation, through the one that accepted it.
    let live = begin(&api, "import time\nprint('live', flush=True)\ntime.sleep(50)\n");
    until("it to run", || state(&api, &live) == "running");
    let shown = api.ask("GET", &format!("/v1/calls/{live}/output/stdout?offset=0"), None);
    assert_eq!((shown.status, shown.body.as_str()), (200, "live\n"), "{shown:?}");
    assert!(api.ask("DELETE", &format!("/v1/calls/{live}"), None).status < 300);
    until("it to be cancelled", || state(&api, &live) == "cancelled");
    assert_eq!((api.stop(), worker.stop()), (Some(0), Some(0)));
    one.run(&["verify", "--log"]).worked();
}

#[test]
fn a_session_sandbox_is_made_on_a_worker_and_used_through_the_other() {
    let (one, other) = two();
    let (api, worker) = (one.serve_with(API), other.serve_with(WORKER));
    let made = api.ask("POST", "/v1/sandboxes", Some(&json!({"metadata": {"of": "one"}})));
    assert!(made.status < 300, "{made:?}");
    let id = made.json()["id"].as_str().expect("an id").to_owned();
    let run = json!({"argv": ["sh", "-c", "echo kept > note && cat note"], "wait": 30});
    let exec = api.ask("POST", &format!("/v1/sandboxes/{id}/exec"), Some(&run));
    assert!(exec.status < 300, "{exec:?}");
    // A tool that names the sandbox goes to the worker that has it.
    let args = json!({"sandbox": id, "argv": ["cat", "note"]});
    let body = json!({"tool": "sandbox_exec", "args": args, "wait": 50});
    let answer = api.ask("POST", "/v1/calls", Some(&body));
    assert_eq!(answer.json()["result"]["stdout"], json!("kept\n"), "{answer:?}");
    assert!(api.ask("DELETE", &format!("/v1/sandboxes/{id}"), None).status < 300);
    assert_eq!((api.stop(), worker.stop()), (Some(0), Some(0)));
}

#[test]
fn a_held_call_that_is_approved_at_one_server_runs_on_another() {
    let (one, other) = two();
    let (api, worker) = (one.serve_with(API), other.serve_with(WORKER));
    let body = json!({"tool": "held", "args": {"n": 3}});
    let held = api.ask("POST", "/v1/calls", Some(&body)).json();
    assert_eq!(held["state"], "held", "{held}");
    let id = held["id"].as_str().expect("an id");
    // Another person: none approves a call of their own.
    let body = json!({"label": "approver", "scopes": ["read", "approve"]});
    let key = api.ask("POST", "/v1/keys", Some(&body)).json();
    let bearer = [("authorization", format!("Bearer {}", key["secret"].as_str().expect("one")))];
    let path = format!("/v1/holds/{id}/resolve");
    let approve = json!({"action": "approve"});
    let answer = wire::ask(&api.address, "POST", &path, &bearer, Some(&approve)).expect("one");
    assert!(answer.status < 300, "{answer:?}");
    let ended = api.ask("GET", &format!("/v1/calls/{id}?wait=50"), None).json();
    until("it to end", || state(&api, id) == "finished");
    assert_eq!(call(&api, id)["result"]["n"], 3, "{ended}");
    assert_eq!((api.stop(), worker.stop()), (Some(0), Some(0)));
    one.run(&["verify", "--log"]).worked();
}

#[test]
fn a_server_names_its_role_and_refuses_what_is_not_its_part() {
    let (one, other) = two();
    let (api, worker) = (one.serve_with(API), other.serve_with(WORKER));
    let listed = api.client(&["processes", "--json"]).worked().stdout;
    let roles = listed.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let mut roles: Vec<_> = roles.map(|row| row["role"].clone()).collect();
    roles.sort_by_key(ToString::to_string);
    assert_eq!(roles, [json!("api"), json!("worker")]);
    let body = json!({"tool": "echo", "args": {"text": "no"}});
    let refused = worker.ask("POST", "/v1/calls", Some(&body));
    assert_eq!((refused.status, &refused.json()["code"]), (421, &json!("wrong_role")));
    assert_eq!(worker.ask("GET", "/v1/tools", None).status, 200, "it answers questions");
    assert_eq!((api.stop(), worker.stop()), (Some(0), Some(0)));
    // One server on one file does everything.
    let place = crate::support::Place::new();
    let data = shown(&place.data());
    let alone = ran(&mut command(&["serve", "--role", "worker", "--data", &data]));
    alone.failed(2, &["role", "share a database"]);
}

#[test]
fn a_call_that_a_killed_worker_had_taken_is_run_by_another() {
    let (one, other) = two();
    let third = Host::second(&one);
    let (api, worker) = (one.serve_with(API), other.serve_with(WORKER));
    let code = "import time\ntime.sleep(2)\nprint('again')\n";
    let pure = begin(&api, code);
    until("it to run", || state(&api, &pure) == "running");
    let next = third.serve_with(WORKER);
    worker.kill();
    let ended = api.ask("GET", &format!("/v1/calls/{pure}?wait=55"), None).json();
    assert_eq!(ended["state"], "finished", "{ended}");
    assert_eq!((api.stop(), next.stop()), (Some(0), Some(0)));
    one.run(&["verify", "--log"]).worked();
}
