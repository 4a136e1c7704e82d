//! Session sandboxes over HTTP, in real sandboxes.

mod calls;
mod files;
mod interpreters;
mod making;
mod programs;
mod terminal;

use ringfence_api::Api;
use ringfence_policy::Bundle;
use ringfence_types::Scope;
use serde_json::{Value, json};

use crate::support::{Answer, Plan, Server, send, with_json, within};

/// One event of a stream as a client reads it.
#[derive(Debug, Clone, PartialEq)]
struct Event {
    id: Option<String>,
    kind: String,
    data: Value,
}

fn events(text: &str) -> Vec<Event> {
    // What comes after the last empty line is not complete.
    let whole = text.rfind("\n\n").map_or("", |end| &text[..end]);
    let blocks = whole.split("\n\n").filter(|block| block.contains("data: "));
    blocks
        .map(|block| {
            let field = |name: &str| {
                block.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned)
            };
            let data = serde_json::from_str(&field("data: ").unwrap()).unwrap();
            Event { id: field("id: "), kind: field("event: ").unwrap(), data }
        })
        .collect()
}

/// A stream that is read as it comes.
struct Stream {
    response: reqwest::Response,
    text: String,
}

impl Stream {
    async fn of(request: reqwest::RequestBuilder) -> Self {
        let response = within("a stream", request.send()).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, text: String::new() }
    }

    /// Reads on until an event is the one that is looked for.
    async fn until(&mut self, found: impl Fn(&Event) -> bool) -> Event {
        within("the event", async {
            loop {
                if let Some(event) = events(&self.text).into_iter().find(&found) {
                    return event;
                }
                let chunk = self.response.chunk().await.unwrap();
                let chunk = chunk.unwrap_or_else(|| panic!("it ended: {}", self.text));
                self.text.push_str(std::str::from_utf8(&chunk).unwrap());
            }
        })
        .await
    }
}

/// Checks a refusal: its status and code.
fn refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.problem().as_str()), (status, code), "{}", answer.json());
}

async fn create(server: &Server, body: &Value) -> String {
    let answer = server.post("/v1/sandboxes", body).await;
    assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.bytes));
    let place = answer.header("location").unwrap().to_owned();
    assert_eq!(place, format!("/v1/sandboxes/{}", answer.json()["id"].as_str().unwrap()));
    place
}

async fn sh(server: &Server, place: &str, script: &str) -> Answer {
    let body = json!({"argv": ["/bin/sh", "-c", script]});
    server.post(&format!("{place}/exec"), &body).await
}

async fn put(server: &Server, place: &str, path: &str, content: &str) -> Answer {
    let request = server.request("PUT", &format!("{place}/files?path={path}"));
    send(request.body(content.to_owned())).await
}

#[tokio::test]
async fn a_sandbox_is_made_used_and_ended() {
    let server = Server::of(Plan::sandboxed()).await;
    let body = json!({"metadata": {"who": "me"}, "env": {"GREETING": "hi"}, "idle_secs": 60});
    let place = create(&server, &body).await;
    let shown = server.get(&place).await.json();
    assert_eq!((&shown["state"], &shown["metadata"]), (&json!("running"), &json!({"who": "me"})));
    assert_eq!(server.get("/v1/sandboxes").await.json()["count"], 1);

    let ran = sh(&server, &place, "echo $GREETING; echo oops >&2; exit 3").await;
    assert_eq!(ran.status, 200, "{ran:?}");
    let ran = ran.json();
    assert_eq!(
        (&ran["exit_code"], &ran["stdout"], &ran["stderr"]),
        (&json!(3), &json!("hi\n"), &json!("oops\n"))
    );
    let slow = json!({"argv": ["sleep", "600"], "timeout_secs": 0.2});
    assert_eq!(server.post(&format!("{place}/exec"), &slow).await.json()["timed_out"], true);
    let input = json!({"argv": ["cat"], "stdin": "typed"});
    assert_eq!(server.post(&format!("{place}/exec"), &input).await.json()["stdout"], "typed");

    assert_eq!(put(&server, &place, "dir/a.txt", "content").await.json()["count"], 7);
    assert_eq!(server.get(&format!("{place}/files?path=dir/a.txt")).await.bytes, b"content");
    let list = server.get(&format!("{place}/files?path=dir")).await.json();
    assert_eq!(
        (&list["entries"][0]["path"], &list["entries"][0]["kind"]),
        (&json!("dir/a.txt"), &json!("file"))
    );
    assert_eq!(sh(&server, &place, "cat dir/a.txt").await.json()["stdout"], "content");
    assert_eq!(server.delete(&format!("{place}/files?path=dir")).await.json()["count"], 2);
    assert_eq!(server.get(&format!("{place}/files?path=dir")).await.status, 404);

    assert_eq!(server.delete(&place).await.status, 204);
    assert_eq!(server.get(&place).await.status, 404);
    assert_eq!(server.get("/v1/sandboxes").await.json()["count"], 0);
    server.stop().await;
}

