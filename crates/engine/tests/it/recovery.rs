//! Recovery of calls that a dead process left behind.

use std::{sync::Arc, time::Duration};

use ringfence_store::{Record, Store};
use ringfence_types::{
    Asked, Call, CallId, Digest, Json, Principal, Receipt, ReceiptDetails, State, Tool,
};
use serde_json::json;

use crate::support::{allow_all, engine, engine_with, held, now, principal};

/// A call as the record would show it if its process had died in `state`.
fn left(who: &Principal, tool: &Tool, args: &serde_json::Value, state: State) -> Call {
    let now = now();
    let args = Json::of(args).expect("works here");
    let asked = Asked {
        id: CallId(uuid::Uuid::now_v7()),
        tenant: who.tenant.clone(),
        key: who.key,
        scopes: who.scopes.clone(),
        persona: None,
        session: None,
        tool: tool.reference(),
        pure: tool.is_pure(),
        args_digest: Digest::of_json(&args),
        inputs_hash: String::new(),
        args,
        metadata: Json::empty_object(),
        idempotency: None,
        fresh: false,
        trace_id: "0".repeat(32),
        trace_parent: None,
        trace_state: None,
        cause: None,
        taint: Vec::new(),
        accepted_at: now,
    };
    Call { asked, edited: None, decision: None, state, changed_at: now }
}

async fn put(store: &dyn Store, call: &Call) {
    let record = Record {
        call: Arc::new(call.clone()),
        seen: None,
        facts: Vec::new(),
        entries: Vec::new(),
        blobs: Vec::new(),
        session_events: Vec::new(),
        approval: None,
        spends: None,
        decisions: Vec::new(),
        rewrite: false,
        artifacts: Vec::new(),
        edges: Vec::new(),
        memo: None,
    };
    store.record(record).await.expect("works here");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pure_calls_run_again_and_others_are_unknown() {
    let dir = tempfile::tempdir().expect("works here");
    let who = principal("acme");
    let (pure, effectful, accepted, held) = {
        let engine = engine(dir.path()).await;
        let catalogue = engine.registry.catalogue();
        let tool = |name: &str| catalogue.get(name, None).expect("works here").tool.clone();
        let echo = json!({"text": "again"});
        let fetch = json!({"url": "http://192.0.2.1/"});
        let held = held(Duration::from_secs(60));
        let calls = (
            left(&who, &tool("echo"), &echo, State::Running),
            left(&who, &tool("http_fetch"), &fetch, State::Running),
            left(&who, &tool("echo"), &echo, State::Accepted),
            left(&who, &tool("http_fetch"), &fetch, held),
        );
        for call in [&calls.0, &calls.1, &calls.2, &calls.3] {
            put(engine.store.as_ref(), call).await;
        }
        engine.close(Duration::from_secs(5)).await.expect("works here");
        calls
    };
    let engine = engine_with(dir.path(), &allow_all()).await;
    for call in [&pure, &effectful, &accepted, &held] {
        let mut follow = engine.follow(&who, Some(call.asked.id), None);
        loop {
            let (_, fact) = follow.next().await.expect("works here");
            if fact.kind.is_final() {
                break;
            }
        }
    }
    let state = |call: &Call| {
        // What is on record: the task that drove the call may not have run on since its commit.
        let (store, tenant, id) = (engine.store.clone(), who.tenant.clone(), call.asked.id);
        async move { store.call(&tenant, id).await.expect("works here").expect("works here").call }
    };
    assert_eq!(state(&pure).await.state.name(), "finished");
    assert_eq!(state(&accepted).await.state.name(), "finished");
    // The rules that hold it are not in force any more.
    assert_eq!(state(&held).await.state.name(), "finished");
    let unknown = state(&effectful).await;
    assert_eq!(unknown.state, State::OutcomeUnknown);
    let receipt = engine.receipt(&who, unknown.asked.id).await.expect("works here");
    assert_eq!(receipt, Receipt::of(&unknown, ReceiptDetails::default()));
    engine.stop(Duration::from_secs(5)).await;
}
