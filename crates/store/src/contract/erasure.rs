//! Erasure of records.

use std::{sync::Arc, time::Duration};

use ringfence_types::{
    About, Call, CallId, Cause, Digest, EntryKind, Json, KeyId, Sealed, TenantId, Timestamp,
};
use serde_json::json;
use uuid::Uuid;

use super::{
    calls::put,
    samples::{AT, accepted, finished, in_state, new_decision, once, record, sealed, tenant},
};
use crate::{
    BlobOwner, CallQuery, EntryQuery, ErasedEvents, ErasureScope, Error, FactQuery, KeyUse,
    NewMemo, PAGE, SessionEvent, SessionQuery, Store, Version,
};

/// An entry that says that the records of a call were erased; gives its index.
async fn say(store: &Arc<dyn Store>, call: &Call) -> u64 {
    let about = About::call(&call.asked, call.changed_at);
    let said = json!({"said": {"event": "requested"}});
    store.append(vec![sealed(EntryKind::Erasure, about, &said)]).await.expect("an entry")
}

async fn entries(store: &Arc<dyn Store>, call: &Call) -> Vec<Sealed> {
    let (tenant, id) = (Some(call.asked.tenant.clone()), Some(call.asked.id));
    let query = EntryQuery { tenant, call: id, limit: PAGE, ..EntryQuery::default() };
    let found = store.entries(query).await.expect("entries");
    found.into_iter().map(|placed| placed.sealed).collect()
}

/// Records a call up to its end.
async fn ended(store: &Arc<dyn Store>, call: &Call) {
    put(store, call, None).await;
    put(store, &in_state(call, finished()), Some(1)).await;
}

/// Records of a call cannot be found by any way after they were erased; every entry about it reads
/// back as before, and so does its receipt.
pub async fn erased_records_go_and_entries_stay(store: &Arc<dyn Store>) {
    let (tenant, key) = (tenant(), KeyId(Uuid::now_v7()));
    let mut call = once(accepted(&tenant), key, "once");
    call.asked.session = Some("s".parse().expect("a session"));
    let (id, blob) = (call.asked.id, Uuid::now_v7().as_bytes().repeat(2_000));
    let memo = NewMemo { key: Digest::of(id.0.as_bytes()), most: 9 };
    put(store, &call, None).await;
    let mut last = record(&in_state(&call, finished()), Some(Version(1)));
    last.blobs = vec![blob.clone()];
    last.decisions = vec![new_decision(&call, AT), new_decision(&call, AT + 1)];
    last.memo = Some(memo);
    store.record(last).await.expect("the last step");
    let since = Timestamp::from_micros(0);
    assert!(store.remembered(&tenant, memo.key, since).await.expect("a memo").is_some());
    let entry = say(store, &call).await;
    let (before, receipt) = (entries(store, &call).await, store.receipt(&tenant, id).await);
    assert_eq!(store.erasure(&tenant, id).await.expect("an answer"), None);

    let erased = store.erase_calls(vec![(id, entry)]).await.expect("an erasure");
    assert_eq!((erased.calls, erased.blobs.blobs), (1, 1));
    assert_eq!(store.call(&tenant, id).await.expect("an answer"), None);
    let all = CallQuery {
        tenant: tenant.clone(),
        state: None,
        tool: None,
        session: None,
        parent: None,
        before: None,
        limit: 9,
    };
    let of_session = CallQuery { session: call.asked.session.clone(), ..all.clone() };
    for query in [all, of_session] {
        assert_eq!(store.calls(query).await.expect("a page").calls, []);
    }
    let facts = FactQuery { tenant: Some(tenant.clone()), call: None, after: 0, limit: 9 };
    assert_eq!(store.facts(facts.clone()).await.expect("facts"), []);
    let of_call = FactQuery { call: Some(id), ..facts };
    assert_eq!(store.facts(of_call).await.expect("facts"), []);
    assert_eq!(store.decisions_of(None, id).await.expect("decisions"), []);
    assert_eq!(store.remembered(&tenant, memo.key, since).await.expect("an answer"), None);
    assert_eq!(store.blobs_of(BlobOwner::Call(id)).await.expect("blobs"), []);
    store.collect_blobs(Duration::ZERO, PAGE).await.expect("a collection");
    assert_eq!(store.blob(Digest::of(&blob), 0, 9).await.expect("an answer"), None);

    assert_eq!(entries(store, &call).await, before);
    assert_eq!(store.receipt(&tenant, id).await.expect("a receipt"), receipt.expect("a receipt"));
    assert_eq!(store.erasure(&tenant, id).await.expect("an answer"), Some(entry));
    let other = super::samples::tenant();
    assert_eq!(store.erasure(&other, id).await.expect("an answer"), None);
    // What is done once stays done once.
    let again = once(accepted(&tenant), key, "once");
    let used = store.idempotent(key, "once", again.asked.accepted_at).await.expect("an answer");
    assert_eq!(used, Some(KeyUse::Erased(id)));
    let answer = store.record(record(&again, None)).await;
    assert!(matches!(answer, Err(Error::Repeated(earlier)) if earlier == id), "{answer:?}");
    let again = store.erase_calls(vec![(id, entry)]).await.expect("an erasure");
    assert_eq!(again.calls, 0);
}

