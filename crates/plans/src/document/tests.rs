use serde_json::json;

use super::*;

fn problems(tree: Value) -> Vec<String> {
    parse(&tree).err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

fn command(id: &str, needs: &[&str]) -> Value {
    json!({"id": id, "type": "command", "payload": {"command": "true"}, "dependsOn": needs})
}

#[test]
fn a_document_of_all_types_is_read() {
    let document = json!({"goal": "all", "steps": [
        {"id": "w", "type": "file:write", "payload": {"path": "a.txt", "content": "x"}},
        {"id": "r", "type": "file:read", "dependsOn": ["w"], "payload": {"path": "a.txt"}},
        {"id": "c", "type": "command", "payload": {"command": "cat b", "cwd": "sub"},
         "files": {"b": "${steps.w.files['a.txt']}"}, "outputs": ["*.csv"], "retries": 2, "timeout": 5},
        {"id": "p", "type": "code:execute", "payload": {"language": "python", "code": "f'${x}'"},
         "forEach": ["a", "b"]},
        {"id": "t", "type": "tool", "payload": {"tool": "echo", "args": {"text": "${steps.c.outputs.stdout}"}},
         "if": {"value": "${steps.c.outputs.exitCode}", "equals": 0}},
        {"id": "a", "type": "approval", "payload": {"message": "go?"}},
        {"id": "z", "type": "wait", "payload": {"seconds": 3}, "dependsOn": "a"},
    ]});
    let document = parse(&document).unwrap();
    let needs: Vec<_> = document.steps.iter().map(|step| step.needs.len()).collect();
    assert_eq!(needs, [0, 1, 1, 0, 1, 0, 1]);
    assert_eq!(document.before("r").iter().map(|step| step.id.as_str()).collect::<Vec<_>>(), ["w"]);
    assert_eq!(document.after("w"), ["r", "c", "t"]);
}

#[test]
fn all_problems_are_named_at_once() {
    let found = problems(json!({"gaol": "x", "steps": [
        {"id": "a", "type": "comand", "payload": {}},
        {"id": "b", "type": "command", "payload": {"comand": "x"}, "dependsOnn": []},
        {"id": "b b", "type": "llm", "payload": {}},
        {"id": "c", "type": "code:execute", "payload": {"language": "typescript", "code": "1"}},
        {"id": "d", "type": "wait", "payload": {"seconds": 0}, "retries": 11, "workspace": "shared"},
    ]}));
    let expected = [
        "/gaol: unknown field; did you mean `goal`?",
        "/steps/0/type: unknown type; did you mean `command`?",
        "/steps/1/dependsOnn: unknown field; did you mean `dependsOn`?",
        "/steps/1/payload/comand: unknown field; did you mean `command`?",
        "/steps/1/payload/command: a step of type `command` needs it",
        "/steps/2/id: must be 1 to 64",
        "/steps/2/type: a model is asked by a step of type `tool`",
        "/steps/3/payload/language: `typescript` does not run here",
        "/steps/4/payload/seconds: must be a whole number",
        "/steps/4/retries: must be a whole number from 0 to 10",
        "/steps/4/workspace: steps share no workspace",
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found} is not {expected}");
    }
}

#[test]
fn cycles_and_dangling_references_are_problems() {
    let cycle =
        problems(json!({"steps": [command("a", &["b"]), command("b", &["a"]), command("c", &[])]}));
    assert_eq!(cycle, ["/steps: these steps wait for each other: a, b"]);
    let own = problems(json!({"steps": [command("a", &["a"])]}));
    assert_eq!(own, ["/steps: these steps wait for each other: a"]);
    let dangling = problems(json!({"steps": [command("fetch", &[]), command("b", &["fetsh"])]}));
    assert_eq!(dangling, ["/steps/1: there is no step `fetsh`; did you mean `fetch`?"]);
    let twice = problems(json!({"steps": [command("a", &[]), command("a", &[])]}));
    assert_eq!(twice, ["/steps/1/id: step 0 has the id `a` too"]);
}

#[test]
fn values_are_not_written_into_programs_and_items_need_a_fan_out() {
    let found = problems(json!({"steps": [
        command("a", &[]),
        {"id": "b", "type": "command", "payload": {"command": "echo ${steps.a.outputs.stdout}"}},
        {"id": "c", "type": "command", "payload": {"command": "echo ${item}", "env": {"X": "${item}"}}},
    ]}));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("/steps/1/payload/command: no value is written into a program"));
    assert!(
        found[1].starts_with("/steps/2/payload/env/X: `${item}` and `${index}` need `forEach`")
    );
}

#[test]
fn yaml_is_read_like_json() {
    let yaml = b"goal: g\nsteps:\n- id: a\n  type: command\n  payload: {command: 'echo 1'}\n";
    let tree = parse_text(yaml).unwrap();
    assert_eq!(
        tree,
        json!({"goal": "g", "steps": [
            {"id": "a", "type": "command", "payload": {"command": "echo 1"}},
        ]})
    );
    assert!(parse(&tree).is_ok());
    assert!(parse_text(b"a: [").is_err());
    assert!(parse_text(b"{\"a\": 1, \"a\": 2}").is_err());
}
