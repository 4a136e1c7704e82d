//! Holds that expire, that are decided again, and that outlive the server.

use std::{sync::Arc, time::Duration};

use ringfence_engine::{Action, Resolved, Settings};
use ringfence_ledger::Entry;
use ringfence_store::{Record, contract::samples};
use ringfence_types::{About, FactKind, State, shown};
use serde_json::json;

use super::{ALLOW, ASK, DENY, after, approve, engine, resolve, result};
use crate::support::{Replaced, approver, echo, engine_of, principal, stand};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_undecided_call_expires_and_is_not_denied() {
    let dir = tempfile::tempdir().expect("works here");
    let short = |settings: &mut Settings| settings.hold_for = Duration::from_millis(100);
    let engine = engine_of(dir.path(), Replaced::new(ASK), short).await;
    let who = principal("acme");
    let id = stand(&engine, &who, echo("hi")).await.asked.id;
    let call = after(&engine, &who, id, &[FactKind::Expired]).await;
    let State::Expired { reasons } = &call.state else { panic!("{:?}", call.state) };
    assert_eq!(reasons[0].rule, "ask");
    assert!(engine.receipt(&who, id).await.expect("works here").is_some());
    let late = resolve(&engine, &approver("acme", 1), id, approve()).await;
    assert!(late.is_err(), "{late:?}");
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_rules_allow_by_now_runs_when_it_is_judged_again() {
    let dir = tempfile::tempdir().expect("works here");
    let rules = Replaced::new(ASK);
    let engine = engine(dir.path(), &rules).await;
    let (who, boss) = (principal("acme"), approver("acme", 1));
    let id = stand(&engine, &who, echo("hi")).await.asked.id;
    let same = resolve(&engine, &boss, id, Action::Reevaluate).await.expect("judged");
    assert!(matches!(same, Resolved::Waits(_)), "{same:?}");
    rules.with(ALLOW);
    let passes = resolve(&engine, &boss, id, Action::Reevaluate).await.expect("judged");
    assert!(matches!(passes, Resolved::Runs(_)), "{passes:?}");
    let call = after(&engine, &who, id, &[FactKind::Finished]).await;
    assert_eq!(result(&call), json!({"message": "hi"}));
    assert_eq!(call.decision.as_ref().and_then(|decision| decision.approval), None);
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_approved_and_not_begun_begins_after_a_restart() {
    let dir = tempfile::tempdir().expect("works here");
    let rules = Replaced::new(ASK);
    let who = principal("acme");
    let id = {
        let engine = engine(dir.path(), &rules).await;
        let held = stand(&engine, &who, echo("hi")).await;
        let store = engine.store.clone();
        let stored = store.call(&who.tenant, held.asked.id).await.expect("works").expect("there");
        // As the approval leaves it when the server is killed right after.
        let mut approval = samples::approval(&stored.call, 1);
        approval.policy = stored.call.decision.as_ref().expect("it was decided").policy;
        approval.votes[0].shown = shown(&stored.call);
        approval.terms.expires_at = stored.call.changed_at.after(Duration::from_secs(600));
        let call = Arc::new(stored.call);
        let guard = engine.ledger.signing_guard().await;
        let entry = Entry::approval(About::call(&call.asked, call.changed_at), &approval);
        let entries = vec![guard.seal(entry).expect("it is small")];
        let record = samples::record(&call, Some(stored.version));
        let record = Record { approval: Some(approval), entries, ..record };
        store.record(record).await.expect("works here");
        drop(guard);
        engine.close(Duration::from_secs(5)).await.expect("works here");
        held.asked.id
    };
    let engine = engine(dir.path(), &rules).await;
    let call = after(&engine, &who, id, &[FactKind::Finished]).await;
    assert_eq!(result(&call), json!({"message": "hi"}));
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approving_a_call_that_rules_deny_by_now_reports_the_denial() {
    let dir = tempfile::tempdir().expect("works here");
    let rules = Replaced::new(ASK);
    let engine = engine(dir.path(), &rules).await;
    let (who, boss) = (principal("acme"), approver("acme", 1));
    let first = stand(&engine, &who, echo("hi")).await.asked.id;
    let second = stand(&engine, &who, echo("hi")).await.asked.id;
    rules.with(DENY);
    for (id, action) in [(first, approve()), (second, Action::Reevaluate)] {
        let ended = resolve(&engine, &boss, id, action).await.expect("an answer");
        let Resolved::Ended(call) = ended else { panic!("{ended:?}") };
        let State::Denied { reasons } = &call.state else { panic!("{:?}", call.state) };
        assert_eq!(reasons[0].rule, "never");
        assert!(engine.receipt(&who, id).await.expect("works here").is_some());
    }
    engine.stop(Duration::from_secs(5)).await;
}
