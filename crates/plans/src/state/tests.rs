use ringfence_types::PlanId;
use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::intent::{Intent, StepIntent};

fn now() -> Timestamp {
    Timestamp::from_micros(1_000_000)
}

fn plan(tree: Value) -> Plan {
    let document = document::parse(&tree).unwrap();
    let state = PlanState { intervention: document.intervention, ..PlanState::default() };
    let row = PlanRow {
        id: PlanId(Uuid::from_u128(1)),
        tenant: "t".parse().unwrap(),
        key: key(),
        persona: None,
        status: "pending".to_owned(),
        is_open: false,
        goal: String::new(),
        document: Json::from_value(&tree).unwrap(),
        state: Json::empty_object(),
        created_at: now(),
        changed_at: now(),
        version: 1,
        is_own: true,
    };
    let mut plan = Plan { row, document, state, status: PlanStatus::Pending, events: Vec::new() };
    plan.change(&Intent::Run, key(), now()).unwrap();
    plan
}

fn key() -> KeyId {
    KeyId(Uuid::from_u128(2))
}

fn command(id: &str, needs: &[&str]) -> Value {
    json!({"id": id, "type": "command", "payload": {"command": "true"}, "dependsOn": needs})
}

fn call() -> CallId {
    CallId(Uuid::from_u128(3))
}

fn advance(plan: &mut Plan) {
    plan.advance(&AllOutputs::new(), now());
}

/// Ends the only item of a step that runs.
fn end(plan: &mut Plan, step: &str, end: End) {
    let attempt = plan.state.steps[step].items[0].attempt;
    let place = Place { step: step.to_owned(), index: 0, attempt };
    plan.end(&place, &end, now());
    advance(plan);
}

fn failed(code: &str) -> End {
    let error = StepError { code: code.to_owned(), message: "no".to_owned(), details: None };
    End::Failed(Some(call()), error)
}

fn statuses(plan: &Plan) -> Vec<&'static str> {
    plan.document.steps.iter().map(|step| plan.status_of(&step.id).name()).collect()
}

fn kinds(plan: &Plan) -> Vec<&str> {
    plan.events.iter().map(|event| event.kind.strip_prefix("planning:").unwrap()).collect()
}

#[test]
fn steps_begin_when_those_before_them_have_ended() {
    let steps = [command("a", &[]), command("b", &[]), command("c", &["a", "b"])];
    let mut plan = plan(json!({"steps": steps}));
    advance(&mut plan);
    assert_eq!(statuses(&plan), ["running", "running", "pending"]);
    end(&mut plan, "a", End::Done(call()));
    assert_eq!(statuses(&plan), ["completed", "running", "pending"]);
    end(&mut plan, "b", End::Done(call()));
    end(&mut plan, "c", End::Done(call()));
    assert_eq!(plan.status, PlanStatus::Completed);
    assert_eq!(
        kinds(&plan),
        [
            "plan:start",
            "step:start",
            "step:start",
            "step:complete",
            "step:complete",
            "step:start",
            "step:complete",
            "plan:complete",
        ]
    );
}

#[test]
fn a_failed_step_is_tried_again_as_often_as_asked_and_then_fails_the_plan() {
    let mut step = command("a", &[]);
    step["retries"] = json!(1);
    let mut plan = plan(json!({"steps": [step, command("b", &["a"])]}));
    advance(&mut plan);
    end(&mut plan, "a", failed("code_failed"));
    assert_eq!(plan.state.steps["a"].items[0].attempt, 2);
    assert_eq!(statuses(&plan), ["running", "pending"]);
    end(&mut plan, "a", failed("code_failed"));
    assert_eq!(statuses(&plan), ["failed", "pending"]);
    assert_eq!(plan.status, PlanStatus::Failed);
    plan.change(&Intent::Retry(None), key(), now()).unwrap();
    advance(&mut plan);
    assert_eq!(plan.state.steps["a"].items[0].attempt, 3, "a key is never used twice");
    end(&mut plan, "a", End::Done(call()));
    end(&mut plan, "b", End::Done(call()));
    assert_eq!(plan.status, PlanStatus::Completed);
}

