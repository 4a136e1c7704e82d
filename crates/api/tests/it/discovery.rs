//! Discovery: directories are searched, what fits is proposed, and nothing of it runs before an approval.

use std::{net::SocketAddr, path::Path};

use axum::Router;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use ringfence_policy::Bundle;
use ringfence_types::{Digest, Scope};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::{Plan, Server, send, with_json};

const CALCULATOR: &str = include_str!("../../../../docs/examples/calculator.yaml");
const WEATHER: &str = include_str!("../../../../docs/examples/weather.yaml");

const PETS: &str = r#"{"openapi": "3.1.0", "info": {"title": "Store", "version": "1.0.0"},
    "servers": [{"url": "https://pets.example"}],
    "paths": {
        "/pets": {"get": {"operationId": "listPets", "summary": "Lists all pets of the shop",
            "responses": {"200": {"description": "ok"}}}},
        "/orders": {"get": {"operationId": "listOrders", "summary": "Lists orders",
            "responses": {"200": {"description": "ok"}}}}}}"#;

fn allow_all() -> Bundle {
    let rules = "package ringfence\n\ndecision := {\"decision\": \"allow\", \"reasons\": []}\n";
    Bundle::from_files([("allow.rego", rules)]).unwrap()
}

fn listed(name: &str, kind: &str, path: &str, text: &str, about: &str) -> Value {
    json!({
        "name": name, "kind": kind, "path": path, "digest": Digest::of(text.as_bytes()),
        "description": about,
    })
}

/// A directory with a calculator, weather and an API of pets; and a document that is not as its index says.
fn fill(folder: &Path) {
    let about = "Adds, subtracts, multiplies and divides numbers";
    let index = json!({"tools": [
        listed("calculator", "manifest", "tools/calculator.yaml", CALCULATOR, about),
        listed("weather", "manifest", "weather.yaml", WEATHER, "Weather of a place"),
        listed("pets", "openapi", "pets.json", PETS, "Pets of a shop, and orders"),
        listed("changed", "manifest", "changed.yaml", "something else", "Telescope control"),
    ]});
    std::fs::create_dir(folder.join("tools")).unwrap();
    for (path, text) in [
        ("tools/calculator.yaml", CALCULATOR),
        ("weather.yaml", WEATHER),
        ("pets.json", PETS),
        ("changed.yaml", CALCULATOR),
        ("index.json", &index.to_string()),
    ] {
        std::fs::write(folder.join(path), text).unwrap();
    }
}

async fn server(directories: Vec<String>, key: Option<[u8; 32]>, reach: &[SocketAddr]) -> Server {
    let mut plan = Plan::default().bundle(&allow_all());
    plan.plane.egress.allow_private = reach.iter().map(|address| (*address).into()).collect();
    plan.plane.tune = Box::new(move |settings| {
        let read = directories.iter().map(|text| text.parse().unwrap());
        settings.discovery.directories = read.collect();
        settings.discovery.public_key = key;
    });
    Server::of(plan).await
}

async fn of_folder(folder: &Path) -> Server {
    server(vec![folder.display().to_string()], None, &[]).await
}

