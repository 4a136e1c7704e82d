//! `tool_search`: agents find the tools that they may call, in an order that can be relied on.

use std::sync::Arc;

use ringfence_engine::{ToolApproval, VersionChoice, data::Definition, new_trace};
use ringfence_policy::Bundle;
use ringfence_testkit::Plane;
use ringfence_types::{Call, LifecycleEvent, Principal, Produced, Scope, State, ToolName};
use serde_json::{Value, json};

use crate::support::{engine_with, principal, request, stand};

/// Rules that let tenant `acme` call everything but the tool `payments_refund`.
const NO_REFUNDS: &str = r#"package ringfence

default decision := {"decision": "allow", "reasons": []}

decision := {"decision": "deny", "reasons": [{"rule": "refunds", "message": "no refunds"}]} if {
	input.tenant == "acme"
	input.tool.name == "payments_refund"
}
"#;

fn definition(tool: &str, description: &str) -> Definition {
    serde_json::from_value(json!({
        "name": tool, "version": "1.0.0", "description": description, "origin": "manifest",
        "input_schema": {"type": "object"}, "output_schema": {"type": "object"},
        "safety_flags": ["none"], "asks": {}, "runs": {"command": {"argv": ["cat"]}},
    }))
    .expect("a definition")
}

async fn start(folder: &std::path::Path) -> Plane {
    let bundle = Bundle::from_files([("rules.rego", NO_REFUNDS)]).expect("rules");
    let plane = engine_with(folder, &bundle).await;
    let tools = [
        definition("payments_charge", "Charges a card"),
        definition("payments_refund", "Pays a charge back"),
        definition("payments_list", "Lists charges"),
        definition("unapproved_payments", "Waits for a decision"),
    ];
    let (boss, trace) = (boss(), new_trace(None).into());
    plane.propose_tools(Some((&boss, &trace)), "tools.yaml", &tools).await.expect("proposed");
    for tool in &tools[..3] {
        let (choice, terms) = (VersionChoice::default(), ToolApproval::default());
        let approved = plane.approve_tool(&boss, &trace, &tool.name, &choice, terms).await;
        approved.expect("approved");
    }
    plane
}

fn boss() -> Principal {
    Principal { scopes: vec![Scope::Admin].into(), ..principal("default") }
}

async fn search(plane: &Plane, tenant: &str, args: Value) -> Arc<Call> {
    stand(plane, &principal(tenant), request("tool_search", &args)).await
}

fn tools(call: &Arc<Call>) -> Vec<Value> {
    match &call.state {
        State::Finished(finished) => match &finished.produced {
            Produced::Result(result) => {
                result.to_value()["tools"].as_array().expect("a list").clone()
            }
            Produced::Error(error) => panic!("{error:?}"),
        },
        other => panic!("{other:?}"),
    }
}

async fn names(plane: &Plane, tenant: &str, args: Value) -> Vec<String> {
    let call = search(plane, tenant, args).await;
    let names = tools(&call);
    names.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn a_search_finds_active_tools_that_the_caller_may_call_in_one_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let plane = start(folder.path()).await;
    let query = json!({"query": "payments"});
    assert_eq!(names(&plane, "acme", query.clone()).await, ["payments_charge", "payments_list"]);
    let all = ["payments_charge", "payments_list", "payments_refund"];
    assert_eq!(names(&plane, "other", query.clone()).await, all);
    let best = json!({"query": "Payments LIST", "limit": 1});
    assert_eq!(names(&plane, "acme", best).await, ["payments_list"], "the best match is first");
    let second = json!({"query": "payments refund", "limit": 1});
    assert_eq!(
        names(&plane, "acme", second).await,
        ["payments_charge"],
        "a denied best match does not take the place of another"
    );
    assert_eq!(names(&plane, "acme", json!({"query": "zebra"})).await, [""; 0]);

    let found = tools(&search(&plane, "acme", json!({"query": "payments_list"})).await);
    assert_eq!(found[0]["description"], "Lists charges");
    assert_eq!(found[0]["version"], "1.0.0");
    assert_eq!(found[0]["input_schema"], json!({"type": "object"}));

    let name: ToolName = "payments_charge".parse().expect("a name");
    let (choice, trace) = (VersionChoice::default(), new_trace(None).into());
    let (off, why) = (LifecycleEvent::Disable, "a test".to_owned());
    let changed = plane.change_tool(&boss(), &trace, &name, &choice, off, why, false).await;
    changed.expect("switched off");
    assert_eq!(names(&plane, "acme", query).await, ["payments_list"], "switched off");
}

#[tokio::test]
async fn arguments_of_a_search_are_checked() {
    let folder = tempfile::tempdir().expect("a folder");
    let plane = start(folder.path()).await;
    for wrong in [
        json!({}),
        json!({"query": ""}),
        json!({"query": "x", "limit": 0}),
        json!({"query": "x", "limit": 51}),
        json!({"query": "x".repeat(1001)}),
        json!({"query": "x", "tenant": "other"}),
    ] {
        let refused = plane.call(&principal("acme"), request("tool_search", &wrong)).await;
        assert!(refused.is_err(), "{wrong}");
    }
}