/// A call that has not ended is left alone, and counted.
pub async fn a_call_under_way_is_not_erased(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let call = accepted(&tenant);
    put(store, &call, None).await;
    let entry = say(store, &call).await;
    let erased = store.erase_calls(vec![(call.asked.id, entry)]).await.expect("an erasure");
    assert_eq!(erased.calls, 0);
    assert!(store.call(&tenant, call.asked.id).await.expect("an answer").is_some());
    let scope = ErasureScope::Call(call.asked.id);
    let found = store.erasable_calls(&tenant, &scope, 9).await.expect("calls");
    assert_eq!((found.ended, found.under_way), (Vec::new(), 1));
}

/// A scope covers a call with those that it made, or a session, of one tenant.
pub async fn a_call_is_erased_with_the_calls_that_it_made(store: &Arc<dyn Store>) {
    let (mine, theirs) = (tenant(), tenant());
    let made = |parent: CallId| {
        let mut call = accepted(&mine);
        let cause = Cause { parent: Some(parent), depth: 1, ..Cause::default() };
        call.asked.cause = Some(Box::new(cause));
        call
    };
    let first = accepted(&mine);
    let second = made(first.asked.id);
    let third = made(second.asked.id);
    let mut alone = accepted(&mine);
    alone.asked.session = Some("s".parse().expect("a session"));
    let mut foreign = accepted(&theirs);
    foreign.asked.session = alone.asked.session.clone();
    for call in [&first, &second, &third, &alone, &foreign] {
        ended(store, call).await;
    }
    let found = async |tenant: &TenantId, scope, limit| {
        store.erasable_calls(tenant, &scope, limit).await.expect("calls").ended
    };
    let ids = [&first, &second, &third].map(|call| call.asked.id);
    let of_call = || ErasureScope::Call(first.asked.id);
    assert_eq!(found(&mine, of_call(), 9).await, ids);
    assert_eq!(found(&mine, of_call(), 2).await, ids[..2]);
    assert_eq!(found(&theirs, of_call(), 9).await, []);
    let session = ErasureScope::Session("s".parse().expect("a session"));
    assert_eq!(found(&mine, session, 9).await, [alone.asked.id]);
}

