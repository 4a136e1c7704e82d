//! Verification: the examples of a tool run as calls under policy, and their results are compared.

use ringfence_policy::Bundle;
use ringfence_types::Scope;
use serde_json::{Value, json};

use crate::support::{Answer, Plan, Server, send};

const CALCULATOR: &str = include_str!("../../../../docs/examples/calculator.yaml");

/// Everything is allowed but to divide.
fn no_division() -> Bundle {
    let rules = "package ringfence\n\ndefault decision := {\"decision\": \"allow\", \"reasons\": []}\n\n\
                 decision := {\"decision\": \"deny\", \"reasons\": [{\"rule\": \"no\", \"message\": \
                 \"no\"}]} if input.args.operation == \"divide\"\n";
    Bundle::from_files([("rules.rego", rules)]).unwrap()
}

async fn import(server: &Server, text: &str) -> Answer {
    let path = "/v1/tool-imports?kind=manifest&source=calculator.yaml";
    let request = server.request("POST", path).header("content-type", "application/octet-stream");
    send(request.body(text.to_owned())).await
}

async fn install(server: &Server, text: &str) {
    let imported = import(server, text).await;
    assert_eq!(imported.status, 201, "{imported:?}");
    let approved =
        server.post("/v1/tools/example-calculator/approve", &json!({"why": "a test"})).await;
    assert_eq!(approved.status, 200, "{approved:?}");
}

const PATH: &str = "/v1/tools/example-calculator/test";

fn outcomes(test: &Value) -> Vec<&str> {
    let examples = test["examples"].as_array().unwrap();
    examples.iter().map(|example| example["outcome"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn examples_run_in_the_sandbox_and_are_shown_with_the_tool() {
    let server = Server::of(Plan::sandboxed()).await;
    install(&server, CALCULATOR).await;
    let before = server.get(PATH).await.json();
    assert_eq!(before["examples"][0]["problems"], json!(["not run yet"]), "{before}");
    let test = server.post(PATH, &json!({})).await.json();
    assert_eq!((&test["passed"], &test["failed"]), (&json!(2), &json!(0)), "{test}");
    let call = test["examples"][0]["call_id"].as_str().unwrap();
    let call = server.get(&format!("/v1/calls/{call}")).await.json();
    assert_eq!(call["session_id"], "tool-test", "each is a call on record: {call}");
    assert!(call["usage"]["cpu_user_ms"].is_number(), "{call}");
    assert_eq!(server.get(PATH).await.json(), test, "the newest results stay with the tool");
    let reader = server.key("default", &[Scope::Read]).await;
    let refused = send(server.bare("POST", PATH).bearer_auth(reader)).await;
    assert_eq!(refused.status, 403, "{refused:?}");
    assert_eq!(server.post("/v1/tools/nothing/test", &json!({})).await.status, 404);
}

#[tokio::test]
async fn an_example_that_gives_something_else_fails_with_the_difference() {
    let server = Server::of(Plan::sandboxed()).await;
    let wrong = CALCULATOR.replace("output: {result: 3}", "output: {result: 4}");
    install(&server, &wrong).await;
    let test = server.post(PATH, &json!({})).await.json();
    assert_eq!(outcomes(&test), ["failed", "passed"], "{test}");
    let problems = test["examples"][0]["problems"].to_string();
    assert!(problems.contains("/result: expected 4, found 3"), "{problems}");
}

#[tokio::test]
async fn examples_are_under_policy_like_any_call() {
    let server = Server::of(Plan::sandboxed().bundle(&no_division())).await;
    install(&server, CALCULATOR).await;
    let test = server.post(PATH, &json!({})).await.json();
    assert_eq!(outcomes(&test), ["passed", "failed"], "{test}");
    let problems = &test["examples"][1]["problems"];
    assert_eq!(problems, &json!(["the call is denied"]), "{test}");
    // One that is not active is not tested.
    let off = server.post("/v1/tools/example-calculator/disable", &json!({"why": "a test"})).await;
    assert_eq!(off.status, 200, "{off:?}");
    assert_eq!(server.post(PATH, &json!({})).await.status, 404);
}

#[tokio::test]
async fn examples_that_break_the_schemas_are_named_when_the_manifest_is_imported() {
    let server = Server::start().await;
    for (from, to, place) in [
        ("{operation: add, a: 1, b: 2}", "{operation: raise, a: 1, b: 2}", "examples[0]: input"),
        ("output: {result: 3}", "output: {result: three}", "examples[0]: output"),
        ("{operation: add, a: 1, b: 2}", "[1]", "examples[0]: `input` must be"),
        ("output: {result: 3}", "outcome: 3", "examples[0]: unknown field"),
    ] {
        let refused = import(&server, &CALCULATOR.replace(from, to)).await;
        assert_eq!(refused.status, 422, "{refused:?}");
        let errors = refused.json()["errors"].to_string();
        assert!(errors.contains(place), "{place}: {errors}");
    }
}
