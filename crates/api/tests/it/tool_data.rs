//! Data that tools keep between their calls: files in `/data`, within their quota.

use ringfence_policy::Bundle;
use ringfence_types::Scope;
use serde_json::{Value, json};

use crate::support::{Plan, Server, send, with_json};

fn allow_all() -> Bundle {
    let rules = "package ringfence\n\ndecision := {\"decision\": \"allow\", \"reasons\": []}\n";
    Bundle::from_files([("allow.rego", rules)]).unwrap()
}

/// A tool that runs a shell script with what `/data` has from earlier calls.
fn manifest(name: &str, storage: &str) -> String {
    format!(
        "name: {name}\nversion: 1.0.0\ndescription: Runs a script.\n\
         parameters_schema: {{type: object, properties: {{script: {{type: string}}}}, required: [script]}}\n\
         permissions: {{storage: {storage}, resources: {{maxMemoryMB: 128}}}}\n\
         execution:\n  type: native\n  entrypoint: [bash, run.sh]\n  files:\n    run.sh: |\n      \
         script=$(python3 -c 'import json,sys; print(json.load(sys.stdin)[\"script\"])')\n      \
         eval \"$script\"\n"
    )
}

async fn server() -> Server {
    Server::of(Plan::sandboxed().bundle(&allow_all())).await
}

async fn install(server: &Server, name: &str, storage: &str) {
    let path = "/v1/tool-imports?kind=manifest&source=test";
    let request = server.request("POST", path).header("content-type", "application/octet-stream");
    let imported = send(request.body(manifest(name, storage))).await;
    assert_eq!(imported.status, 201, "{imported:?}");
    let path = format!("/v1/tools/{name}/approve");
    let approved = server.post(&path, &json!({"why": "a test"})).await;
    assert_eq!(approved.status, 200, "{approved:?}");
}

async fn run_by(server: &Server, key: &str, tool: &str, script: &str) -> Value {
    let body = json!({"tool": tool, "args": {"script": script}, "wait": 60});
    send(with_json(server.bare("POST", "/v1/calls").bearer_auth(key), &body)).await.json()
}

async fn run(server: &Server, tool: &str, script: &str) -> Value {
    run_by(server, &server.admin, tool, script).await
}

fn printed(call: &Value) -> &str {
    call["result"]["stdout"].as_str().unwrap_or_else(|| panic!("{call}"))
}

const KEPT: &str = "{persistent: true, maxSizeMB: 1}";

#[tokio::test]
async fn files_survive_calls_and_tenants_are_walls() {
    let server = server().await;
    install(&server, "keeper", KEPT).await;
    let write =
        "mkdir -p /data/a; echo one > /data/a/x; echo two > /data/y; ln -s y /data/link; echo ok";
    assert_eq!(printed(&run(&server, "keeper", write).await), "ok\n");
    let next =
        run(&server, "keeper", "cat /data/a/x; ls /data; rm /data/y; echo 1 >> /data/a/x").await;
    assert_eq!(printed(&next), "one\na\ny\n");
    assert_eq!(printed(&run(&server, "keeper", "ls /data; cat data/a/x").await), "a\none\n1\n");
    let other = server.key("acme", &[Scope::Call]).await;
    assert_eq!(printed(&run_by(&server, &other, "keeper", "ls -A /data; echo end").await), "end\n");
    let failed = run(&server, "keeper", "echo kept > /data/z; exit 3").await;
    assert_eq!(failed["error"]["code"], "handler_failed", "{failed}");
    assert_eq!(printed(&run(&server, "keeper", "cat /data/z").await), "kept\n");

    let listed = server.get("/v1/tools/keeper/data").await.json();
    let names: Vec<_> = listed["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["name"].as_str().unwrap())
        .collect();
    assert_eq!((names, &listed["bytes"]), (vec!["a/x", "z"], &json!(11)), "{listed}");
    let copy = server.get("/v1/tools/keeper/data?content=true").await.json();
    assert_eq!(copy["files"][1]["content"], "a2VwdAo=", "{copy}");
    let removed = server.delete("/v1/tools/keeper/data").await.json();
    assert_eq!(removed["removed"], 2);
    assert_eq!(printed(&run(&server, "keeper", "ls -A /data; echo end").await), "end\n");
}

#[tokio::test]
async fn a_quota_is_kept_and_what_is_beyond_it_changes_nothing() {
    let server = server().await;
    install(&server, "keeper", "{persistent: true, maxSizeMB: 2}").await;
    let grants = json!({"why": "less", "grants": {"storage_bytes": 1000}});
    let granted = server.post("/v1/tools/keeper/grant", &grants).await;
    assert_eq!(granted.status, 200, "{granted:?}");
    assert_eq!(printed(&run(&server, "keeper", "echo small > /data/a; echo ok").await), "ok\n");
    for script in [
        "head -c 1000 /dev/zero > /data/b; echo ok",
        "head -c 1500000 /dev/zero > /data/b; rm /data/a; echo ok",
        "for i in $(seq 0 1000); do : > /data/$i; done; echo ok",
        "mkdir -p /data/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17; : > /data/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/x; echo ok",
    ] {
        let refused = run(&server, "keeper", script).await;
        assert_eq!(refused["error"]["code"], "storage_refused", "{script}: {refused}");
    }
    assert_eq!(printed(&run(&server, "keeper", "ls /data; cat /data/a").await), "a\nsmall\n");
}

#[tokio::test]
async fn nothing_is_kept_without_a_grant() {
    let server = server().await;
    install(&server, "keeper", KEPT).await;
    let grants = json!({"why": "none", "grants": {}});
    assert_eq!(server.post("/v1/tools/keeper/grant", &grants).await.status, 200);
    let nothing = run(&server, "keeper", "echo x > /data/a 2> /dev/null || echo refused").await;
    assert_eq!(printed(&nothing), "refused\n");
    install(&server, "plain", "{persistent: false}").await;
    assert_eq!(
        printed(&run(&server, "plain", "mkdir -p data; echo x > data/a; echo ok").await),
        "ok\n"
    );
    assert_eq!(printed(&run(&server, "plain", "ls /data/ 2> /dev/null; echo end").await), "end\n");
}

#[tokio::test]
async fn a_withdrawn_tool_takes_its_data_along_if_asked_for() {
    let server = server().await;
    install(&server, "keeper", KEPT).await;
    assert_eq!(printed(&run(&server, "keeper", "echo x > /data/a; echo ok").await), "ok\n");
    let wrong = json!({"why": "a test", "delete_data": true});
    assert_eq!(server.post("/v1/tools/keeper/disable", &wrong).await.status, 422);
    let kept = server.post("/v1/tools/keeper/revoke", &json!({"why": "a test"})).await;
    assert_eq!(kept.status, 200, "{kept:?}");
    assert_eq!(server.get("/v1/tools/keeper/data").await.json()["files"][0]["name"], "a");
    install(&server, "keeper", KEPT).await;
    assert_eq!(printed(&run(&server, "keeper", "cat /data/a").await), "x\n");
    let gone = server.post("/v1/tools/keeper/revoke", &wrong).await;
    assert_eq!(gone.status, 200, "{gone:?}");
    assert_eq!(server.get("/v1/tools/keeper/data").await.json()["files"], json!([]));
}
