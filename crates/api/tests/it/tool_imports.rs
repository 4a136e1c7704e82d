//! Importing tools: Slovo's examples, and an API that a real server plays.

use std::{net::SocketAddr, sync::Arc};

use axum::{Router, body::Bytes};
use http::{HeaderMap, Method, Uri};
use ringfence_policy::Bundle;
use ringfence_types::Scope;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::{Answer, Plan, Server, send};

const CALCULATOR: &str = include_str!("../../../../docs/examples/calculator.yaml");
const WEATHER: &str = include_str!("../../../../docs/examples/weather.yaml");

fn allow_all() -> Bundle {
    let rules = "package ringfence\n\ndecision := {\"decision\": \"allow\", \"reasons\": []}\n";
    Bundle::from_files([("allow.rego", rules)]).unwrap()
}

async fn import(server: &Server, query: &str, body: impl Into<Vec<u8>>) -> Answer {
    let request = server.request("POST", &format!("/v1/tool-imports?{query}"));
    send(request.header("content-type", "application/octet-stream").body(body.into())).await
}

async fn approve(server: &Server, tool: &str) {
    let path = format!("/v1/tools/{tool}/approve");
    let answer = server.post(&path, &json!({"why": "a test"})).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

async fn call(server: &Server, tool: &str, args: Value) -> Value {
    let body = json!({"tool": tool, "args": args, "wait": 60});
    server.post("/v1/calls", &body).await.json()
}

/// A server that answers with the request that it got.
async fn mirror() -> SocketAddr {
    let answer = |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| async move {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let seen = json!({
            "method": method.as_str(), "uri": uri.to_string(), "trace": header("x-trace"),
            "cookie": header("cookie"), "media": header("content-type"),
            "body": String::from_utf8_lossy(&body),
        });
        match uri.path() {
            "/v1/missing" => (http::StatusCode::NOT_FOUND, axum::Json(json!({"error": "gone"}))),
            _ => (http::StatusCode::OK, axum::Json(seen)),
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = Router::new().fallback(answer);
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// A server that may reach one address of the machine.
async fn server_with(address: SocketAddr) -> Server {
    let mut plan = Plan::default().bundle(&allow_all());
    plan.plane.egress.allow_private = vec![address.into()];
    Server::of(plan).await
}

#[tokio::test]
async fn the_calculator_calculates_in_a_sandbox() {
    let server = Server::of(Plan::sandboxed()).await;
    let imported = import(&server, "kind=manifest&source=calculator.yaml", CALCULATOR).await;
    assert_eq!(imported.status, 201, "{imported:?}");
    assert_eq!(imported.json()["proposed"][0]["status"], "proposed");
    let refused = server
        .post(
            "/v1/calls",
            &json!({"tool": "example-calculator", "args": {"operation": "add", "a": 1, "b": 2}}),
        )
        .await;
    assert_eq!(refused.problem(), "tool_not_active");
    approve(&server, "example-calculator").await;
    for (operation, expected) in
        [("add", 8.0), ("subtract", 4.0), ("multiply", 12.0), ("divide", 3.0)]
    {
        let args = json!({"operation": operation, "a": 6, "b": 2});
        let done = call(&server, "example-calculator", args).await;
        assert_eq!(done["result"]["result"].as_f64(), Some(expected), "{done}");
    }
    let args = json!({"operation": "divide", "a": 1, "b": 0});
    let failed = call(&server, "example-calculator", args).await;
    assert_eq!(failed["error"]["code"], "handler_failed");
    assert!(failed["error"]["message"].as_str().unwrap().contains("division by zero"), "{failed}");
    let wrong =
        json!({"tool": "example-calculator", "args": {"operation": "power", "a": 1, "b": 0}});
    assert_eq!(server.post("/v1/calls", &wrong).await.problem(), "args_invalid");
    // The same again changes nothing; another definition of the same version quarantines it.
    let again = import(&server, "kind=manifest&source=calculator.yaml", CALCULATOR).await.json();
    assert_eq!(again["proposed"][0]["is_new"], false);
    let changed = CALCULATOR.replace("Calculates with two numbers.", "Calculates, and more.");
    let changed = import(&server, "kind=manifest&source=calculator.yaml", changed).await.json();
    assert!(changed["proposed"][0]["replaces"].is_string(), "{changed}");
    let refused = server.post("/v1/calls", &wrong).await;
    assert_eq!(refused.problem(), "tool_not_active");
    let diff = server.get("/v1/tools/example-calculator/diff").await.json();
    assert_eq!(diff["changes"][0]["path"], "description", "{diff}");
    server.stop().await;
}

#[tokio::test]
async fn the_weather_tool_calls_its_api_by_its_grant() {
    let address = mirror().await;
    let server = server_with(address).await;
    let weather = WEATHER
        .replace("https://api.weather-service.example.com", &format!("http://{address}"))
        .replace("auth_type: api_key", "auth_type: none");
    let imported = import(&server, "kind=manifest&source=weather.yaml", weather).await;
    assert_eq!(imported.status, 201, "{imported:?}");
    approve(&server, "example-weather").await;
    let args = json!({"action": "get_forecast", "location": "Köln", "days": 2});
    let done = call(&server, "example-weather", args.clone()).await;
    assert_eq!(done["result"]["status"], 200, "{done}");
    let uri = done["result"]["body"]["uri"].as_str().unwrap().to_owned();
    assert!(uri.starts_with("/weather/forecast?"), "{uri}");
    assert!(uri.contains("days=2") && uri.contains("location=K%C3%B6ln"), "{uri}");
    let flows = server.get(&format!("/v1/calls/{}/receipt", done["id"].as_str().unwrap())).await;
    assert!(flows.json().to_string().contains("127.0.0.1"), "{:?}", flows.json());
    let nothing = json!({"why": "a test", "grants": {}});
    assert_eq!(server.post("/v1/tools/example-weather/grant", &nothing).await.status, 200);
    let refused = call(&server, "example-weather", args.clone()).await;
    assert_eq!(refused["error"]["code"], "host_refused", "{refused}");
    // With a key: it is asked for by name, and nothing is sent without it.
    let keyed = WEATHER
        .replace("https://api.weather-service.example.com", &format!("http://{address}"))
        .replace("version: 1.0.0", "version: 2.0.0");
    let imported = import(&server, "kind=manifest&source=weather.yaml", keyed).await;
    assert_eq!(imported.status, 201, "{imported:?}");
    approve(&server, "example-weather").await;
    let shown = server.get("/v1/tools/example-weather/lifecycle").await.json();
    assert_eq!(shown["versions"][1]["asks"]["secrets"], json!(["example-weather"]), "{shown}");
    let refused = call(&server, "example-weather", args).await;
    assert_eq!(refused["error"]["code"], "secret_unavailable", "{refused}");
    server.stop().await;
}

fn document(address: SocketAddr) -> Value {
    json!({
        "openapi": "3.1.0", "info": {"title": "Mirror", "version": "1.0.0"},
        "servers": [{"url": format!("http://{address}/v1")}],
        "paths": {
            "/pets/{id}": {"get": {"operationId": "getPet", "parameters": [
                {"name": "id", "in": "path", "required": true, "schema": {"type": "string"}},
                {"name": "tag", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                {"name": "filter", "in": "query", "style": "deepObject", "schema": {"type": "object"}},
                {"name": "x-trace", "in": "header", "schema": {"type": "string"}},
                {"name": "session", "in": "cookie", "schema": {"type": "string"}},
            ]}},
            "/pets": {
                "post": {"operationId": "addPet", "requestBody": {"required": true, "content": {
                    "application/json": {"schema": {"type": "object", "required": ["name"]}}}}},
                "put": {"operationId": "formPet", "requestBody": {"content": {
                    "application/x-www-form-urlencoded": {"schema": {"type": "object"}}}}},
            },
            "/missing": {"get": {"operationId": "missing"}},
            "/odd": {"get": {"operationId": "odd", "security": [{"nothing": []}]}},
        },
    })
}

#[tokio::test]
async fn operations_send_what_the_document_describes() {
    let address = mirror().await;
    let server = server_with(address).await;
    let text = document(address).to_string();
    let imported = import(&server, "kind=openapi&source=mirror.json", text).await;
    assert_eq!(imported.status, 201, "{imported:?}");
    let imported = imported.json();
    assert_eq!(imported["proposed"].as_array().unwrap().len(), 4, "{imported}");
    assert_eq!(imported["skipped"][0]["operation"], "GET /odd", "{imported}");
    for tool in ["mirror_getPet", "mirror_addPet", "mirror_formPet", "mirror_missing"] {
        approve(&server, tool).await;
    }
    let args = json!({
        "id": "a/b", "tag": ["x", "y z"], "filter": {"color": "red"}, "x-trace": "t1", "session": "s1",
    });
    let seen = call(&server, "mirror_getPet", args).await["result"]["body"].clone();
    assert_eq!(seen["uri"], "/v1/pets/a%2Fb?tag=x&tag=y%20z&filter[color]=red");
    assert_eq!((&seen["trace"], &seen["cookie"]), (&json!("t1"), &json!("session=s1")));
    let seen =
        call(&server, "mirror_addPet", json!({"body": {"name": "Rex"}})).await["result"]["body"]
            .clone();
    assert_eq!((&seen["method"], &seen["body"]), (&json!("POST"), &json!("{\"name\":\"Rex\"}")));
    let seen =
        call(&server, "mirror_formPet", json!({"body": {"q": "a b"}})).await["result"]["body"]
            .clone();
    assert_eq!(seen["body"], "q=a+b");
    let missing = call(&server, "mirror_missing", json!({})).await;
    assert_eq!(missing["result"]["status"], 404, "every status is a result: {missing}");
    let wrong = json!({"tool": "mirror_addPet", "args": {"body": {}}});
    assert_eq!(server.post("/v1/calls", &wrong).await.problem(), "args_invalid");
    let tool = server.get("/v1/tools/mirror_addPet").await.json();
    assert_eq!(tool["safety_flags"], json!(["external_call", "side_effect"]));
    server.stop().await;
}

#[tokio::test]
async fn bad_documents_name_every_problem_and_imports_need_the_operator() {
    let server = Arc::new(Server::start().await);
    let bad = import(&server, "kind=manifest", "name: x y\nversion: 1\n").await;
    assert_eq!((bad.status, bad.problem().as_str()), (422, "tool_invalid"));
    let problems = bad.json()["errors"].to_string();
    for part in ["name: ", "version: ", "description: is missing", "execution: is missing"] {
        assert!(problems.contains(part), "{part}: {problems}");
    }
    let bad = import(&server, "kind=openapi", "swagger: '2.0'\n").await;
    assert!(bad.json()["errors"].to_string().contains("convert"), "{bad:?}");
    let unknown = import(&server, "kind=magic", "").await;
    assert_eq!(unknown.problem(), "query_invalid");
    let inside = import(&server, "kind=openapi&url=http://127.0.0.1:1/openapi.json", "").await;
    assert_eq!(inside.problem(), "tool_invalid", "the guarded client reaches no loopback address");
    let foreign = server.key("acme", &[Scope::Admin]).await;
    let request = server.bare("POST", "/v1/tool-imports?kind=manifest").bearer_auth(foreign);
    let refused = send(request.header("content-type", "application/octet-stream").body("x")).await;
    assert_eq!(refused.problem(), "operator_required");
    Arc::into_inner(server).unwrap().stop().await;
}
