//! The skills API, field by field.

use expect_test::expect;
use serde_json::{Value, json};

use crate::support::{Plan, Server, send};

const YAML: &str = "name: greet\nversion: 1.2.0\ndescription: Greets.\nhandler: handler.greet\n\
                    safety_flags: [none]\ntags: [demo, words]\n";
const SCHEMA: &str = r#"{"input":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false},"output":{"type":"object","properties":{"greeting":{"type":"string"}},"required":["greeting"]}}"#;
const HANDLER: &str = "def greet(name):\n    return {'greeting': 'Hello ' + name}\n";

pub(crate) const GREET: &[(&str, &str)] =
    &[("skill.yaml", YAML), ("schema.json", SCHEMA), ("handler.py", HANDLER)];
pub(crate) const BROKEN: &[(&str, &str)] = &[("skill.yaml", "name: [")];

fn with_greet() -> Plan {
    Plan::default().skills(vec![("greet", GREET.to_vec())])
}

#[tokio::test]
async fn the_service_says_how_it_is() {
    let server = Server::of(with_greet()).await;
    let root = server.get("/").await.json();
    let expected = json!({
        "service": "code-executor", "status": "healthy", "skills_loaded": 1, "docs": "/docs",
    });
    assert_eq!(root, expected);
    let health = server.get("/health").await.json();
    let expected = json!({
        "status": "healthy", "registry_loaded": true, "executor_ready": true, "skills_count": 1,
    });
    assert_eq!(health, expected);
    server.stop().await;
}