async fn discover(server: &Server, body: &Value) -> Value {
    let answer = server.post("/v1/discovery", body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let found = answer.json();
    assert_eq!(answer.header("location").unwrap(), format!("/v1/discovery/{}", id(&found)));
    found
}

fn id(found: &Value) -> &str {
    found["id"].as_str().unwrap()
}

fn proposed(found: &Value) -> Vec<&str> {
    let documents = found["candidates"].as_array().unwrap().iter();
    let tools = documents.flat_map(|document| document["proposed"].as_array().unwrap());
    tools.map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn what_is_found_is_proposed_and_runs_after_an_approval_only() {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path());
    let server = of_folder(folder.path()).await;
    let found = discover(&server, &json!({"capability": "divide two numbers"})).await;
    assert_eq!(found["status"], "found", "{found}");
    assert_eq!(proposed(&found), ["example-calculator"]);
    let args = json!({"operation": "add", "a": 1, "b": 2});
    let call = json!({"tool": "example-calculator", "args": args});
    assert_eq!(server.post("/v1/calls", &call).await.problem(), "tool_not_active");
    let again = discover(&server, &json!({"capability": "divide two numbers"})).await;
    assert_eq!(again["candidates"][0]["proposed"][0]["is_new"], false, "{again}");
    let listed = server.get("/v1/discovery?status=found").await.json();
    let ids: Vec<_> = listed["discoveries"].as_array().unwrap().iter().map(id).collect();
    assert_eq!(ids, [id(&again), id(&found)], "newest first");
    assert_eq!(server.get("/v1/discovery?status=failed").await.json()["discoveries"], json!([]));
    let read = server.get(&format!("/v1/discovery/{}", id(&found))).await.json();
    assert_eq!(read, found);
    let why = json!({"why": "a test"});
    let approved = server.post("/v1/tools/example-calculator/approve", &why).await;
    assert_eq!(approved.status, 200, "{approved:?}");
    let known = discover(&server, &json!({"capability": "example calculator"})).await;
    assert_eq!(known["tools"][0]["name"], "example-calculator", "{known}");
}

#[tokio::test]
async fn a_rejected_discovery_takes_its_waiting_tools_along() {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path());
    let server = of_folder(folder.path()).await;
    let found = discover(&server, &json!({"capability": "weather of a place"})).await;
    assert_eq!(proposed(&found), ["example-weather"]);
    let path = format!("/v1/discovery/{}/reject", id(&found));
    let why = json!({"why": "not needed"});
    let agent = server.key("default", &[Scope::Call, Scope::Read]).await;
    let refused = send(with_json(server.bare("POST", &path).bearer_auth(agent), &why)).await;
    assert_eq!(refused.status, 403, "{refused:?}");
    assert_eq!(server.post(&path, &json!({})).await.status, 422);
    let rejected = server.post(&path, &why).await;
    assert_eq!((rejected.status, &rejected.json()["status"]), (200, &json!("rejected")));
    let state = server.get("/v1/tools/example-weather/lifecycle").await.json();
    assert_eq!(state["versions"][0]["status"], "revoked", "{state}");
    assert_eq!(state["versions"][0]["why"], "not needed");
    assert_eq!(server.post(&path, &why).await.problem(), "conflict");
    // The server never brings back what a person withdrew.
    let again = discover(&server, &json!({"capability": "weather of a place"})).await;
    assert_eq!(again["candidates"][0]["proposed"][0]["status"], "revoked", "{again}");
    let nothing = discover(&server, &json!({"capability": "brew espresso"})).await;
    assert_eq!(nothing["status"], "failed", "{nothing}");
    let path = format!("/v1/discovery/{}/reject", id(&nothing));
    assert_eq!(server.post(&path, &why).await.problem(), "conflict");
}

#[tokio::test]
async fn only_fitting_operations_of_a_document_are_proposed_unless_it_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path());
    let server = of_folder(folder.path()).await;
    let found = discover(&server, &json!({"capability": "pets shop"})).await;
    assert_eq!(proposed(&found), ["store_listPets"], "{found}");
    assert_eq!(found["candidates"][0]["skipped"], 1);
    let search = discover(&server, &json!({"capability": "weather", "propose": 0})).await;
    assert_eq!((search["status"].as_str(), proposed(&search)), (Some("found"), vec![]));
    let named = json!({"capability": "pets", "name": "pets"});
    let named = discover(&server, &named).await;
    let mut names = proposed(&named);
    names.sort_unstable();
    assert_eq!(names, ["store_listOrders", "store_listPets"], "{named}");
}

#[tokio::test]
async fn a_document_that_is_not_as_its_index_says_is_not_proposed() {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path());
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("index.json"), "{}").unwrap();
    std::os::unix::fs::symlink(outside.path().join("index.json"), outside.path().join("x"))
        .unwrap();
    let linked = tempfile::tempdir().unwrap();
    let target = folder.path().join("index.json");
    std::os::unix::fs::symlink(target, linked.path().join("index.json")).unwrap();
    let all = [folder.path(), outside.path(), linked.path(), Path::new("/nowhere/at/all")];
    let all = all.iter().map(|path| path.display().to_string()).collect();
    let server = server(all, None, &[]).await;
    let found = discover(&server, &json!({"capability": "telescope control"})).await;
    assert_eq!(proposed(&found), [""; 0]);
    let problem = found["candidates"][0]["problem"].as_str().unwrap();
    assert!(problem.contains("the index says sha256:"), "{problem}");
    let problems = found["problems"].as_array().unwrap();
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert!(problems[0]["problem"].as_str().unwrap().contains("tools"), "{problems:?}");
}

