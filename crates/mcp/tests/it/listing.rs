//! Tools and resources as one key sees them.

use ringfence_mcp::McpConfig;
use ringfence_testkit::{PlaneConfig, SkillFolder};
use serde_json::{Value, json};

use crate::support::{Server, text};

fn names(listed: &Value) -> Vec<String> {
    let tools = listed["result"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_are_listed_with_schemas_and_without_those_that_policy_denies() {
    let server = Server::asking().await;
    let key = server.agent().await;
    let listed = server.ask(&key, "tools/list", json!({})).await;
    let names = names(&listed);
    assert!(names.contains(&"echo".to_owned()), "{names:?}");
    assert!(names.contains(&"sandbox_exec".to_owned()), "{names:?}");
    assert!(names.contains(&"call_result".to_owned()), "{names:?}");
    assert!(!names.contains(&"http_fetch".to_owned()), "{names:?}");
    assert!(!names.contains(&"tools_search".to_owned()), "a small list needs no search");
    assert_eq!(listed["result"]["cacheScope"], "private");
    let echo = listed["result"]["tools"].as_array().unwrap();
    let echo = echo.iter().find(|tool| tool["name"] == "echo").unwrap();
    let entry = server.tools().get("echo", None).unwrap().clone();
    assert_eq!(echo["inputSchema"]["properties"], entry.tool.input_schema.to_value()["properties"]);
    assert_eq!(echo["outputSchema"]["type"], "object");

    // Control: the built-in rules hold it, so it is listed.
    let server = Server::start().await;
    let key = server.agent().await;
    let listed = server.ask(&key, "tools/list", json!({})).await;
    assert!(self::names(&listed).contains(&"http_fetch".to_owned()), "{listed}");
}

fn skill(name: &'static str, about: &'static str) -> SkillFolder {
    let files = vec![("skill.yaml", about), ("schema.json", SCHEMA), ("handler.py", HANDLER)];
    (name, files)
}

const SCHEMA: &str = r#"{"input": {"type": "object"}, "output": {"type": "object"}}"#;
const HANDLER: &str = "def run(**kwargs):\n    return {}\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_list_has_pages_in_order_and_a_search() {
    let config = McpConfig { page: 5, ..McpConfig::default() };
    let server = Server::with(PlaneConfig::default(), config).await;
    let key = server.agent().await;
    let (mut all, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let params = match &cursor {
            Value::Null => json!({}),
            cursor => json!({"cursor": cursor}),
        };
        let listed = server.ask(&key, "tools/list", params).await;
        all.extend(names(&listed));
        cursor = listed["result"]["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(all[..2], ["call_result", "tools_search"]);
    let rest = &all[2..];
    assert_eq!(rest.len(), server.tools().newest().count());
    assert!(rest.is_sorted(), "{rest:?}");

    let found = server.call(&key, "tools_search", json!({"query": "sandbox files"})).await;
    assert_eq!(found["structuredContent"]["tools"][0]["name"], "sandbox_files", "{found}");
    let none = server.call(&key, "tools_search", json!({"query": "zebra"})).await;
    assert_eq!(none["structuredContent"], json!({"matches": 0, "tools": []}));
    let wrong = server.call(&key, "tools_search", json!({"words": 1})).await;
    assert_eq!(wrong["isError"], true);
    let bad = server.ask(&key, "tools/list", json!({"cursor": "\u{1b}[2J"})).await;
    assert_eq!(bad["error"]["code"], -32602, "{bad}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn skills_and_receipts_are_resources_for_their_own_key() {
    let yaml = "name: shout\nversion: 1.0.0\ndescription: Says it loudly\n\
                handler: handler.run\nsafety_flags: [none]\n";
    let skills = vec![skill("shout", yaml)];
    let server =
        Server::with(PlaneConfig { skills, ..PlaneConfig::default() }, McpConfig::default()).await;
    let (key, other) = (server.agent().await, server.agent().await);
    let catalogue = server.tools();
    assert!(catalogue.broken().is_empty(), "{:?}", catalogue.broken());
    let listed = server.ask(&key, "resources/list", json!({})).await;
    assert_eq!(listed["result"]["resources"][0]["uri"], "ringfence://skills/shout", "{listed}");
    let read = server.ask(&key, "resources/read", json!({"uri": "ringfence://skills/shout"})).await;
    let shown = read["result"]["contents"][0]["text"].as_str().unwrap();
    assert!(shown.starts_with("# shout\n\nSays it loudly"), "{shown}");

    let called = server.call(&key, "echo", json!({"text": "hi"})).await;
    let receipt = json!({"uri": called["_meta"]["dev.ringfence/receipt"]});
    let read = server.ask(&key, "resources/read", receipt.clone()).await;
    let envelope = read["result"]["contents"][0]["text"].as_str().unwrap();
    let envelope: Value = serde_json::from_str(envelope).unwrap();
    assert_eq!(envelope["payloadType"], "application/vnd.in-toto+json");
    let foreign = server.ask(&other, "resources/read", receipt).await;
    assert_eq!(foreign["error"]["code"], -32602, "{foreign}");
    let id = crate::support::call_id(&called);
    let asked = server.call(&other, "call_result", json!({"call_id": id})).await;
    assert_eq!((asked["isError"].as_bool(), text(&asked).contains("no call")), (Some(true), true));
}

const GUIDE: &str = "---\nname: letters\ndescription: Counts letters.\n---\n# Letters\n\nRun it.\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_skills_are_resources_and_their_scripts_are_a_governed_tool() {
    let count = "import sys\nprint(len(sys.argv[1]), open('references/a b.txt').read())\n";
    let fails = "echo no >&2; exit 3\n";
    let letters = vec![
        ("SKILL.md", GUIDE),
        ("scripts/count.py", count),
        ("scripts/fails.sh", fails),
        ("references/a b.txt", "beside"),
    ];
    let advice = vec![("SKILL.md", "---\nname: advice\ndescription: Be kind.\n---\nBe kind.\n")];
    let skills = vec![("letters", letters), ("advice", advice)];
    let config = PlaneConfig { skills, ..PlaneConfig::sandboxed(crate::support::binary()) };
    let server = Server::with(config, McpConfig::default()).await;
    let key = server.agent().await;
    let catalogue = server.tools();
    assert!(catalogue.broken().is_empty(), "{:?}", catalogue.broken());

    let listed = server.ask(&key, "resources/list", json!({})).await;
    let resources = listed["result"]["resources"].as_array().unwrap();
    let uris: Vec<_> = resources.iter().map(|resource| resource["uri"].as_str().unwrap()).collect();
    assert!(uris.contains(&"ringfence://skills/letters"), "{uris:?}");
    assert!(uris.contains(&"ringfence://skills/advice"), "{uris:?}");
    let read = async |uri: &str| {
        let read = server.ask(&key, "resources/read", json!({ "uri": uri })).await;
        read["result"]["contents"][0]["text"].as_str().map(str::to_owned)
    };
    let text = read("ringfence://skills/letters").await.unwrap();
    assert!(text.contains("# Letters") && text.contains("letters/references/a%20b.txt"), "{text}");
    let file = read("ringfence://skills/letters/references/a%20b.txt").await;
    assert_eq!(file.as_deref(), Some("beside"));
    assert!(read("ringfence://skills/advice").await.unwrap().ends_with("Be kind.\n"));
    assert_eq!(read("ringfence://skills/letters/../advice/SKILL.md").await, None);
    assert_eq!(read("ringfence://skills/none/SKILL.md").await, None);

    // A guide is nothing to call; scripts declare nothing about themselves, so they are held.
    let listed = server.ask(&key, "tools/list", json!({})).await;
    assert!(names(&listed).contains(&"letters".to_owned()));
    assert!(!names(&listed).contains(&"advice".to_owned()));
    let run = async |args: Value| {
        let answer = server.call(&key, "letters", args).await;
        server.approve(&crate::support::call_id(&answer)).await;
        let id = crate::support::call_id(&answer);
        server.call(&key, "call_result", json!({"call_id": id, "wait_secs": 60})).await
    };
    let done = run(json!({"script": "scripts/count.py", "arguments": ["four"]})).await;
    assert_eq!(done["structuredContent"]["stdout"], "4 beside\n", "{done}");
    let failed = run(json!({"script": "scripts/fails.sh"})).await;
    assert_eq!(failed["structuredContent"]["exit_code"], 3, "{failed}");
    assert_eq!(failed["structuredContent"]["stderr"], "no\n", "{failed}");
    let outside = server.call(&key, "letters", json!({"script": "../../bin/true"})).await;
    assert_eq!(outside["isError"], true, "{outside}");
}
