//! Approvals: given, spent, revoked.

use std::{sync::Arc, time::Duration};

use ringfence_types::{
    About, Approval, Call, CallId, EntryKind, KeyId, Reach, State, TenantId, Timestamp, Vote,
};
use uuid::Uuid;

use super::{
    calls::put,
    keys::revocation_of,
    samples::{AT, about_key, accepted, approval, held, in_state, key, record, sealed, tenant},
};
use crate::{
    ApprovalQuery, EntryQuery, Error, Record, Revoked, Spend, Standing, Store, Usable, Version,
};

fn query(tenant: &TenantId) -> ApprovalQuery {
    ApprovalQuery {
        tenant: tenant.clone(),
        tool: None,
        usable_by: None,
        live_at: None,
        before: None,
        not_by: None,
        limit: 9,
    }
}

fn at(secs: u64) -> Timestamp {
    Timestamp::from_micros(AT).after(Duration::from_secs(secs))
}

/// A held call, and an approval that was given with a step of it.
async fn given(store: &Arc<dyn Store>, tenant: &TenantId, uses: u32) -> (Call, Approval) {
    let call = accepted(tenant);
    put(store, &call, None).await;
    let call = in_state(&call, held());
    let approval = approval(&call, uses);
    let step = Record { approval: Some(approval.clone()), ..record(&call, Some(Version(1))) };
    store.record(step).await.expect("a step");
    (call, approval)
}

/// A step of a call that spends the approval at a moment.
fn spending(call: &Call, seen: u64, approval: &Approval, at: Timestamp) -> Record {
    let call = in_state(call, State::Dispatched);
    let spends = Some(Spend::of(approval, at));
    Record { spends, ..record(&call, Some(Version(seen))) }
}

/// An approval is found by its tenant alone, by tool, and while it lasts.
pub async fn an_approval_reads_back_whole(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let (_, approval) = given(store, &tenant, 2).await;
    let standing =
        Standing { approval, used: 0, revoked_at: None, revoked_by: None, is_withdrawn: false };
    let id = standing.approval.id;
    let found = store.approval(&tenant, id).await.expect("an approval");
    assert_eq!(found.as_ref(), Some(&standing));
    let foreign = super::samples::tenant();
    assert_eq!(store.approval(&foreign, id).await.expect("none"), None);
    assert_eq!(store.approvals(query(&foreign)).await.expect("none").approvals, []);

    let tool = standing.approval.tool.name.clone();
    let other = "other".parse().expect("a name");
    let cases = [
        (query(&tenant), 1),
        (ApprovalQuery { tool: Some(tool), ..query(&tenant) }, 1),
        (ApprovalQuery { tool: Some(other), ..query(&tenant) }, 0),
        (ApprovalQuery { live_at: Some(at(59)), ..query(&tenant) }, 1),
        (ApprovalQuery { live_at: Some(at(60)), ..query(&tenant) }, 0),
        (ApprovalQuery { before: Some(id), ..query(&tenant) }, 0),
        (ApprovalQuery { limit: 0, ..query(&tenant) }, 0),
    ];
    for (query, expected) in cases {
        let found = store.approvals(query.clone()).await.expect("approvals").approvals;
        assert_eq!(found.len(), expected, "{query:?}");
    }
}

/// A call spends an approval with its step or not at all, and the same call may do so again.
pub async fn an_approval_is_spent_in_the_commit(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let (first, approval) = given(store, &tenant, 1).await;
    let late = spending(&first, 2, &approval, at(60));
    assert!(matches!(store.record(late).await, Err(Error::Spent)));
    let unchanged = store.call(&tenant, first.asked.id).await.expect("a call").expect("a call");
    assert_eq!((unchanged.version, unchanged.call), (Version(2), first.clone()));

    store.record(spending(&first, 2, &approval, at(1))).await.expect("the first use");
    store.record(spending(&first, 3, &approval, at(2))).await.expect("the same call again");
    let stale = spending(&first, 3, &approval, at(2));
    assert!(matches!(store.record(stale).await, Err(Error::Stale)));
    let used = store.approval(&tenant, approval.id).await.expect("one").expect("one").used;
    assert_eq!(used, 1);
    let others = ApprovalQuery { not_by: Some(first.asked.id), ..query(&tenant) };
    assert_eq!(store.approvals(others).await.expect("one").approvals[0].used, 0, "by others");

    let second = accepted(&tenant);
    put(store, &second, None).await;
    let refused = store.record(spending(&second, 1, &approval, at(3))).await;
    assert!(matches!(refused, Err(Error::Spent)), "used up by another call");
    let foreign = accepted(&super::samples::tenant());
    put(store, &foreign, None).await;
    let refused = store.record(spending(&foreign, 1, &approval, at(3))).await;
    assert!(matches!(refused, Err(Error::Spent)), "of another tenant");
}

/// However many calls race for an approval, as many win as it is for.
pub async fn of_many_who_spend_as_many_win_as_may(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let (_, approval) = given(store, &tenant, 3).await;
    let racers = (0..12).map(|_| {
        let (store, approval, call) = (Arc::clone(store), approval.clone(), accepted(&tenant));
        tokio::spawn(async move {
            put(&store, &call, None).await;
            store.record(spending(&call, 1, &approval, at(1))).await.is_ok()
        })
    });
    let racers: Vec<_> = racers.collect();
    let mut won = 0;
    for racer in racers {
        won += usize::from(racer.await.expect("a racer does not panic"));
    }
    assert_eq!(won, 3);
    let used = store.approval(&tenant, approval.id).await.expect("one").expect("one").used;
    assert_eq!(used, 3);
}

