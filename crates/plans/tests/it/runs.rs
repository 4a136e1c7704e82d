//! Plans from their documents to their ends.

use ringfence_plans::{Intent, PlanError, PlanStatus, StepIntent};
use serde_json::json;

use crate::support::{Server, status};

#[tokio::test(flavor = "multi_thread")]
async fn values_go_from_step_to_step() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let echo = |text: &str| json!({"tool": "echo", "args": {"text": text}});
    let id = server
        .run(json!({"goal": "say words", "steps": [
            {"id": "write", "type": "file:write",
             "payload": {"path": "in/words.txt", "content": "one two three"}},
            {"id": "say", "type": "tool", "payload": echo("wrote ${steps.write.outputs.path}")},
            {"id": "many", "type": "tool", "forEach": ["a", "b", "c"], "payload": echo("${item}${index}")},
            {"id": "join", "type": "tool", "payload": echo("${steps.many.outputs.items[2].message}")},
            {"id": "never", "type": "tool", "payload": echo("x"),
             "if": {"value": "${steps.say.outputs.message}", "equals": "wrote nothing"}},
            {"id": "bound", "type": "tool", "payload": echo("${steps.never.outputs.message}")},
        ]}))
        .await;
    let plan = server.ended(id).await;
    assert_eq!(plan.status, PlanStatus::Completed, "{plan:#?}");
    assert_eq!(
        (status(&plan, "never"), status(&plan, "bound")),
        ("skipped".into(), "skipped".into())
    );
    let result = async |step: &str| {
        let step = plan.steps.iter().find(|found| found.id == step).unwrap();
        let call = step.calls[0]["call"].as_str().unwrap().parse().unwrap();
        let call = server.plane.engine.get(&server.who, call).await.unwrap().unwrap();
        assert_eq!(call.asked.cause.as_ref().unwrap().step.as_ref().unwrap().plan, plan.id);
        match &call.state {
            ringfence_types::State::Finished(finished) => match &finished.produced {
                ringfence_types::Produced::Result(result) => result.to_value(),
                error => panic!("{error:?}"),
            },
            state => panic!("{state:?}"),
        }
    };
    assert_eq!(result("say").await["message"], "wrote in/words.txt");
    assert_eq!(result("join").await["message"], "c2");
    let events = server.plans.events(&server.who, id, 0, 500).await.unwrap();
    let kinds: Vec<_> = events.iter().map(|(_, event)| event.kind.as_str()).collect();
    assert_eq!(kinds[..3], ["planning:plan:created", "planning:plan:start", "planning:step:start"]);
    assert_eq!(kinds.last(), Some(&"planning:plan:complete"));
    server.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_fails_fails_the_plan_and_a_person_repairs_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let id = server
        .run(json!({"steps": [
            {"id": "a", "type": "tool", "retries": 1,
             "payload": {"tool": "file_read", "args": {"path": "missing.txt"}}},
            {"id": "b", "type": "tool", "dependsOn": ["a"],
             "payload": {"tool": "echo", "args": {"text": "after"}}},
        ]}))
        .await;
    let plan = server.ended(id).await;
    assert_eq!((plan.status, plan.steps[0].attempt), (PlanStatus::Failed, 2), "{plan:#?}");
    assert_eq!(status(&plan, "b"), "pending");
    let step = |change| Intent::Step("a".to_owned(), change);
    let edit = StepIntent::Edit(json!({"tool": "echo", "args": {"text": "instead"}}));
    server.plans.change(&server.who, id, &step(edit)).await.unwrap();
    server.plans.change(&server.who, id, &Intent::Resume).await.unwrap();
    let plan = server.ended(id).await;
    assert_eq!((plan.status, plan.steps[0].attempt), (PlanStatus::Completed, 3), "{plan:#?}");
    server.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_types_and_arguments_are_checked_before_anything_runs() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let refused = server
        .create(json!({"steps": [
            {"id": "a", "type": "tool", "payload": {"tool": "ehco", "args": {}}},
            {"id": "b", "type": "tool", "payload": {"tool": "echo", "args": {"txet": 1}}},
            {"id": "c", "type": "command", "payload": {"command": "true"}},
            {"id": "d", "type": "tool", "payload": {"tool": "echo", "args": {"text": "${steps.c.outputs.exitCode}"}}},
            {"id": "e", "type": "tool", "payload": {"tool": "echo", "args": {"text": "${steps.c.outputs.exit}"}}},
            {"id": "f", "type": "file:read", "payload": {"path": "x"}},
            {"id": "g", "type": "command", "payload": {"command": "true"}, "limits": {"memory": 1}},
        ]}))
        .await;
    let Err(PlanError::Invalid(problems)) = refused else { panic!("{refused:?}") };
    let text: Vec<_> = problems.iter().map(ToString::to_string).collect();
    let has = |part: &str| text.iter().any(|problem| problem.starts_with(part));
    assert!(
        has("/steps/0/payload/tool: there is no tool `ehco`; did you mean `echo`?"),
        "{text:#?}"
    );
    assert!(has("/steps/1/payload/args"), "{text:#?}");
    assert!(
        has("/steps/3/payload/args/text: is of type string, and `c` gives integer"),
        "{text:#?}"
    );
    assert!(has("/steps/4/payload/args/text: step `c` has no output `outputs.exit`"), "{text:#?}");
    assert!(has("/steps/5/payload/path: no earlier step writes it"), "{text:#?}");
    assert!(has("/steps/6/limits/memory"), "{text:#?}");
    let plans = server.plans.list(&server.who, None, None, 10).await.unwrap();
    assert!(plans.is_empty(), "nothing is kept");
    server.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_step_waits_for_a_person_and_a_denied_one_is_foreseen() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let document = json!({"steps": [
        {"id": "ask", "type": "approval", "payload": {"message": "go on?"}},
        {"id": "then", "type": "tool", "dependsOn": ["ask"],
         "payload": {"tool": "echo", "args": {"text": "went on"}}},
    ]});
    let preview = server.plans.preview(&server.who, &document).await;
    assert_eq!((preview.ok, preview.approvals), (true, vec!["ask".to_owned()]));
    let denied = json!({"steps": [{"id": "t", "type": "tool", "payload": {"tool": "timestamp"}}]});
    let preview = server.plans.preview(&server.who, &denied).await;
    assert_eq!((preview.ok, preview.denied), (false, vec!["t".to_owned()]));
    let id = server.run(document).await;
    let plan = server.until(id, |plan| status(plan, "ask") == "held").await;
    assert_eq!(plan.status, PlanStatus::InProgress);
    server.plans.change(&server.who, id, &Intent::Cancel).await.unwrap();
    let plan = server.until(id, |plan| status(plan, "ask") == "cancelled").await;
    assert_eq!((plan.status, status(&plan, "then").as_str()), (PlanStatus::Cancelled, "cancelled"));
    let call = plan.steps[0].calls[0]["call"].as_str().unwrap().parse().unwrap();
    let call = server.plane.engine.get(&server.who, call).await.unwrap().unwrap();
    assert_eq!(call.state.name(), "cancelled");
    server.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_of_other_tenants_are_not_found() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let document = json!({"steps": [{"id": "a", "type": "wait", "payload": {"seconds": 1}}]});
    let id = server.run(document).await;
    let other =
        ringfence_types::Principal { tenant: "other".parse().unwrap(), ..server.who.clone() };
    let read = server.plans.get(&other, id).await;
    assert!(matches!(read, Err(PlanError::NotFound)), "{read:?}");
    let changed = server.plans.change(&other, id, &Intent::Cancel).await;
    assert!(matches!(changed, Err(PlanError::NotFound)), "{changed:?}");
    assert_eq!(server.ended(id).await.status, PlanStatus::Completed);
    server.close().await;
}
