//! Keys that are revoked while calls wait: those of callers and those of approvers.

use std::time::Duration;

use ringfence_engine::{ApprovalScope, CallRequest, Resolved};
use ringfence_ledger::{Entry, KeyChange};
use ringfence_store::{Key, Revocation, Revoked, contract::samples};
use ringfence_testkit::Plane;
use ringfence_types::{FactKind, Principal, State};
use serde_json::json;

use super::{ASK, after, approve, engine, resolve, result, within};
use crate::support::{Replaced, approver, echo, principal, stand};

/// A stored key of a person.
pub(super) async fn kept(engine: &Plane, who: &Principal) -> Key {
    let key = samples::key(&who.tenant, &who.key.to_string());
    let (scopes, person) = (who.scopes.clone(), who.person.clone());
    let key = Key { id: who.key, scopes, person, expires_at: None, ..key };
    engine.store.add_key(key.clone(), told(engine, &key, "created").await).await.expect("a key");
    key
}

async fn revoke(engine: &Plane, key: &Key) {
    let entry = told(engine, key, "revoked").await;
    let at = engine.clock().now();
    let revocation = Revocation { key: key.id, tenant: None, at, keeps_admin_of: None };
    let revoked = engine.store.revoke_key(revocation, entry).await;
    assert_eq!(revoked.expect("works here"), Revoked::Done);
}

async fn told(engine: &Plane, key: &Key, event: &str) -> ringfence_types::Sealed {
    let change = KeyChange {
        event: event.to_owned(),
        key: key.id,
        label: key.label.clone(),
        scopes: key.scopes.clone(),
        persona: None,
        person: None,
        expires_at: None,
        by: None,
        fingerprint: Some(KeyChange::fingerprint_of(key.secret)),
    };
    let entry = Entry::key(key.tenant.clone(), engine.clock().now(), &change);
    engine.ledger.signing_guard().await.seal(entry).expect("it is small")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approved_call_of_a_revoked_key_does_not_run() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path(), &Replaced::new(ASK)).await;
    let (who, boss) = (principal("acme"), approver("acme", 1));
    let key = kept(&engine, &who).await;
    let first = stand(&engine, &who, echo("before")).await.asked.id;
    let second = stand(&engine, &who, echo("after")).await.asked.id;
    resolve(&engine, &boss, first, approve()).await.expect("the control");
    let call = after(&engine, &who, first, &[FactKind::Finished]).await;
    assert_eq!(result(&call), json!({"message": "before"}));
    revoke(&engine, &key).await;
    let ended = resolve(&engine, &boss, second, approve()).await.expect("an answer");
    let Resolved::Ended(call) = ended else { panic!("{ended:?}") };
    let State::Denied { reasons } = &call.state else { panic!("{:?}", call.state) };
    assert_eq!(reasons[0].rule, "key_revoked");
    assert!(engine.receipt(&who, second).await.expect("works here").is_some());
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_calls_of_a_revoked_key_end_by_themselves() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path(), &Replaced::new(ASK)).await;
    let (who, other) = (principal("acme"), approver("acme", 9));
    let key = kept(&engine, &who).await;
    let id = stand(&engine, &who, echo("hi")).await.asked.id;
    let control = stand(&engine, &other, echo("hi")).await.asked.id;
    revoke(&engine, &key).await;
    engine.key_revoked(who.key, other.key);
    after(&engine, &who, id, &[FactKind::Denied]).await;
    let waits = engine.get(&other, control).await.expect("works here").expect("it is there");
    assert_eq!(waits.state.name(), "held", "of another key");
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_vote_of_a_revoked_key_does_not_count() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path(), &Replaced::new(ASK)).await;
    let who = principal("acme");
    let lost = kept(&engine, &approver("acme", 1)).await;
    let id = stand(&engine, &who, echo("two of you")).await.asked.id;
    resolve(&engine, &approver("acme", 1), id, approve()).await.expect("a vote");
    revoke(&engine, &lost).await;
    let second = resolve(&engine, &approver("acme", 2), id, approve()).await.expect("a vote");
    let Resolved::Waits(call) = second else { panic!("{second:?}") };
    let hold = call.hold().expect("it is held");
    assert_eq!(hold.votes.len(), 1, "{hold:?}");
    assert!(hold.changed.iter().any(|change| change.contains("revoked")), "{hold:?}");
    let third = resolve(&engine, &approver("acme", 3), id, approve()).await.expect("a vote");
    assert!(matches!(third, Resolved::Runs(_)), "{third:?}");
    after(&engine, &who, id, &[FactKind::Finished]).await;
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_calls_run_by_what_a_revoked_key_approved() {
    let dir = tempfile::tempdir().expect("works here");
    let engine = engine(dir.path(), &Replaced::new(ASK)).await;
    let (who, boss) = (principal("acme"), approver("acme", 1));
    let key = kept(&engine, &boss).await;
    let session = Some("s-1".parse().expect("a session"));
    let request = CallRequest { session, ..echo("hi") };
    let id = stand(&engine, &who, request.clone()).await.asked.id;
    resolve(&engine, &boss, id, within(ApprovalScope::Session, 5)).await.expect("approved");
    after(&engine, &who, id, &[FactKind::Finished]).await;
    let state = async || stand(&engine, &who, request.clone()).await.state.name();
    assert_eq!(state().await, "finished", "the control");
    revoke(&engine, &key).await;
    assert_eq!(state().await, "held");
    engine.stop(Duration::from_secs(5)).await;
}
