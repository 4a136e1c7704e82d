//! Calls whose sandbox fails.

use std::time::Duration;

use ringfence_engine::{CircuitSettings, Refused};
use ringfence_testkit::rules;
use ringfence_types::{Call, FactKind, Produced, State};
use serde_json::json;

use crate::support::{allow_all, engine_of, principal, request, stand};

fn code(call: &Call) -> &'static str {
    match &call.state {
        State::Finished(finished) => match &finished.produced {
            Produced::Error(error) => error.code.as_str(),
            Produced::Result(result) => panic!("{result}"),
        },
        other => panic!("{other:?}"),
    }
}

/// The sandboxes of these tests cannot be made, so each try fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pure_call_is_tried_again_on_record_until_its_circuit_opens() {
    let dir = tempfile::tempdir().expect("works here");
    let circuit = CircuitSettings { failures: 4, reset_after: Duration::from_secs(3_600) };
    let policy = rules(&allow_all());
    let engine = engine_of(dir.path(), policy, move |settings| settings.circuit = circuit).await;
    let who = principal("acme");
    let run = || request("code_execute", &json!({"code": "print(1)"}));
    let call = stand(&engine, &who, run()).await;
    assert_eq!(code(&call), "sandbox_failed");
    let mut kinds = Vec::new();
    let mut follow = engine.follow(&who, Some(call.asked.id), None);
    while kinds.last() != Some(&FactKind::Finished) {
        kinds.push(follow.next().await.expect("works here").1.kind);
    }
    let tries = kinds.iter().filter(|kind| **kind == FactKind::Retried).count();
    assert_eq!(tries, 2, "{kinds:?}");
    assert!(engine.metrics_text().contains("tool_retries_total{tool=\"code_execute\"} 2"));
    // Three failures by now. The fourth opens the circuit, and the next try finds it open.
    assert_eq!(code(&*stand(&engine, &who, run()).await), "circuit_open");
    let refused = engine.call(&who, run()).await.expect_err("it is open");
    assert!(matches!(refused, Refused::CircuitOpen { .. }), "{refused:?}");
    // Another tenant has a circuit of its own.
    assert_eq!(code(&*stand(&engine, &principal("other"), run()).await), "sandbox_failed");
    engine.stop(Duration::from_secs(5)).await;
}