#[tokio::test]
async fn a_sandbox_can_be_paused_packed_and_copied() {
    let server = Server::of(Plan::sandboxed()).await;
    let place = create(&server, &json!({})).await;
    put(&server, &place, "kept", "first").await;
    let paused = send(server.request("POST", &format!("{place}/pause"))).await;
    assert_eq!((paused.status, &paused.json()["state"]), (200, &json!("paused")));
    let refused = sh(&server, &place, "true").await;
    assert_eq!((refused.status, refused.problem().as_str()), (409, "sandbox_paused"));
    let resumed = send(server.request("POST", &format!("{place}/resume"))).await;
    assert_eq!(resumed.json()["state"], "running");

    let snapshot = send(server.request("POST", &format!("{place}/snapshot"))).await;
    assert_eq!(snapshot.status, 200, "{snapshot:?}");
    let fork = send(server.request("POST", &format!("{place}/fork"))).await;
    assert_eq!(fork.status, 201, "{fork:?}");
    let fork = fork.header("location").unwrap().to_owned();
    put(&server, &place, "kept", "second").await;
    assert_eq!(server.get(&format!("{fork}/files?path=kept")).await.bytes, b"first");

    let request = server
        .request("POST", "/v1/sandboxes/restore")
        .header("content-type", "application/octet-stream");
    let restored = send(request.body(snapshot.bytes.clone())).await;
    assert_eq!(restored.status, 201, "{restored:?}");
    let restored = restored.header("location").unwrap().to_owned();
    assert_eq!(sh(&server, &restored, "cat kept").await.json()["stdout"], "first");
    let mut broken = snapshot.bytes;
    *broken.last_mut().unwrap() ^= 1;
    let request = server
        .request("POST", "/v1/sandboxes/restore")
        .header("content-type", "application/octet-stream");
    let refused = send(request.body(broken)).await;
    assert_eq!((refused.status, refused.problem().as_str()), (409, "sandbox_refused"));
    server.stop().await;
}

#[tokio::test]
async fn a_sandbox_of_another_tenant_looks_like_none() {
    let server = Server::of(Plan::sandboxed()).await;
    let place = create(&server, &json!({})).await;
    let stranger = server.key("other", &Scope::ALL).await;
    let document: Value = serde_json::from_str(&Api::openapi()).unwrap();
    let paths = document["paths"].as_object().unwrap().iter();
    let within: Vec<_> = paths.filter(|(path, _)| path.starts_with("/v1/sandboxes/{id}")).collect();
    assert!(within.len() > 25, "{}", within.len());
    for (path, item) in within {
        for method in item.as_object().unwrap().keys() {
            let rest = path.replace("/v1/sandboxes/{id}", "");
            let rest = rest.replace("{exec}", "1").replace("{interpreter}", "1");
            let rest = rest.replace("{stream}", "stdout");
            let ask = |place: String| {
                let request = server.bare(&method.to_uppercase(), &format!("{place}{rest}"));
                send(with_json(request.bearer_auth(&stranger), &json!({})))
            };
            let foreign = ask(place.clone()).await;
            let missing = ask(format!("/v1/sandboxes/{}", "0".repeat(32))).await;
            refused(&foreign, 404, "not_found");
            refused(&missing, 404, "not_found");
            assert_eq!(foreign.json()["detail"], missing.json()["detail"], "{method} {path}");
        }
    }
    let list = send(server.bare("GET", "/v1/sandboxes").bearer_auth(&stranger)).await.json();
    assert_eq!(list["count"], 0);
    assert_eq!(server.get(&place).await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn policy_decides_about_sandboxes() {
    let rules = |decision: &str| {
        format!(
            "package ringfence\n\ndecision := {{\"decision\": \"{decision}\", \"reasons\": \
             [{{\"rule\": \"no_boxes\", \"message\": \"not here\"}}]}} if \
             input.action == \"sandbox.create\"\n"
        )
    };
    let bundle = Bundle::from_files([("rules.rego", rules("deny"))]).unwrap();
    let server = Server::of(Plan::sandboxed().bundle(&bundle)).await;
    let refused = server.post("/v1/sandboxes", &json!({})).await;
    assert_eq!((refused.status, refused.problem().as_str()), (403, "policy_denied"));
    assert_eq!(refused.json()["reasons"][0]["rule"], "no_boxes");
    server.stop().await;

    // A sandbox that is held is a call like any other: nothing is made until a person says so.
    let bundle = Bundle::from_files([("rules.rego", rules("hold"))]).unwrap();
    let server = Server::of(Plan::sandboxed().bundle(&bundle)).await;
    let held = server.post("/v1/sandboxes", &json!({})).await;
    assert_eq!((held.status, &held.json()["state"]), (202, &json!("held")), "{held:?}");
    assert_eq!(held.json()["reasons"][0]["rule"], "no_boxes");
    let call = held.json()["call_id"].as_str().unwrap().to_owned();
    assert_eq!(held.header("location"), Some(format!("/v1/calls/{call}").as_str()));
    assert_eq!(server.get(&format!("/v1/calls/{call}")).await.json()["state"], "held");
    assert_eq!(server.get("/v1/sandboxes").await.json()["count"], 0);
    server.stop().await;
}

#[tokio::test]
async fn sandboxes_are_bounded_in_number_and_size() {
    let mut plan = Plan::sandboxed();
    plan.plane.tune = Box::new(|settings| settings.sandboxes.max_per_tenant = 1);
    let server = Server::of(plan).await;
    create(&server, &json!({"limits": {"memory_bytes": 67_108_864, "disk_bytes": 1_048_576}}))
        .await;
    let refused = server.post("/v1/sandboxes", &json!({})).await;
    assert_eq!((refused.status, refused.problem().as_str()), (429, "too_many_sandboxes"));
    let limits = json!({"memory_bytes": u64::MAX, "disk_bytes": 0, "network": "host", "terminals": 99, "x": 1});
    let body = json!({"limits": limits, "env": 5, "idle": 1});
    let refused = server.post("/v1/sandboxes", &body).await;
    assert_eq!((refused.status, refused.problem().as_str()), (422, "body_invalid"));
    assert_eq!(
        refused.pointers(),
        [
            "/limits/network",
            "/limits/memory_bytes",
            "/limits/disk_bytes",
            "/limits/terminals",
            "/limits/x",
            "/env",
            "/idle"
        ]
    );
    assert!(refused.json().to_string().contains("expected `none` or `loopback`"), "{refused:?}");
    server.stop().await;
}
