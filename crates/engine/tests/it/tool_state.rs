//! `state_get` and `state_set`: values of the tool whose call makes the call.

use std::sync::Arc;

use ringfence_engine::{By, data::ToolDataKind};
use ringfence_testkit::Plane;
use ringfence_types::{Call, ErrorCode, Produced, State};
use serde_json::{Value, json};

use crate::{
    causes::{self, Silent},
    support::{allow_all, engine_with, principal, request, stand},
};

fn produced(call: &Arc<Call>) -> Produced {
    match &call.state {
        State::Finished(finished) => finished.produced.clone(),
        other => panic!("{other:?}"),
    }
}

fn code(call: &Arc<Call>) -> ErrorCode {
    match produced(call) {
        Produced::Error(error) => error.code,
        Produced::Result(result) => panic!("{result:?}"),
    }
}

async fn start(folder: &std::path::Path) -> Plane {
    engine_with(folder, &allow_all()).await
}

#[tokio::test]
async fn a_call_that_no_call_made_has_no_state() {
    let folder = tempfile::tempdir().expect("a folder");
    let plane = start(folder.path()).await;
    let who = principal("acme");
    let get = stand(&plane, &who, request("state_get", &json!({"key": "a"}))).await;
    assert_eq!(code(&get), ErrorCode::StorageRefused);
    let set = stand(&plane, &who, request("state_set", &json!({"key": "a", "value": 1}))).await;
    assert_eq!(code(&set), ErrorCode::StorageRefused);
}

#[tokio::test]
async fn arguments_of_the_state_are_checked() {
    let folder = tempfile::tempdir().expect("a folder");
    let plane = start(folder.path()).await;
    let wrong: [Value; 5] = [
        json!({}),
        json!({"key": "", "value": 1}),
        json!({"key": "a b", "value": 1}),
        json!({"key": "x".repeat(201), "value": 1}),
        json!({"key": "a", "value": 1, "tool": "other"}),
    ];
    for wrong in wrong {
        let refused = plane.call(&principal("acme"), request("state_set", &wrong)).await;
        assert!(refused.is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn values_belong_to_the_tool_of_the_calling_call() {
    let mut silent = Silent::listen().await;
    let plane = causes::engine(&silent).await;
    let who = principal("acme");
    let parent = causes::begin(&plane, &who, silent.fetch(), By::Client).await;
    let running = silent.next().await;
    let mut seq = 0;
    let mut child = async |tool: &str, args: Value| {
        seq += 1;
        causes::stand_by(&plane, &who, request(tool, &args), causes::child(parent, seq)).await
    };
    let missing = child("state_get", json!({"key": "a"})).await;
    assert_eq!(result(&missing), json!({"found": false}));
    let set = child("state_set", json!({"key": "a", "value": {"n": [1, 2.5]}})).await;
    assert_eq!(result(&set), json!({"bytes": 14}));
    let found = child("state_get", json!({"key": "a"})).await;
    assert_eq!(result(&found), json!({"found": true, "value": {"n": [1, 2.5]}}));
    let large = child("state_set", json!({"key": "b", "value": "x".repeat(70_000)})).await;
    assert_eq!(code(&large), ErrorCode::StorageRefused);
    for number in 0..16 {
        let value = "x".repeat(65_000);
        child("state_set", json!({"key": format!("k{number}"), "value": value})).await;
    }
    let full = child("state_set", json!({"key": "last", "value": "x".repeat(65_000)})).await;
    assert_eq!(code(&full), ErrorCode::StorageRefused);
    let removed = child("state_set", json!({"key": "a", "value": null})).await;
    assert!(matches!(produced(&removed), Produced::Result(_)));
    let gone = child("state_get", json!({"key": "a"})).await;
    assert_eq!(result(&gone), json!({"found": false}));
    let tool = "http_fetch".parse().expect("a name");
    let names = plane.tool_data_names(&who, &tool, ToolDataKind::State);
    assert_eq!(names.await.expect("an answer").len(), 16, "they are those of the parent's tool");
    drop(running);
}

fn result(call: &Arc<Call>) -> Value {
    match produced(call) {
        Produced::Result(result) => result.to_value(),
        Produced::Error(error) => panic!("{error:?}"),
    }
}