#[tokio::test]
async fn skills_are_listed_and_shown() {
    let server = Server::of(with_greet()).await;
    let list = server.get("/skills/list").await.json();
    assert_eq!(list["total"], 1);
    let skill = &list["skills"][0];
    let names: Vec<_> = skill.as_object().unwrap().keys().map(String::as_str).collect();
    for name in [
        "name",
        "version",
        "description",
        "safety_flags",
        "requires_approval",
        "input_schema",
        "output_schema",
        "handler_path",
        "tags",
        "created_at",
    ] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    assert!(skill["created_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(skill["handler_path"], "handler.greet");
    let total = |path: &'static str| {
        let server = &server;
        async move { server.get(path).await.json()["total"].clone() }
    };
    assert_eq!(total("/skills/list?tags=other&tags=words").await, 1);
    assert_eq!(total("/skills/list?tags=other").await, 0);
    assert_eq!(total("/skills/list?safety_flag=none").await, 1);
    assert_eq!(total("/skills/list?safety_flag=side_effect").await, 0);
    assert_eq!(&server.get("/skills/greet").await.json(), skill);
    let schema = server.get("/skills/greet/schema").await.json();
    assert_eq!((&schema["skill_name"], &schema["version"]), (&json!("greet"), &json!("1.2.0")));
    assert_eq!(schema["input_schema"], skill["input_schema"]);
    let missing = server.get("/skills/nope").await;
    assert_eq!((missing.status, &missing.json()["detail"]), (404, &json!("Skill not found: nope")));
    server.stop().await;
}

/// An execution without what differs from run to run.
fn steady(mut result: Value) -> String {
    let id = result["execution_id"].clone();
    assert_eq!(result["provenance"]["execution_id"], id);
    assert_eq!(result["provenance"]["inputs_hash"], result["inputs_hash"]);
    for path in [
        "/execution_id",
        "/provenance/execution_id",
        "/provenance/timestamp",
        "/execution_time_ms",
        "/provenance/execution_time_ms",
        "/logs/0/timestamp",
        "/logs/1/timestamp",
    ] {
        let value = result.pointer_mut(path).unwrap_or_else(|| panic!("{path}"));
        if path.ends_with("timestamp") {
            assert!(value.as_str().unwrap().ends_with('Z'));
        }
        *value = json!("…");
    }
    if let Some(call) = result.pointer_mut("/error/details/call") {
        *call = json!("…");
    }
    serde_json::to_string(&result).unwrap()
}

async fn execute(server: &Server, body: &Value) -> Value {
    let answer = server.post("/skills/execute", body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

#[tokio::test]
async fn an_execution_that_cannot_begin_is_a_result() {
    let server = Server::of(with_greet()).await;
    let unknown = execute(&server, &json!({"skill": "no such", "args": {}, "actor_id": "a"})).await;
    expect![[r#"{"error":{"code":"skill_not_found","message":"Skill not found: no such"},"execution_id":"…","execution_time_ms":"…","inputs_hash":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","logs":[{"level":"INFO","message":"Executing skill: no such","timestamp":"…"},{"context":{"code":"skill_not_found"},"level":"ERROR","message":"Skill not found: no such","timestamp":"…"}],"outputs_hash":"","provenance":{"actor_id":"a","actor_type":null,"error_message":"Skill not found: no such","execution_id":"…","execution_time_ms":"…","inputs_hash":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","outputs_hash":"","skill_name":"no such","skill_version":"unknown","success":false,"timestamp":"…","tool_ids":[]},"result":null,"skill":"no such","success":false}"#]].assert_eq(&steady(unknown));
    let invalid = execute(&server, &json!({"skill": "greet", "args": {}})).await;
    assert_eq!(invalid["error"]["code"], "input_invalid");
    let message = invalid["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("Input validation failed for greet: "), "{message}");
    let held =
        execute(&server, &json!({"skill": "http_fetch", "args": {"url": "http://a.example"}}))
            .await;
    assert_eq!(held["error"]["code"], "approval_required");
    assert_eq!(held["success"], false);
    server.stop().await;
}

#[tokio::test]
async fn a_skill_is_executed_in_a_sandbox() {
    let plan = Plan::sandboxed().skills(vec![("greet", GREET.to_vec())]);
    let server = Server::of(plan).await;
    let body = json!({
        "skill": "greet", "args": {"name": "Ada"}, "actor_id": "agent_001",
        "actor_type": "subagent", "request_id": "r-1", "something": "new",
    });
    let result = execute(&server, &body).await;
    expect![[r#"{"execution_id":"…","execution_time_ms":"…","inputs_hash":"e99fdd92b2cc9bc41b4009077c78b6e6227468451b9ff76e602ffb8f0a596bad","logs":[{"level":"INFO","message":"Executing skill: greet","timestamp":"…"},{"level":"INFO","message":"Skill executed: greet","timestamp":"…"}],"outputs_hash":"72e0371c7ee476c57c0cf63e645fa020767256c6ec4a8775dac247973d47b7e4","provenance":{"actor_id":"agent_001","actor_type":"subagent","error_message":null,"execution_id":"…","execution_time_ms":"…","inputs_hash":"e99fdd92b2cc9bc41b4009077c78b6e6227468451b9ff76e602ffb8f0a596bad","outputs_hash":"72e0371c7ee476c57c0cf63e645fa020767256c6ec4a8775dac247973d47b7e4","skill_name":"greet","skill_version":"1.2.0","success":true,"timestamp":"…","tool_ids":[]},"result":{"greeting":"Hello Ada"},"skill":"greet","success":true}"#]].assert_eq(&steady(result));
    server.stop().await;
}

#[tokio::test]
async fn a_body_that_does_not_fit_is_a_problem() {
    let server = Server::start().await;
    let answer =
        server.post("/skills/execute", &json!({"skill": 1, "args": 2, "metadata": 3})).await;
    assert_eq!((answer.status, answer.problem().as_str()), (422, "body_invalid"));
    assert_eq!(answer.pointers(), ["/skill", "/args", "/metadata"]);
    server.stop().await;
}

async fn register(server: &Server, kind: &str, body: Vec<u8>) -> crate::support::Answer {
    send(server.request("POST", "/skills/register").header("content-type", kind).body(body)).await
}

fn archive() -> Vec<u8> {
    let coder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut tar = tar::Builder::new(coder);
    for (path, content) in GREET {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, path, content.as_bytes()).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

fn form(parts: &[(&str, &str, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, file, content) in parts {
        let head = format!(
            "--XX\r\ncontent-disposition: form-data; name=\"{name}\"; filename=\"{file}\"\r\n\r\n"
        );
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--XX--\r\n");
    body
}

#[tokio::test]
async fn a_skill_can_be_registered_in_every_form() {
    let json_form = {
        let files: serde_json::Map<_, _> =
            GREET.iter().map(|(path, text)| ((*path).to_owned(), json!(text))).collect();
        json!({"files": files}).to_string().into_bytes()
    };
    let named: Vec<_> = GREET.iter().map(|(path, text)| (*path, "x", text.as_bytes())).collect();
    let listed: Vec<_> =
        GREET.iter().map(|(path, text)| ("files", *path, text.as_bytes())).collect();
    let packed = archive();
    let multipart = "multipart/form-data; boundary=XX";
    let forms = [
        ("application/json", json_form),
        (multipart, form(&named)),
        (multipart, form(&listed)),
        (multipart, form(&[("archive", "greet.tar.gz", &packed)])),
        ("application/octet-stream", packed.clone()),
    ];
    let mut digests = Vec::new();
    for (kind, body) in forms {
        let server = Server::start().await;
        let answer = register(&server, kind, body).await;
        assert_eq!(answer.status, 201, "{kind}: {}", String::from_utf8_lossy(&answer.bytes));
        assert_eq!(server.get("/skills/greet").await.json(), answer.json());
        digests.push(answer.json()["digest"].clone());
        server.stop().await;
    }
    digests.dedup();
    assert_eq!(digests.len(), 1, "the same files are the same skill");
}

#[tokio::test]
async fn what_cannot_be_registered_is_refused_with_reasons() {
    let server = Server::start().await;
    let original = json!({
        "name": "x", "version": "1.0.0", "description": "d", "safety_flags": [],
        "requires_approval": false, "input_schema": {}, "output_schema": {},
        "handler_path": "handler.py", "tags": [],
    });
    let answer = server.post("/skills/register", &original).await;
    assert_eq!((answer.status, answer.problem().as_str()), (422, "skill_invalid"));
    assert_eq!(answer.pointers(), ["/files"]);
    let broken = json!({"files": {"skill.yaml": "name: ["}});
    let answer = server.post("/skills/register", &broken).await;
    assert_eq!((answer.status, answer.problem().as_str()), (422, "skill_invalid"));
    let coded = json!({"files": {"a": {"base64": "!"}, "b": 5}});
    assert_eq!(server.post("/skills/register", &coded).await.status, 422);
    let coded = json!({"files": {"a/b": {"base64": "!"}}});
    assert_eq!(server.post("/skills/register", &coded).await.pointers(), ["/files/a~1b/base64"]);
    let answer = register(&server, "text/plain", Vec::new()).await;
    assert_eq!((answer.status, answer.problem().as_str()), (415, "media_type_unsupported"));
    let answer = register(&server, "multipart/form-data", b"x".to_vec()).await;
    assert_eq!((answer.status, answer.problem().as_str()), (400, "body_malformed"));
    let answer = register(&server, "application/octet-stream", b"nonsense".to_vec()).await;
    assert_eq!((answer.status, answer.problem().as_str()), (422, "skill_invalid"));
    server.stop().await;
}

#[tokio::test]
async fn only_the_operator_registers_skills() {
    let server = Server::start().await;
    let admin = server.key("acme", &[ringfence_types::Scope::Admin]).await;
    let request = server.bare("POST", "/skills/register").bearer_auth(admin);
    let answer =
        send(request.header("content-type", "application/octet-stream").body(archive())).await;
    assert_eq!((answer.status, answer.problem().as_str()), (403, "operator_required"));
    assert_eq!(server.get("/skills/greet").await.status, 404);
    server.stop().await;
}

#[tokio::test]
async fn a_registered_skill_is_removed_and_its_receipts_stay() {
    let server = Server::of(Plan::sandboxed()).await;
    let made = register(&server, "application/octet-stream", archive()).await.json();
    let body = json!({"tool": "greet", "args": {"name": "Ada"}});
    let call = server.post("/v1/calls", &body).await.json();
    assert_eq!(call["result"]["greeting"], "Hello Ada", "{call}");
    let receipt = format!("/v1/calls/{}/receipt", call["id"].as_str().unwrap());
    let before = server.get(&receipt).await.json();
    let other = server.delete("/skills/greet?version=9.9.9").await;
    assert_eq!((other.status, other.problem().as_str()), (404, "tool_not_found"));
    let removed = server.delete("/skills/greet?version=1.2.0").await;
    assert_eq!(removed.status, 200, "{removed:?}");
    let expected =
        json!({"removed": [{"name": "greet", "version": "1.2.0", "digest": made["digest"]}]});
    assert_eq!(removed.json(), expected);
    assert_eq!(server.get("/skills/greet").await.status, 404);
    assert_eq!(server.post("/v1/calls", &body).await.problem(), "tool_not_found");
    assert_eq!(server.delete("/skills/greet").await.status, 404);
    assert_eq!(server.get(&receipt).await.json(), before);
    assert!(before.to_string().contains(made["digest"].as_str().unwrap()), "{before}");
    server.stop().await;
}

#[tokio::test]
async fn only_the_operator_removes_and_only_what_was_registered() {
    let server = Server::of(with_greet()).await;
    for name in ["greet", "echo"] {
        let answer = server.delete(&format!("/skills/{name}")).await;
        assert_eq!((answer.status, answer.problem().as_str()), (409, "tool_not_uploaded"));
    }
    assert_eq!(server.delete("/skills/greet?x=1").await.problem(), "query_invalid");
    let admin = server.key("acme", &[ringfence_types::Scope::Admin]).await;
    let answer = send(server.bare("DELETE", "/skills/greet").bearer_auth(admin)).await;
    assert_eq!((answer.status, answer.problem().as_str()), (403, "operator_required"));
    let caller = server.key("default", &[ringfence_types::Scope::Call]).await;
    let answer = send(server.bare("DELETE", "/skills/greet").bearer_auth(caller)).await;
    assert_eq!((answer.status, answer.problem().as_str()), (403, "scope_missing"));
    assert_eq!(server.get("/skills/greet").await.status, 200);
    server.stop().await;
}