/// Calls that ended before a moment are found by the entries of their ends, each until it is erased.
pub async fn expired_calls_are_found_by_their_ends(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let from = *store.grown().borrow();
    let (older, newer) = (accepted(&tenant), accepted(&tenant));
    ended(store, &older).await;
    let mut last = in_state(&newer, finished());
    last.changed_at = Timestamp::from_micros(AT).after(Duration::from_secs(60));
    put(store, &newer, None).await;
    put(store, &last, Some(1)).await;
    let before = Timestamp::from_micros(AT).after(Duration::from_secs(30));
    let found = async |from, limit| store.expired_calls(before, from, limit).await.expect("calls");
    let both = found(from, 2).await;
    assert_eq!(both.calls, [older.asked.id]);
    assert_eq!((both.next, both.first_kept, both.is_end), (from + 2, from + 1, false));
    let first = found(from, 1).await;
    assert_eq!((first.next, first.first_kept, first.is_end), (from + 1, from + 1, false));
    let second = found(from + 1, 1).await;
    assert_eq!((second.calls, second.is_end), (Vec::new(), true));
    let entry = say(store, &older).await;
    store.erase_calls(vec![(older.asked.id, entry)]).await.expect("an erasure");
    assert_eq!(found(from, 2).await.calls, []);
    let none = found(u64::MAX >> 1, 9).await;
    assert!(none.is_end && none.calls.is_empty());
}

fn event(tenant: &TenantId, session: &str, at: i64) -> SessionEvent {
    SessionEvent {
        tenant: tenant.clone(),
        session: session.parse().expect("a session"),
        at: Timestamp::from_micros(at),
        kind: "canvas".to_owned(),
        payload: Json::parse(b"{\"n\":1}").expect("valid JSON"),
    }
}

/// Events of a session go, and those from before a moment; no position is given to two events.
pub async fn erased_events_free_no_position(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let put = async |session, at| {
        store.append_session_event(event(&tenant, session, at)).await.expect("a position")
    };
    let left = async |session: &str| {
        let session = session.parse().expect("a session");
        let query = SessionQuery {
            tenant: tenant.clone(),
            session,
            kind: None,
            after: 0,
            last: false,
            limit: 99,
        };
        let found = store.session_events(query).await.expect("events");
        found.into_iter().map(|(position, _)| position).collect::<Vec<_>>()
    };
    let kept = put("kept", AT).await;
    let mut last = 0;
    for _ in 0..3 {
        last = put("gone", AT).await;
    }
    let gone = || ErasedEvents::Session(tenant.clone(), "gone".parse().expect("a session"));
    store.erase_events(gone(), 99).await.expect("an erasure");
    assert!(left("gone").await.is_empty());
    assert_eq!(left("kept").await, [kept]);
    // What stands for the newest event of all is in no list.
    let listed = store.sessions(&tenant, 99).await.expect("a list");
    assert_eq!(listed.iter().map(|one| one.session.as_str()).collect::<Vec<_>>(), ["kept"]);
    let next = put("gone", AT).await;
    assert!(next > last, "{next} after {last}");

    // Long ago, so that events of others are newer.
    let old = put("old", 5).await;
    let newest = put("old", AT).await;
    let before = Timestamp::from_micros(9);
    assert!(store.count_expired(before).await.expect("counts").0 >= 1);
    assert_eq!(left("old").await, [old, newest]);
    while store.erase_events(ErasedEvents::Before(before), 2).await.expect("an erasure") > 0 {}
    assert_eq!(left("old").await, [newest]);
}

/// Decisions about actions other than calls go when they are older; those about calls go with their calls.
pub async fn decisions_about_other_actions_expire(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let call = accepted(&tenant);
    let add = async |at| {
        let decision = new_decision(&call, at);
        store.add_decision(&tenant, "exec", call.asked.id, decision).await.expect("a decision")
    };
    // Long ago, so that decisions of others are newer.
    let (old, new) = (add(5).await, add(AT).await);
    let mut step = record(&call, None);
    step.decisions = vec![new_decision(&call, 5)];
    store.record(step).await.expect("a step");
    let before = Timestamp::from_micros(9);
    assert!(store.count_expired(before).await.expect("counts").1 >= 1);
    while store.erase_decisions(before, 1).await.expect("an erasure") > 0 {}
    let is_kept = async |id| store.decision(None, id).await.expect("an answer").is_some();
    assert!(!is_kept(old).await && is_kept(new).await);
    assert_eq!(store.decisions_of(Some(&tenant), call.asked.id).await.expect("decisions").len(), 2);
    assert_eq!(store.count_expired(before).await.expect("counts").1, 0);
}
