//! Approvals: their effect, and the keys that may give one.

use std::time::Duration;

use ringfence_engine::{Action, NotResolved, Resolved, TermsRequest};
use ringfence_store::EntryQuery;
use ringfence_types::{EntryKind, FactKind, Json, Principal, Scope, State};
use serde_json::json;

use super::{ASK, after, approve, engine, resolve, result, revoking::kept};
use crate::support::{Replaced, approver, echo, principal, stand};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_person_approves_runs_once_and_says_by_what() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path(), &Replaced::new(ASK)).await;
    let (who, boss) = (principal("acme"), approver("acme", 1));
    let held = stand(&engine, &who, echo("hi")).await;
    let id = held.asked.id;
    let resolved = resolve(&engine, &boss, id, approve()).await.expect("approved");
    assert!(matches!(resolved, Resolved::Runs(_)), "{resolved:?}");
    let call = after(&engine, &who, id, &[FactKind::Finished]).await;
    assert_eq!(result(&call), json!({"message": "hi"}));
    let decision = call.decision.as_ref().expect("it was decided");
    assert!(decision.approval.is_some(), "{decision:?}");

    let again = resolve(&engine, &boss, id, approve()).await;
    assert!(matches!(again, Err(NotResolved::NotHeld("finished"))), "{again:?}");
    let next = stand(&engine, &who, echo("hi")).await;
    assert_eq!(next.state.name(), "held", "the same request is another call");
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn makers_and_foreign_keys_and_keys_without_the_scope_cannot_approve() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path(), &Replaced::new(ASK)).await;
    let who = Principal { scopes: vec![Scope::Call, Scope::Approve].into(), ..principal("acme") };
    let id = stand(&engine, &who, echo("hi")).await.asked.id;
    let own = resolve(&engine, &who, id, approve()).await;
    assert!(matches!(own, Err(NotResolved::OwnCall)), "{own:?}");
    let admin = Principal { scopes: vec![Scope::Admin].into(), ..approver("acme", 1) };
    let admin = resolve(&engine, &admin, id, approve()).await;
    assert!(matches!(admin, Err(NotResolved::Scope)), "{admin:?}");
    let foreign = resolve(&engine, &approver("other", 1), id, approve()).await;
    assert!(matches!(foreign, Err(NotResolved::Missing)), "{foreign:?}");
    let held = engine.get(&who, id).await.expect("works here").expect("it is there");
    assert_eq!(held.state.name(), "held");
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_a_client_sends_stands_in_for_an_approval() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path(), &Replaced::new(ASK)).await;
    let mut request = echo("hi");
    let sent = json!({"requeue_override": true, "approval": {"by": ["me"]}, "approved": true});
    request.metadata = Json::of(&sent).expect("works here");
    let held = stand(&engine, &principal("acme"), request).await;
    assert_eq!(held.state.name(), "held");
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edited_arguments_run_and_both_versions_are_on_record() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path(), &Replaced::new(ASK)).await;
    let (who, boss) = (principal("acme"), approver("acme", 1));
    let held = stand(&engine, &who, echo("delete everything")).await;
    let id = held.asked.id;
    let edit = |args| Action::Approve {
        terms: TermsRequest::default(),
        edited: Some(Json::of(&args).expect("works here")),
    };
    let refused = resolve(&engine, &boss, id, edit(json!({"txt": "x"}))).await;
    assert!(matches!(refused, Err(NotResolved::InvalidArguments(_))), "{refused:?}");
    resolve(&engine, &boss, id, edit(json!({"text": "delete one"}))).await.expect("approved");
    let call = after(&engine, &who, id, &[FactKind::Finished]).await;
    assert_eq!(result(&call), json!({"message": "delete one"}));
    assert_eq!(call.asked.args.to_value(), json!({"text": "delete everything"}));
    let edited = call.edited.as_ref().expect("it was edited");
    assert_eq!((edited.args.to_value(), edited.by), (json!({"text": "delete one"}), boss.key));
    let receipt = engine.receipt(&who, id).await.expect("works here").expect("it is final");
    assert_eq!(receipt.args, edited.args_digest);
    assert_eq!(receipt.asked_args, Some(call.asked.args_digest));
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_people_are_two_different_keys() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path(), &Replaced::new(ASK)).await;
    let who = principal("acme");
    let id = stand(&engine, &who, echo("two of you")).await.asked.id;
    let first = resolve(&engine, &approver("acme", 1), id, approve()).await.expect("a vote");
    let Resolved::Waits(call) = first else { panic!("{first:?}") };
    let hold = call.hold().expect("it is held");
    assert_eq!((hold.needed, hold.votes.len()), (2, 1));
    let twice = resolve(&engine, &approver("acme", 1), id, approve()).await;
    assert!(matches!(twice, Err(NotResolved::Twice)), "{twice:?}");
    let second = resolve(&engine, &approver("acme", 2), id, approve()).await.expect("a vote");
    assert!(matches!(second, Resolved::Runs(_)), "{second:?}");
    let call = after(&engine, &who, id, &[FactKind::Finished]).await;
    assert_eq!(result(&call), json!({"message": "two of you"}));
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_no_ends_the_call_with_its_reason_and_a_discarded_one_is_cancelled() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path(), &Replaced::new(ASK)).await;
    let (who, boss) = (principal("acme"), approver("acme", 1));
    let id = stand(&engine, &who, echo("hi")).await.asked.id;
    let denied = resolve(&engine, &boss, id, Action::Deny).await.expect("denied");
    let Resolved::Ended(call) = denied else { panic!("{denied:?}") };
    let State::Denied { reasons } = &call.state else { panic!("{:?}", call.state) };
    assert_eq!(reasons[0].rule, "denied_by_person");
    assert!(reasons[0].message.ends_with("denied the call: because"), "{reasons:?}");
    assert!(reasons[0].message.contains(&boss.key.to_string()), "{reasons:?}");
    assert!(engine.receipt(&who, id).await.expect("works here").is_some());

    let id = stand(&engine, &who, echo("hi")).await.asked.id;
    let discarded = resolve(&engine, &boss, id, Action::Discard).await.expect("discarded");
    let Resolved::Ended(call) = discarded else { panic!("{discarded:?}") };
    assert_eq!(call.state.name(), "cancelled");
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_person_with_two_keys_is_one_person() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path(), &Replaced::new(ASK)).await;
    let of = |who: Principal, person: &str| Principal {
        person: Some(person.parse().expect("a person")),
        ..who
    };
    let who = of(principal("acme"), "ann");
    kept(&engine, &who).await;
    let id = stand(&engine, &who, echo("two of you")).await.asked.id;
    let own = resolve(&engine, &of(approver("acme", 1), "Ann"), id, approve()).await;
    assert!(matches!(own, Err(NotResolved::OwnCall)), "{own:?}");
    let (first, again) = (of(approver("acme", 2), "bob"), of(approver("acme", 3), "BOB"));
    resolve(&engine, &first, id, approve()).await.expect("a vote");
    let twice = resolve(&engine, &again, id, approve()).await;
    assert!(matches!(twice, Err(NotResolved::Twice)), "{twice:?}");
    let other = of(approver("acme", 4), "eve");
    let second = resolve(&engine, &other, id, approve()).await.expect("the control");
    assert!(matches!(second, Resolved::Runs(_)), "{second:?}");
    after(&engine, &who, id, &[FactKind::Finished]).await;
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_resolution_is_on_the_ledger_and_names_the_person() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path(), &Replaced::new(ASK)).await;
    let (who, ann) = (principal("acme"), Some("ann".parse().expect("a person")));
    let boss = Principal { person: ann, ..approver("acme", 1) };
    let id = stand(&engine, &who, echo("hi")).await.asked.id;
    resolve(&engine, &boss, id, approve()).await.expect("approved");
    after(&engine, &who, id, &[FactKind::Finished]).await;
    let query = EntryQuery { call: Some(id), limit: 9, ..EntryQuery::default() };
    let entries = engine.store.entries(query).await.expect("works here");
    let said = |kind: EntryKind| {
        let entry = entries.iter().find(|placed| placed.sealed.kind == kind).expect("an entry");
        ringfence_ledger::said_in::<serde_json::Value>(&entry.sealed).expect("it says something")
    };
    let (resolution, approval) = (said(EntryKind::Resolution), said(EntryKind::Approval));
    for told in [&resolution, &approval["votes"][0]] {
        assert_eq!((&told["person"], &told["label"]), (&json!("ann"), &json!("boss 1")), "{told}");
        assert_eq!(told["by"], json!(boss.key), "{told}");
    }
    engine.stop(Duration::from_secs(5)).await;
}
