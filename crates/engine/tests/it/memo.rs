//! Results that are given again: only what an operator named, only to an equal call, each on record.

use std::{path::Path, sync::Arc, time::Duration};

use ringfence_engine::{ApprovalScope, CallRequest, Memo};
use ringfence_testkit::Plane;
use ringfence_types::{Call, CallId, Principal, State};
use serde_json::json;
use tempfile::TempDir;

use crate::{
    holds::{ALLOW, ASK, after, resolve, within},
    support::{Replaced, approver, echo, engine_of, principal, request, stand},
};

/// Memo settings of the operator.
fn memo(tools: &[&str]) -> Memo {
    let tools = tools.iter().map(|name| name.parse().expect("a name")).collect();
    Memo { tools, ..Memo::default() }
}

async fn open(dir: &Path, rules: &Arc<Replaced>, memo: Memo) -> Plane {
    engine_of(dir, rules.clone(), |settings| settings.memo = memo).await
}

/// An engine that remembers what these tools give.
async fn remembering(tools: &[&str]) -> (TempDir, Plane, Arc<Replaced>) {
    let dir = tempfile::tempdir().expect("works here");
    let rules = Replaced::new(ALLOW);
    let engine = open(dir.path(), &rules, memo(tools)).await;
    (dir, engine, rules)
}

/// The call whose result this one was given.
fn given_by(call: &Call) -> Option<CallId> {
    match &call.state {
        State::Finished(finished) => finished.memoised.map(|memoised| memoised.call),
        other => panic!("{other:?}"),
    }
}