/// A revoked approval cannot be spent; a second revocation changes nothing.
pub async fn the_first_revocation_of_an_approval_stays(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let (call, approval) = given(store, &tenant, 1).await;
    let (by, other) = (KeyId(Uuid::now_v7()), KeyId(Uuid::now_v7()));
    let foreign = super::samples::tenant();
    let revoke = |tenant, by, at| {
        let about = About::call(&call.asked, at);
        let entry = sealed(EntryKind::Approval, about, &by);
        store.revoke_approval(tenant, approval.id, by, at, entry)
    };
    assert!(!revoke(&foreign, by, at(1)).await.expect("no such"));
    assert!(revoke(&tenant, by, at(2)).await.expect("revoked"));
    assert!(revoke(&tenant, other, at(3)).await.expect("revoked"));
    let found = store.approval(&tenant, approval.id).await.expect("one").expect("one");
    assert_eq!((found.revoked_at, found.revoked_by), (Some(at(2)), Some(by)));
    let refused = store.record(spending(&call, 2, &approval, at(4))).await;
    assert!(matches!(refused, Err(Error::Spent)));
    let live = ApprovalQuery { live_at: Some(at(0)), ..query(&tenant) };
    assert_eq!(store.approvals(live).await.expect("none").approvals, []);
    let about = EntryQuery { kind: Some(EntryKind::Approval), limit: 9, ..EntryQuery::default() };
    let about = EntryQuery { call: Some(call.asked.id), ..about };
    let told = store.entries(about).await.expect("entries");
    let told: Vec<_> = told.iter().map(|placed| placed.sealed.predicate().ok()).collect();
    assert_eq!(told, [Some(by)], "the first revocation is on the ledger, and only it");
}

/// Usable approvals of a tenant are found, however many others there are.
pub async fn the_approvals_that_a_call_may_use_are_found(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let (mine, theirs) = ("mine".parse().expect("a name"), "theirs".parse().expect("a name"));
    let call = accepted(&tenant);
    put(store, &call, None).await;
    let call = in_state(&call, held());
    let give = async |version: u64, reach: Reach, key: KeyId| {
        let mut approval = approval(&call, 1);
        (approval.terms.reach, approval.key) = (reach, key);
        let id = approval.id;
        let step = Record { approval: Some(approval), ..record(&call, Some(Version(version))) };
        store.record(step).await.expect("a step");
        id
    };
    let (own, other) = (call.asked.key, KeyId(Uuid::now_v7()));
    let once = give(1, Reach::Once(call.asked.id), own).await;
    let rule = give(2, Reach::Rule, own).await;
    let session = give(3, Reach::Session(mine), own).await;
    give(4, Reach::Session(theirs), own).await;
    give(5, Reach::Once(CallId(Uuid::now_v7())), own).await;
    give(6, Reach::Rule, other).await;
    let found = async |session: Option<&str>| {
        let session = session.map(|session| session.parse().expect("a name"));
        let usable_by = Some(Usable { key: own, call: call.asked.id, session });
        let query = ApprovalQuery { usable_by, ..query(&tenant) };
        let found = store.approvals(query).await.expect("approvals").approvals.into_iter();
        found.map(|standing| standing.approval.id).collect::<Vec<_>>()
    };
    assert_eq!(found(Some("mine")).await, [session, rule, once], "newest first");
    assert_eq!(found(None).await, [rule, once]);
}

/// An approval is over when a key that gave it is revoked: it is not live, and cannot be spent.
pub async fn an_approval_ends_with_the_key_that_gave_it(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let call = accepted(&tenant);
    put(store, &call, None).await;
    let call = in_state(&call, held());
    let (stays, goes) = (key(&tenant, "stays"), key(&tenant, "goes"));
    let mut approval = approval(&call, 1);
    approval.votes =
        [&stays, &goes].map(|key| Vote { by: key.id, ..approval.votes[0].clone() }).into();
    for key in [&stays, &goes] {
        store.add_key(key.clone(), about_key(key)).await.expect("a key");
    }
    let step = Record { approval: Some(approval.clone()), ..record(&call, Some(Version(1))) };
    store.record(step).await.expect("a step");
    let live = ApprovalQuery { live_at: Some(at(1)), ..query(&tenant) };
    assert_eq!(store.approvals(live.clone()).await.expect("one").approvals.len(), 1, "the control");
    let revoked = store.revoke_key(revocation_of(goes.id, at(2)), about_key(&goes)).await;
    assert_eq!(revoked.expect("an answer"), Revoked::Done);
    assert_eq!(store.approvals(live).await.expect("none").approvals, []);
    let found = store.approval(&tenant, approval.id).await.expect("one").expect("one");
    assert!(found.is_withdrawn && found.revoked_at.is_none(), "{found:?}");
    let refused = store.record(spending(&call, 2, &approval, at(3))).await;
    assert!(matches!(refused, Err(Error::Spent)), "{refused:?}");
}
