//! Plans of 50 steps on a server that is killed again and again: each step is one call, and the result is that of an
//! undisturbed run.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};

use crate::support::{Place, Server, until};

/// Milliseconds from a start to the kill.
const MOMENTS: [u64; 5] = [400, 150, 900, 60, 650];
const LANES: usize = 12;

/// Four steps in each of twelve lanes, and two that join them.
fn plan() -> Value {
    let mut steps = Vec::new();
    let mut files = serde_json::Map::new();
    for lane in 0..LANES {
        let path = format!("in{lane}.txt");
        steps.push(json!({"id": format!("w{lane}"), "type": "file:write",
            "payload": {"path": path, "content": format!("{lane} {lane}\n")}}));
        steps.push(json!({"id": format!("c{lane}"), "type": "command", "dependsOn": [format!("w{lane}")],
            "outputs": ["out.txt"],
            "payload": {"command": format!("sleep 0.1; tr ' ' '+' < {path} > out.txt; cat out.txt")}}));
        steps.push(json!({"id": format!("e{lane}"), "type": "tool", "payload": {
            "tool": "echo", "args": {"text": format!("${{steps.c{lane}.outputs.stdout}}")}}}));
        steps.push(json!({"id": format!("p{lane}"), "type": "code:execute",
            "payload": {"language": "bash", "code": "wc -c", "stdin": format!("${{steps.e{lane}.outputs.message}}")}}));
        files.insert(
            format!("{lane:02}.txt"),
            json!(format!("${{steps.c{lane}.files['out.txt']}}")),
        );
    }
    let needs: Vec<_> = (0..LANES).map(|lane| format!("p{lane}")).collect();
    steps.push(json!({"id": "all", "type": "command", "dependsOn": needs, "files": files,
        "outputs": [], "payload": {"command": "cat [0-9]*.txt"}}));
    steps.push(json!({"id": "said", "type": "tool", "payload": {
        "tool": "echo", "args": {"text": "${steps.all.outputs.stdout}"}}}));
    json!({"goal": "join twelve lanes", "maxParallel": 4, "run": true, "steps": steps})
}

fn start(server: &Server) -> String {
    let made = server.ask("POST", "/v1/plans", Some(&plan()));
    assert_eq!(made.status, 201, "{made:?}");
    made.json()["id"].as_str().expect("an id").to_owned()
}

fn ended(server: &Server, id: &str) -> Value {
    let read = || server.ask("GET", &format!("/v1/plans/{id}"), None).json();
    until("the plan has ended", || read()["status"] != "in-progress");
    read()
}

/// Calls of a plan by step, and what the last one said.
fn calls(server: &Server, plan: &Value) -> (BTreeMap<String, usize>, Value) {
    let (mut counts, mut query) = (BTreeMap::new(), "/v1/calls?limit=200".to_owned());
    loop {
        let page = server.ask("GET", &query, None).json();
        for call in page["calls"].as_array().expect("calls") {
            if call["metadata"]["plan"] == plan["id"] {
                let step = call["metadata"]["step"].as_str().expect("a step").to_owned();
                *counts.entry(step).or_default() += 1;
            }
        }
        match page["next_cursor"].as_str() {
            Some(next) => query = format!("/v1/calls?limit=200&cursor={next}"),
            None => break,
        }
    }
    let steps = plan["steps"].as_array().expect("steps");
    let last = steps.last().expect("the last")["calls"][0]["call"].as_str().expect("its call");
    let said = server.ask("GET", &format!("/v1/calls/{last}"), None).json();
    (counts, said["result"]["message"].clone())
}

#[test]
fn a_plan_of_fifty_steps_survives_kills_and_each_step_is_one_call() {
    let place = Place::new();
    let mut server = place.serve();
    let undisturbed = start(&server);
    let plan = ended(&server, &undisturbed);
    assert_eq!(plan["status"], "completed", "{plan:#}");
    let (counts, expected) = calls(&server, &plan);
    assert_eq!((counts.len(), counts.values().max()), (50, Some(&1)));
    assert_eq!(expected.as_str().expect("text").lines().count(), LANES);
    let id = start(&server);
    let mut unfinished = 0;
    for moment in MOMENTS {
        // The moment is the test's input, not a wait for anything.
        std::thread::sleep(Duration::from_millis(moment));
        let now = server.ask("GET", &format!("/v1/plans/{id}"), None).json();
        unfinished += usize::from(now["status"] == "in-progress");
        server.kill();
        server = place.serve();
    }
    let plan = ended(&server, &id);
    assert_eq!(plan["status"], "completed", "{plan:#}");
    let (counts, said) = calls(&server, &plan);
    assert_eq!((counts.len(), counts.values().max()), (50, Some(&1)), "{counts:?}");
    assert_eq!(said, expected);
    assert!(unfinished > 0, "no kill met the plan under way");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_plan_in_yaml_is_run_from_the_command_line() {
    let place = Place::new();
    let server = place.serve();
    let file = place.path("plan.yaml");
    let yaml = "goal: greet\nsteps:\n- id: a\n  type: command\n  payload: {command: printf hello}\n\
                - id: b\n  type: tool\n  payload: {tool: echo, args: {text: '${steps.a.outputs.stdout} you'}}\n\
                - id: c\n  type: command\n  forEach: [x, y]\n  payload: {command: 'test \"$I$X\" = 0x -o \"$I$X\" = 1y', \
                env: {I: '${index}', X: '${item}'}}\n\
                - {id: d, type: command, dependsOn: [c], payload: {command: 'echo oops >&2; exit 3'}, retries: 1}\n";
    std::fs::write(&file, yaml).expect("a file");
    let file = file.display().to_string();
    let preview = server.client(&["plan", "preview", &file]).worked();
    assert!(preview.stdout.contains("code_execute"), "{}", preview.stdout);
    let run = server.client(&["plan", "run", &file]);
    assert!(run.stdout.contains("step:complete b"), "{}", run.stdout);
    assert!(run.stdout.contains("step:complete c"), "{}", run.stdout);
    // A program that ends with another code than 0 has failed.
    run.failed(1, &["the plan is failed", "oops"]);
    let list = server.client(&["plan", "ls", "--json"]).worked();
    let listed: Value = serde_json::from_str(list.stdout.trim()).expect("one plan");
    let id = listed["id"].as_str().expect("an id");
    let step = ["plan", "step", id, "d", "edit", "--payload", r#"{"command": "true"}"#];
    server.client(&step).worked();
    server.client(&["plan", "resume", id]).worked();
    server.client(&["plan", "watch", id]).worked();
    let shown = server.client(&["plan", "show", id]).worked();
    assert!(shown.stdout.contains("+ d command: completed, attempt 3"), "{}", shown.stdout);
    std::fs::write(place.path("plan.yaml"), "steps:\n- {type: comand, payload: {}}\n")
        .expect("a file");
    let refused = server.client(&["plan", "run", &file]);
    refused.failed(2, &["did you mean `command`?"]);
    server.stop();
}
