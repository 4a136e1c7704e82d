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