#[test]
fn a_denial_is_not_tried_again() {
    let mut step = command("a", &[]);
    step["retries"] = json!(5);
    let mut plan = plan(json!({"steps": [step]}));
    advance(&mut plan);
    end(&mut plan, "a", failed("denied"));
    assert_eq!(plan.status, PlanStatus::Failed);
}

#[test]
fn an_unknown_outcome_pauses_the_plan_and_only_a_person_goes_on() {
    let mut step = command("a", &[]);
    step["retries"] = json!(5);
    let mut plan = plan(json!({"steps": [step, command("b", &["a"])]}));
    advance(&mut plan);
    end(&mut plan, "a", End::Unknown(call()));
    assert_eq!((plan.status, statuses(&plan)), (PlanStatus::Paused, vec!["unknown", "pending"]));
    assert!(plan.change(&Intent::Resume, key(), now()).is_err());
    let replace = StepIntent::Replace(json!({"stdout": "seen"}));
    plan.change(&Intent::Step("a".to_owned(), replace), key(), now()).unwrap();
    plan.change(&Intent::Resume, key(), now()).unwrap();
    advance(&mut plan);
    assert_eq!(statuses(&plan), ["completed", "running"]);
}

#[test]
fn a_call_of_a_lost_driver_is_in_flight_for_the_next_one() {
    let mut plan = plan(json!({"steps": [command("a", &[])]}));
    advance(&mut plan);
    let row = plan.to_row(now());
    let read = Plan::read(row).unwrap();
    let (place, status, _) = read.in_flight().remove(0);
    assert_eq!((place.step.as_str(), place.attempt, status), ("a", 1, Status::Running));
    assert_eq!(read.state, plan.state);
}

#[test]
fn intervention_stops_before_each_step() {
    let mut plan =
        plan(json!({"intervention": true, "steps": [command("a", &[]), command("b", &["a"])]}));
    advance(&mut plan);
    assert_eq!(statuses(&plan), ["awaiting", "pending"]);
    let step = |change| Intent::Step("a".to_owned(), change);
    let edit = StepIntent::Edit(json!({"command": "echo edited"}));
    plan.change(&step(edit), key(), now()).unwrap();
    assert_eq!((plan.state.revision, statuses(&plan)[0]), (1, "awaiting"));
    let wrong = StepIntent::Edit(json!({"comand": "x"}));
    assert!(matches!(
        plan.change(&step(wrong), key(), now()),
        Err(crate::NotChanged::Invalid(problems)) if problems.len() == 2
    ));
    plan.change(&step(StepIntent::Resume), key(), now()).unwrap();
    advance(&mut plan);
    assert_eq!(statuses(&plan), ["running", "pending"]);
    assert!(plan.change(&step(StepIntent::Skip), key(), now()).is_err(), "it runs");
    end(&mut plan, "a", End::Done(call()));
    plan.change(&Intent::Step("b".to_owned(), StepIntent::Skip), key(), now()).unwrap();
    advance(&mut plan);
    assert_eq!(plan.status, PlanStatus::Completed);
}

#[test]
fn a_condition_skips_a_step_and_those_that_are_bound_to_it() {
    let mut plan = plan(json!({"steps": [
        command("a", &[]),
        {"id": "b", "type": "command", "payload": {"command": "true"},
         "if": {"value": "${steps.a.outputs.stdout}", "equals": "yes"}},
        {"id": "c", "type": "command", "payload": {"command": "true", "stdin": "${steps.b.outputs.stdout}"}},
        command("d", &["b"]),
    ]}));
    advance(&mut plan);
    let place = Place { step: "a".to_owned(), index: 0, attempt: 1 };
    plan.end(&place, &End::Done(call()), now());
    let values = json!({"stdout": "no"});
    let outputs = Outputs { values, ..Outputs::default() };
    plan.advance(&AllOutputs::from([("a".to_owned(), Ok(outputs))]), now());
    assert_eq!(statuses(&plan), ["completed", "skipped", "skipped", "running"]);
}