/// Call whose result a call was given.
async fn asks(engine: &Plane, who: &Principal, request: CallRequest) -> Option<CallId> {
    given_by(stand(engine, who, request).await.as_ref())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_equal_call_is_given_the_result_and_has_a_record_of_its_own() {
    let (_dir, engine, _) = remembering(&["echo"]).await;
    let who = principal("acme");
    let first = stand(&engine, &who, echo("hi")).await;
    assert_eq!(given_by(&first), None);
    let second = stand(&engine, &who, request("echo", &json!({"text": "\u{68}i"}))).await;
    assert_eq!(given_by(&second), Some(first.asked.id));
    assert_ne!(second.asked.id, first.asked.id);
    assert!(second.decision.is_some(), "it was decided like any other");

    let receipt = async |call: &Call| {
        engine.receipt(&who, call.asked.id).await.expect("works here").expect("it has ended")
    };
    let (ran, again) = (receipt(&first).await, receipt(&second).await);
    assert_eq!((&again.result, &again.outputs_hash), (&ran.result, &ran.outputs_hash));
    let memoised = again.memoised.expect("it says so");
    assert_eq!((memoised.call, ran.memoised), (ran.call, None));
    assert_eq!(memoised.ended_at, ran.ended_at);
    let about = ringfence_store::EntryQuery {
        call: Some(ran.call),
        limit: 9,
        ..ringfence_store::EntryQuery::default()
    };
    let entries = engine.store.entries(about).await.expect("works here");
    assert_eq!((memoised.entry, memoised.leaf), (entries[0].index, entries[0].sealed.leaf));
    assert!(again.not_observed[0].contains("earlier call"), "{:?}", again.not_observed);

    let text = engine.metrics_text();
    for line in [
        "tool_memo_lookups_total{tool=\"echo\",result=\"hit\"} 1",
        "tool_memo_lookups_total{tool=\"echo\",result=\"miss\"} 1",
        "tool_executor_requests_total{tool=\"echo\",outcome=\"success\"} 2",
        "tool_executor_execution_seconds_count{tool=\"echo\"} 1",
    ] {
        assert!(text.contains(line), "no {line} in {text}");
    }
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_given_again_unless_the_tool_was_named_and_can_be() {
    let (dir, engine, _) = remembering(&["file_read", "timestamp", "canvas_append"]).await;
    let who = principal("acme");
    let work = dir.path().join("work/acme");
    std::fs::create_dir_all(&work).expect("works here");
    std::fs::write(work.join("note"), "one").expect("works here");
    for (tool, args) in [
        ("echo", json!({"text": "not named"})),
        ("timestamp", json!({})),
        ("file_read", json!({"path": "note"})),
        ("canvas_append", json!({"session_id": "s", "content": "twice"})),
    ] {
        for _ in 0..2 {
            let call = stand(&engine, &who, request(tool, &args)).await;
            assert_eq!(given_by(&call), None, "{tool}");
        }
        let catalogue = engine.registry.catalogue();
        let entry = catalogue.get(tool, None).expect("it is there");
        assert!(!engine.memoises(&entry.tool), "{tool}");
    }
    assert!(!engine.metrics_text().contains("tool_memo_lookups_total{"), "no lookup");
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_differs_in_anything_runs() {
    let (_dir, engine, rules) = remembering(&["echo"]).await;
    let who = principal("acme");
    let first = stand(&engine, &who, echo("hi")).await.asked.id;
    assert_eq!(asks(&engine, &who, echo("hi")).await, Some(first), "the control");
    assert_eq!(asks(&engine, &who, echo("ho")).await, None, "other arguments");
    assert_eq!(asks(&engine, &principal("other"), echo("hi")).await, None, "another tenant");
    rules.with(&format!("{ALLOW}\n# the same in other words\n"));
    assert_eq!(asks(&engine, &who, echo("hi")).await, None, "another policy");
    rules.with(ALLOW);
    assert_eq!(asks(&engine, &who, echo("hi")).await, Some(first), "the first policy again");
    engine.stop(Duration::from_secs(5)).await;
}

/// The same rules, under which a persona's calls have limits of their own.
const BY_PERSONA: &str = r#"
package ringfence

decision := {"decision": "allow", "obligations": {"fresh": true}} if {
    input.persona_id == "careful"
} else := {"decision": "allow", "obligations": {"limits": {"wall_secs": 9}}} if {
    input.persona_id == "bound"
} else := {"decision": "allow", "obligations": {"redact": ["/result/message"]}} if {
    input.persona_id == "masked"
} else := {"decision": "allow"}
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn obligations_are_part_of_what_is_equal_and_one_demands_a_run() {
    let (_dir, engine, rules) = remembering(&["echo"]).await;
    rules.with(BY_PERSONA);
    let who = principal("acme");
    let of = |persona: &str| {
        let persona = Some(persona.parse().expect("a name"));
        CallRequest { persona, ..echo("secret") }
    };
    let free = stand(&engine, &who, echo("secret")).await.asked.id;
    assert_eq!(asks(&engine, &who, of("another")).await, Some(free), "the control");
    let bound = stand(&engine, &who, of("bound")).await;
    assert_eq!(given_by(&bound), None);
    assert_eq!(asks(&engine, &who, of("bound")).await, Some(bound.asked.id));
    for _ in 0..2 {
        assert_eq!(asks(&engine, &who, of("careful")).await, None);
    }
    let masked = stand(&engine, &who, of("masked")).await;
    let again = stand(&engine, &who, of("masked")).await;
    assert_eq!(given_by(&again), Some(masked.asked.id));
    let finished = |call: &Call| match &call.state {
        State::Finished(finished) => (finished.produced.clone(), finished.true_result),
        other => panic!("{other:?}"),
    };
    assert_eq!(finished(&again), finished(&masked), "masked once, and its digest of the truth");
    assert!(finished(&again).1.is_some());
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fresh_call_runs_and_its_result_replaces_the_memo() {
    let (_dir, engine, _) = remembering(&["echo"]).await;
    let who = principal("acme");
    stand(&engine, &who, echo("hi")).await;
    let fresh = stand(&engine, &who, CallRequest { fresh: true, ..echo("hi") }).await;
    assert_eq!(given_by(&fresh), None);
    assert_eq!(asks(&engine, &who, echo("hi")).await, Some(fresh.asked.id));
    let text = engine.metrics_text();
    assert!(text.contains("tool_memo_lookups_total{tool=\"echo\",result=\"fresh\"} 1"), "{text}");
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_person_allowed_runs_and_is_not_remembered() {
    let (_dir, engine, rules) = remembering(&["echo"]).await;
    let (who, anna) = (principal("acme"), approver("acme", 1));
    let hi = || CallRequest { session: Some("s".parse().expect("a name")), ..echo("hi") };
    rules.with(ASK);
    let held = stand(&engine, &who, hi()).await;
    resolve(&engine, &anna, held.asked.id, within(ApprovalScope::Session, 5))
        .await
        .expect("it is held");
    let first = after(&engine, &who, held.asked.id, &[ringfence_types::FactKind::Finished]).await;
    assert_eq!(given_by(&first), None);
    // By the same approval, so without another hold.
    assert_eq!(asks(&engine, &who, hi()).await, None);
    rules.with(ALLOW);
    assert_eq!(asks(&engine, &who, hi()).await, None, "nothing was remembered");
    rules.with(ASK);
    assert_eq!(asks(&engine, &who, hi()).await, None, "and nothing is given");
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_or_denied_call_is_given_nothing() {
    let (_dir, engine, rules) = remembering(&["echo"]).await;
    let who = principal("acme");
    stand(&engine, &who, echo("hi")).await;
    rules.with("package ringfence\n\ndecision := {\"decision\": \"deny\"}\n");
    assert_eq!(stand(&engine, &who, echo("hi")).await.state.name(), "denied");
    rules.with(ASK);
    assert_eq!(stand(&engine, &who, echo("hi")).await.state.name(), "held");
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_failed_is_not_remembered() {
    // There is no sandbox here, so that every program fails.
    let (_dir, engine, _) = remembering(&["code_execute"]).await;
    let who = principal("acme");
    for _ in 0..2 {
        let call = stand(&engine, &who, request("code_execute", &json!({"code": "1"}))).await;
        let State::Finished(finished) = &call.state else { panic!("{:?}", call.state) };
        assert!(!finished.is_success());
        assert_eq!(finished.memoised, None);
    }
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_remembered_outlives_the_process_but_not_its_time() {
    let dir = tempfile::tempdir().expect("works here");
    let (rules, who) = (Replaced::new(ALLOW), principal("acme"));
    let mut given = Vec::new();
    let long = memo(&["echo"]);
    let short = Memo { keep_for: Duration::ZERO, ..long.clone() };
    for memo in [long.clone(), long.clone(), Memo::default(), short, long] {
        let engine = open(dir.path(), &rules, memo).await;
        let call = stand(&engine, &who, echo("hi")).await;
        given.push((call.asked.id, given_by(&call)));
        engine.close(Duration::from_secs(5)).await.expect("works here");
    }
    let [first, second, off, late, last] = given.as_slice() else { panic!("{given:?}") };
    assert_eq!((first.1, second.1), (None, Some(first.0)));
    assert_eq!((off.1, late.1), (None, None));
    // What ran when the first was too old is what is remembered now.
    assert_eq!(last.1, Some(late.0));
}