#[tokio::test]
async fn a_directory_behind_a_url_is_read_with_its_signature() {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path());
    let key = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
    let index = std::fs::read(folder.path().join("index.json")).unwrap();
    let signature = base64(key.sign(&index).as_ref());
    std::fs::write(folder.path().join("index.json.sig"), signature).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let root = folder.path().to_owned();
    let app = Router::new().fallback(move |uri: http::Uri| async move {
        match std::fs::read(root.join(uri.path().trim_start_matches('/'))) {
            Ok(bytes) => (http::StatusCode::OK, bytes),
            Err(_) => (http::StatusCode::NOT_FOUND, Vec::new()),
        }
    });
    tokio::spawn(async move { axum::serve(listener, app).await });
    let url = format!("http://{address}/");
    let public: [u8; 32] = key.public_key().as_ref().try_into().unwrap();

    let trusting = server(vec![url.clone()], Some(public), &[address]).await;
    let tool = trusting.get("/v1/tools/tool_discover").await.json();
    assert_eq!(tool["safety_flags"], json!(["external_call"]), "it leaves the machine");
    let found = discover(&trusting, &json!({"capability": "weather of a place"})).await;
    assert_eq!(proposed(&found), ["example-weather"], "{found}");
    let receipt = trusting.get(&format!("/v1/calls/{}/receipt", id(&found))).await.json();
    assert_eq!(receipt["egress"].as_array().map(Vec::len), Some(3), "{receipt}");
    let state = trusting.get("/v1/tools/example-weather/lifecycle").await.json();
    assert_eq!(state["versions"][0]["source"], format!("{url}weather.yaml"));

    let other = server(vec![url.clone()], Some([9; 32]), &[address]).await;
    let found = discover(&other, &json!({"capability": "weather of a place"})).await;
    assert_eq!(found["status"], "failed", "{found}");
    let problem = found["problems"][0]["problem"].as_str().unwrap();
    assert!(problem.contains("not a signature"), "{problem}");

    let closed = server(vec![url], None, &[]).await;
    let found = discover(&closed, &json!({"capability": "weather of a place"})).await;
    assert_eq!(found["status"], "failed", "private addresses are refused: {found}");
}

fn base64(bytes: &[u8]) -> String {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    STANDARD.encode(bytes)
}

#[tokio::test]
async fn a_discovery_is_a_governed_call() {
    let rules = "package ringfence\n\ndecision := {\"decision\": \"hold\", \"reasons\": \
                 [{\"rule\": \"ask\", \"message\": \"ask\"}]} if input.tool.name == \
                 \"tool_discover\"\n\ndefault decision := {\"decision\": \"allow\", \"reasons\": []}\n";
    let bundle = Bundle::from_files([("hold.rego", rules)]).unwrap();
    let server = Server::of(Plan::default().bundle(&bundle)).await;
    let held = server.post("/v1/discovery", &json!({"capability": "pdf", "wait": 5})).await;
    let held = (held.status, held.json());
    assert_eq!((held.0, &held.1["status"]), (202, &json!("pending")), "{held:?}");
    let path = format!("/v1/discovery/{}/reject", id(&held.1));
    let rejected = server.post(&path, &json!({"why": "a test"})).await.json();
    assert_eq!(rejected["status"], "rejected", "{rejected}");
    for wrong in [
        json!({}),
        json!({"capability": ""}),
        json!({"capability": "x", "propose": 11}),
        json!({"capability": "x", "propose": -1}),
        json!({"capability": "x", "wait": -1}),
        json!({"capability": "x", "tenant": "other"}),
    ] {
        assert_eq!(server.post("/v1/discovery", &wrong).await.status, 422, "{wrong}");
    }
    let call = json!({"tool": "echo", "args": {"text": "x"}});
    let echo = server.post("/v1/calls", &call).await.json();
    let path = format!("/v1/discovery/{}", id(&echo));
    assert_eq!(server.get(&path).await.status, 404, "a call that is no discovery");
}
