//! A plan that a process left is gone on with by the next one, and each step is one call.

use std::collections::BTreeSet;

use ringfence_engine::data::CallQuery;
use ringfence_plans::PlanStatus;
use serde_json::{Value, json};

use crate::support::Server;

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_was_left_goes_on_and_each_step_is_one_call() {
    let dir = tempfile::tempdir().unwrap();
    let first = Server::start(dir.path()).await;
    let steps: Vec<Value> = (0..20)
        .map(|n| {
            let needs: Vec<_> = (n > 0).then(|| format!("s{}", n - 1)).into_iter().collect();
            json!({"id": format!("s{n}"), "type": "file:write", "dependsOn": needs,
                   "payload": {"path": format!("{n}.txt"), "content": format!("{n}")}})
        })
        .collect();
    let id = first.run(json!({"steps": steps})).await;
    first.until(id, |plan| plan.steps[5].status == "completed").await;
    first.close().await;
    let second = Server::start(dir.path()).await;
    let plan = second.ended(id).await;
    assert_eq!(plan.status, PlanStatus::Completed, "{plan:#?}");
    let query = CallQuery {
        tenant: second.who.tenant.clone(),
        state: None,
        tool: None,
        session: None,
        parent: None,
        before: None,
        limit: 100,
    };
    let (calls, _) = second.plane.engine.list(&second.who, query).await.unwrap();
    let names: BTreeSet<_> = calls
        .iter()
        .map(|call| call.asked.cause.as_ref().unwrap().step.as_ref().unwrap().step.clone())
        .collect();
    assert_eq!((calls.len(), names.len()), (20, 20));
    second.close().await;
}
