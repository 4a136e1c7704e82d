//! Session sandboxes through the binary: what runs in one is on record like everything else.

use serde_json::{Value, json};

use crate::support::{Place, Server, command, ran, shown, until};

fn state(server: &Server, id: &str) -> Value {
    server.ask("GET", &format!("/v1/calls/{id}"), None).json()["state"].clone()
}

/// Exports a call, verifies the file, and gives the receipt in it.
fn verified(place: &Place, server: &Server, id: &str) -> Value {
    let file = shown(&place.path(&format!("{id}.json")));
    server.client(&["export", id, "-o", &file]).worked();
    let object = ran(&mut command(&["verify", &file, "--json"])).worked().json();
    assert_eq!(object["outcome"], "verified");
    object["entries"][0]["predicate"].clone()
}

#[test]
fn a_session_program_an_execution_and_a_terminal_are_calls_that_verify() {
    let place = Place::new();
    let server = place.serve();
    let post = |path: &str, body: &Value| {
        let answer = server.ask("POST", path, Some(body));
        assert!(matches!(answer.status, 200..=202), "{path}: {answer:?}");
        answer.json()
    };
    let sandbox = post("/v1/sandboxes", &json!({}));
    let path = format!("/v1/sandboxes/{}", sandbox["id"].as_str().expect("an id"));
    let program = post(&format!("{path}/exec"), &json!({"argv": ["echo", "hi"]}));
    assert_eq!(program["stdout"], "hi\n");
    let interpreter = post(&format!("{path}/interpreters"), &json!({"language": "python"}));
    let execute = format!("{path}/interpreters/{}/execute", interpreter["id"]);
    let execution = post(&execute, &json!({"code": "6 * 7"}));
    assert_eq!(execution["status"], "ok");
    let size = json!({"rows": 24, "columns": 80});
    let terminal =
        post(&format!("{path}/exec"), &json!({"argv": ["cat"], "terminal": size, "wait": 0}));
    assert_eq!(terminal["state"], "running");
    let ended = server.ask("DELETE", &format!("{path}/exec/{}", terminal["id"]), None);
    assert_eq!(ended.status, 204, "{ended:?}");

    let calls = [
        ("sandbox_create", &sandbox),
        ("sandbox_exec", &program),
        ("sandbox_interpreter", &interpreter),
        ("sandbox_execute", &execution),
        ("sandbox_exec", &terminal),
    ];
    let ids: Vec<&str> =
        calls.iter().map(|(_, answer)| answer["call_id"].as_str().expect("a call")).collect();
    until("the end of every call", || ids.iter().all(|id| state(&server, id) == "finished"));
    let listed = server.client(&["calls", "--json"]).worked().stdout;
    let audited = server.client(&["audit", "--json"]).worked().stdout;
    for ((tool, _), id) in calls.iter().zip(&ids) {
        let line = |text: &str| {
            let found = text.lines().find(|line| line.contains(id));
            found.unwrap_or_else(|| panic!("no line about {tool} {id} in {text}")).to_owned()
        };
        assert!(line(&listed).contains(tool), "{listed}");
        line(&audited);
        let predicate = verified(&place, &server, id);
        assert_eq!(predicate["tool"]["name"], *tool);
    }
    server.stop();
}

#[test]
fn what_ran_in_a_sandbox_of_a_killed_server_has_an_unknown_outcome_that_verifies() {
    let place = Place::new();
    let server = place.serve();
    let sandbox = server.ask("POST", "/v1/sandboxes", Some(&json!({}))).json();
    let path = format!("/v1/sandboxes/{}/exec", sandbox["id"].as_str().expect("an id"));
    let size = json!({"rows": 24, "columns": 80});
    let body = json!({"argv": ["cat"], "terminal": size, "wait": 0});
    let terminal = server.ask("POST", &path, Some(&body)).json();
    let id = terminal["call_id"].as_str().expect("a call");
    assert_eq!(state(&server, id), "running");
    server.kill();
    let server = place.serve();
    until("the call to be looked at", || state(&server, id) == "outcome_unknown");
    assert_eq!(verified(&place, &server, id)["state"], "outcome_unknown");
    server.stop();
}
