//! Tools.

use serde_json::json;

use crate::{
    skills::{BROKEN, GREET},
    support::{Plan, Server},
};

#[tokio::test]
async fn tools_are_listed_as_agents_need_them_and_broken_ones_with_their_reasons() {
    let skills = vec![("greet", GREET.to_vec()), ("bad", BROKEN.to_vec())];
    let plan = Plan::default().skills(skills);
    let server = Server::of(plan).await;
    let list = server.get("/v1/tools").await.json();
    let names: Vec<_> = list["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    let expected = [
        "approval_request",
        "artifact_read",
        "artifact_search",
        "artifact_write",
        "canvas_append",
        "code_execute",
        "diagram_render",
        "echo",
        "embed_text",
        "file_read",
        "greet",
        "http_fetch",
        "llm_generate",
        "packages_install",
        "sandbox_create",
        "sandbox_exec",
        "sandbox_execute",
        "sandbox_files",
        "sandbox_fork",
        "sandbox_interpreter",
        "sandbox_restart",
        "state_get",
        "state_set",
        "timestamp",
        "tool_discover",
        "tool_search",
    ];
    assert_eq!(names, expected);
    assert_eq!(list["count"], expected.len());
    let echo = &list["tools"][7];
    assert_eq!(echo["parameters"]["required"], json!(["text"]));
    assert!(echo["description"].is_string());
    assert_eq!(list["broken"][0]["name"], "bad");
    assert!(!list["broken"][0]["problems"].as_array().unwrap().is_empty());
    let text = list.to_string();
    assert!(!text.contains(&server.skills().display().to_string()), "no path of the host: {text}");
    server.stop().await;
}

#[tokio::test]
async fn one_tool_is_shown_whole() {
    let server = Server::start().await;
    let echo = server.get("/v1/tools/echo").await.json();
    assert_eq!((&echo["origin"], &echo["versions"][0]), (&json!("builtin"), &echo["version"]));
    let missing = server.get("/v1/tools/nope").await;
    assert_eq!((missing.status, missing.problem().as_str()), (404, "tool_not_found"));
    let missing = server.get("/v1/tools/echo?version=9.9.9").await;
    assert_eq!(missing.problem(), "tool_version_not_found");
    server.stop().await;
}

#[tokio::test]
async fn a_tool_is_switched_off_and_on_in_the_catalogue() {
    let server = Server::start().await;
    let item = async || {
        let list = server.get("/v1/tool-catalog").await.json();
        let items = list["items"].as_array().unwrap();
        items.iter().find(|item| item["name"] == "echo").unwrap().clone()
    };
    let before = item().await;
    assert_eq!(
        (&before["enabled"], &before["params"]["required"]),
        (&json!(true), &json!(["text"]))
    );
    // As a client of SomaAgent 01 sends it: the item that it was given, with the switch changed.
    let mut off = before.clone();
    off["enabled"] = json!(false);
    off.as_object_mut().unwrap().remove("name");
    for _ in 0..2 {
        let set = server.put("/v1/tool-catalog/echo", &off).await;
        assert_eq!(set.json(), json!({"ok": true, "name": "echo", "enabled": false}), "{set:?}");
    }
    let now = item().await;
    assert_eq!((&now["enabled"], &now["description"]), (&json!(false), &before["description"]));
    let call = json!({"tool": "echo", "args": {"text": "x"}});
    let refused = server.post("/v1/calls", &call).await;
    assert_eq!((refused.status, refused.problem().as_str()), (409, "tool_not_active"));
    let request = json!({"session_id": "s", "tool_name": "echo", "args": {"text": "x"}});
    let refused = server.post("/v1/tool/request", &request).await;
    assert_eq!((refused.status, refused.problem().as_str()), (409, "tool_not_active"));
    let on = server.put("/v1/tool-catalog/echo", &json!({"enabled": true})).await;
    assert_eq!(on.status, 200, "{on:?}");
    assert_eq!(item().await, before);
    assert_eq!(server.post("/v1/calls", &call).await.status, 200);
    let unknown = server.put("/v1/tool-catalog/eco", &json!({"enabled": true})).await;
    assert_eq!((unknown.status, unknown.problem().as_str()), (404, "tool_not_found"));
    for wrong in [json!({"enabled": 1}), json!({}), json!({"enabled": true, "description": "mine"})]
    {
        let answer = server.put("/v1/tool-catalog/echo", &wrong).await;
        assert_eq!(answer.status, 422, "{answer:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn tools_are_found_by_words_best_first() {
    let server = Server::of(Plan::default().skills(vec![("greet", GREET.to_vec())])).await;
    let names = async |query: &str| {
        let found = server.get(&format!("/v1/tools?query={query}")).await.json();
        let tools = found["tools"].as_array().unwrap().clone();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("greet").await, ["greet"]);
    assert_eq!(names("words").await[0], "greet", "by its tag");
    assert_eq!(names("sandbox+exec").await[0], "sandbox_exec");
    assert_eq!(names("sandbox+exec").await, names("SANDBOX%20exec").await);
    assert_eq!(names("nothing-like-this").await, [""; 0]);
    let wrong = server.get("/v1/tools?query=x&limit=0").await;
    assert_eq!(wrong.problem(), "query_invalid");
    server.stop().await;
}
