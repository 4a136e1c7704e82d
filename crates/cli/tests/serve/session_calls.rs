//! Session sandboxes through the binary: what runs in one is on record like everything else.

use serde_json::{Value, json};

use crate::support::{Place, command, ran, shown, until};

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
    let is_over = |id: &str| {
        server.ask("GET", &format!("/v1/calls/{id}"), None).json()["state"] == "finished"
    };
    until("the end of every call", || ids.iter().all(|id| is_over(id)));
    let listed = server.client(&["calls", "--json"]).worked().stdout;
    let audited = server.client(&["audit", "--json"]).worked().stdout;
    for ((tool, _), id) in calls.iter().zip(&ids) {
        let line = |text: &str| {
            let found = text.lines().find(|line| line.contains(id));
            found.unwrap_or_else(|| panic!("no line about {tool} {id} in {text}")).to_owned()
        };
        assert!(line(&listed).contains(tool), "{listed}");
        line(&audited);
        let file = shown(&place.path(&format!("{id}.json")));
        server.client(&["export", id, "-o", &file]).worked();
        let object = ran(&mut command(&["verify", &file, "--json"])).worked().json();
        assert_eq!(object["outcome"], "verified");
        assert_eq!(object["entries"][0]["predicate"]["tool"]["name"], *tool);
    }
    server.stop();
}