#[test]
fn a_fan_out_runs_as_many_items_as_may_and_retries_only_those_that_failed() {
    let mut plan = plan(json!({"maxParallel": 2, "steps": [
        {"id": "a", "type": "command", "payload": {"command": "true"}, "forEach": [1, 2, 3]},
    ]}));
    advance(&mut plan);
    let items = |plan: &Plan| {
        let items = &plan.state.steps["a"].items;
        items.iter().map(|item| (item.status.name(), item.attempt)).collect::<Vec<_>>()
    };
    assert_eq!(items(&plan), [("running", 1), ("running", 1), ("pending", 1)]);
    let place = |index| Place { step: "a".to_owned(), index, attempt: 1 };
    plan.end(&place(0), &End::Done(call()), now());
    advance(&mut plan);
    plan.end(&place(1), &failed("code_failed"), now());
    plan.end(&place(2), &End::Done(call()), now());
    advance(&mut plan);
    assert_eq!(plan.status, PlanStatus::Failed);
    plan.change(&Intent::Retry(Some("a".to_owned())), key(), now()).unwrap();
    advance(&mut plan);
    assert_eq!(items(&plan), [("completed", 1), ("running", 2), ("completed", 1)]);
}

#[test]
fn a_cancelled_plan_needs_its_driver_until_its_calls_have_ended() {
    let mut plan = plan(json!({"steps": [command("a", &[]), command("b", &["a"])]}));
    advance(&mut plan);
    plan.change(&Intent::Cancel, key(), now()).unwrap();
    assert!(plan.to_row(now()).is_open);
    assert_eq!(statuses(&plan), ["running", "cancelled"]);
    end(&mut plan, "a", End::Cancelled(Some(call())));
    assert!(!plan.to_row(now()).is_open);
    assert_eq!(statuses(&plan), ["cancelled", "cancelled"]);
}

#[test]
fn a_wait_is_over_when_its_time_has_come() {
    let mut plan = plan(json!({"steps": [{"id": "w", "type": "wait", "payload": {"seconds": 2}}]}));
    advance(&mut plan);
    let due = plan.next_due().unwrap();
    assert_eq!((statuses(&plan)[0], due.since(now()).as_secs()), ("waiting", 2));
    plan.advance(&AllOutputs::new(), due);
    assert_eq!(plan.status, PlanStatus::Completed);
}

#[test]
fn a_timeout_is_repaired_by_a_rule_as_often_as_the_plan_says() {
    let mut step = command("a", &[]);
    step["timeout"] = json!(20);
    let mut plan = plan(json!({"repair": 1, "steps": [step]}));
    advance(&mut plan);
    end(&mut plan, "a", failed("timeout"));
    assert_eq!(plan.document.steps[0].timeout_secs, Some(40));
    assert_eq!((plan.state.revision, statuses(&plan)[0]), (1, "running"));
    assert_eq!(plan.state.steps["a"].items[0].attempt, 2);
    end(&mut plan, "a", failed("timeout"));
    assert_eq!((plan.status, plan.document.steps[0].timeout_secs), (PlanStatus::Failed, Some(40)));
    let applied: Vec<_> = plan.state.reflections.iter().map(|found| found.applied).collect();
    assert_eq!(applied, [true, false]);
    assert_eq!(Plan::read(plan.to_row(now())).unwrap().state, plan.state);
}

#[test]
fn rules_name_the_cause_of_a_failure_and_change_no_program() {
    let about = |details: &str| {
        let mut plan = plan(json!({"repair": 3, "steps": [command("a", &[])]}));
        advance(&mut plan);
        let error = StepError {
            code: "code_failed".to_owned(),
            message: "the code failed".to_owned(),
            details: Some(details.to_owned()),
        };
        end(&mut plan, "a", End::Failed(Some(call()), error));
        assert_eq!((plan.status, plan.state.revision), (PlanStatus::Failed, 0));
        plan.state.reflections.first().map(|found| (found.rule.clone(), found.action.clone()))
    };
    let replan = |rule: &str| Some((rule.to_owned(), "REPLAN".to_owned()));
    assert_eq!(about("ModuleNotFoundError: No module named 'pandas'"), replan("missing_package"));
    assert_eq!(about("cat: x: No such file or directory"), replan("wrong_path"));
    assert_eq!(about("bash: foo: command not found"), replan("missing_program"));
    assert_eq!(about("  File \"x\"\nSyntaxError: invalid syntax"), replan("syntax_error"));
    assert_eq!(about("curl: (7) Connection refused"), replan("network_refused"));
    assert_eq!(about("assertion failed"), None);
}
