//! The guide to skills, tried sentence by sentence.

use serde_json::{Value, json};

use crate::support::{Plan, Server, within};

const GUIDE: &str = include_str!("../../../../docs/skills.md");
const NONE: &str = "safety_flags: [none]";
const ANY: &str = r#"{"input": {"type": "object"}, "output": {}}"#;

/// The fenced block after the line that names a file.
fn block(file: &str) -> &'static str {
    let (_, rest) = GUIDE.split_once(&format!("`skills/word_count/{file}`\n\n```")).unwrap();
    let (_, rest) = rest.split_once('\n').unwrap();
    rest.split_once("\n```").unwrap().0
}

type Folder = (&'static str, Vec<(&'static str, &'static str)>);

/// A folder with these flags or other lines, and this handler.
fn folder(name: &'static str, lines: &str, handler: &'static str) -> Folder {
    let yaml = format!(
        "name: {name}\nversion: 1.0.0\ndescription: A test.\nhandler: handler.run\n{lines}\n"
    );
    // A plan lives as long as its test.
    let yaml: &'static str = Box::leak(yaml.into_boxed_str());
    (name, vec![("skill.yaml", yaml), ("schema.json", ANY), ("handler.py", handler)])
}

async fn call(server: &Server, tool: &str, args: Value) -> Value {
    server.post("/v1/calls", &json!({"tool": tool, "args": args})).await.json()
}

#[tokio::test]
async fn the_complete_example_answers_as_it_says() {
    let files = ["skill.yaml", "schema.json", "handler.py"];
    let files = files.into_iter().map(|file| (file, block(file))).collect();
    let server = Server::of(Plan::sandboxed().skills(vec![("word_count", files)])).await;
    let input = json!({"text": "the cat and the hat", "top": 1});
    let output = json!({"total": 5, "most_frequent": [{"word": "the", "count": 2}]});
    assert!(GUIDE.contains(&format!("input: {}", r#"{"text": "the cat and the hat", "top": 1}"#)));
    assert_eq!(call(&server, "word_count", input).await["result"], output);
    let misspelt = call(&server, "word_count", json!({"text": "x", "tap": 1})).await;
    assert_eq!(misspelt["code"], "args_invalid");
    let shown = server.get("/v1/tools/word_count").await.json();
    assert_eq!(shown["limits"]["wall_ms"], 5_000, "{}", shown["limits"]);
    server.stop().await;
}

#[tokio::test]
async fn flags_decide_as_the_table_says() {
    let run = "def run():\n    return 1\n";
    let skills = vec![
        folder("f_none", "safety_flags: [none]", run),
        folder("f_empty", "", run),
        folder("f_pii_risk", "safety_flags: [pii_risk]", run),
        folder("f_file_system", "safety_flags: [file_system]", run),
        folder("f_side_effect", "safety_flags: [side_effect]", run),
        folder("f_external_call", "safety_flags: [external_call]", run),
        folder("f_network_access", "safety_flags: [network_access]", run),
        folder("f_several", "safety_flags: [none, side_effect]", run),
        folder("f_approval", "safety_flags: [none]\nrequires_approval: true", run),
        folder("f_other", "safety_flags: [harmless]", run),
    ];
    let server = Server::of(Plan::sandboxed().skills(skills)).await;
    for (tool, state) in [
        ("f_none", "finished"),
        ("f_empty", "held"),
        ("f_pii_risk", "finished"),
        ("f_file_system", "finished"),
        ("f_side_effect", "held"),
        ("f_external_call", "held"),
        ("f_network_access", "held"),
        ("f_several", "held"),
        ("f_approval", "held"),
    ] {
        assert_eq!(call(&server, tool, json!({})).await["state"], state, "{tool}");
    }
    assert_eq!(call(&server, "f_other", json!({})).await["code"], "tool_broken");
    server.stop().await;
}

#[tokio::test]
async fn handlers_are_called_as_the_list_says() {
    let skills = vec![
        folder(
            "kinds",
            "safety_flags: [none]\nx-own: {a: 1}",
            "def run(**args):\n    return {k: type(v).__name__ for k, v in args.items()}\n",
        ),
        folder(
            "later",
            NONE,
            "import asyncio\nasync def run():\n    await asyncio.sleep(0)\n    return [1, 'two']\n",
        ),
        folder("fails", NONE, "def run():\n    raise ValueError('told to the caller')\n"),
        folder(
            "prints",
            NONE,
            "def run():\n    print('{\"forged\": true}')\n    return {'ok': True}\n",
        ),
        folder("forgets", NONE, "n = 0\ndef run():\n    global n\n    n += 1\n    return n\n"),
        folder("defaults", NONE, "def run(top=3):\n    return top\n"),
        folder(
            "offline",
            "safety_flags: [none]",
            "import socket\ndef run():\n    try:\n        socket.create_connection(('1.1.1.1', 53), 2)\n        return 'reached'\n    except OSError:\n        return 'no network'\n",
        ),
        folder("bad_limit", "limits: {max_memory: 5}", "def run():\n    return 1\n"),
        folder("bad_key", "safety_flag: [none]", "def run():\n    return 1\n"),
        ("only_words", vec![("SKILL.md", "# Words")]),
        ("nothing", vec![("README", "no skill")]),
        (".hidden", folder("hidden", NONE, "def run():\n    return 1\n").1),
    ];
    let server = Server::of(Plan::sandboxed().skills(skills)).await;
    let result = |tool: &'static str, args: Value| {
        let server = &server;
        async move { call(server, tool, args).await["result"].clone() }
    };
    let all = json!({"a": {}, "b": [], "c": "x", "d": 1, "e": 0.5, "f": true, "g": null});
    let kinds = json!({"a": "dict", "b": "list", "c": "str", "d": "int", "e": "float", "f": "bool", "g": "NoneType"});
    assert_eq!(result("kinds", all).await, kinds);
    assert_eq!(result("later", json!({})).await, json!([1, "two"]));
    assert_eq!(result("prints", json!({})).await, json!({"ok": true}));
    for _ in 0..2 {
        assert_eq!(result("forgets", json!({})).await, json!(1), "nothing is kept");
    }
    assert_eq!(result("defaults", json!({})).await, json!(3));
    assert_eq!(result("offline", json!({})).await, json!("no network"));
    let failed = call(&server, "fails", json!({})).await;
    assert_eq!(failed["error"]["code"], "handler_failed");
    assert!(
        failed["error"]["message"].as_str().unwrap().ends_with("ValueError: told to the caller")
    );
    for (tool, code) in [
        ("bad_limit", "tool_broken"),
        ("bad_key", "tool_broken"),
        ("only_words", "tool_broken"),
        ("nothing", "tool_not_found"),
        ("hidden", "tool_not_found"),
    ] {
        assert_eq!(call(&server, tool, json!({})).await["code"], code, "{tool}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_handler_with_a_syntax_error_is_listed_as_broken_when_it_is_loaded() {
    let evil =
        "import os\nos.environ['X'] = open('/nonexistent').read()\ndef run():\n    return 1\n";
    let skills = vec![
        folder("typo", NONE, "def run()\n    return 1\n"),
        // It would fail if it were executed; it is only compiled.
        folder("fails_at_load", NONE, evil),
    ];
    let server = Server::of(Plan::sandboxed().skills(skills)).await;
    let mut changes = server.registry.changes();
    within("the check", async {
        while server.registry.catalogue().broken().is_empty() {
            changes.changed().await.unwrap();
        }
    })
    .await;
    let broken = server.get("/v1/tools").await.json()["broken"].as_array().unwrap().clone();
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert_eq!(broken[0]["name"], "typo");
    let problem = broken[0]["problems"][0].as_str().unwrap();
    assert!(problem.starts_with("handler.py line 1: "), "{problem}");
    assert_eq!(call(&server, "typo", json!({})).await["code"], "tool_broken");
    server.stop().await;
}
