//! Compare and set, and what is final.

use std::sync::Arc;

use ringfence_types::{Call, CallId, FactKind, Receipt, ReceiptDetails, State};

use super::samples::{accepted, finished, in_state, record, tenant};
use crate::{Error, FactQuery, Store, Stored, Version};

/// Records a step that must succeed.
pub(super) async fn put(store: &Arc<dyn Store>, call: &Call, seen: Option<u64>) -> Version {
    store.record(record(call, seen.map(Version))).await.expect("a step that is due")
}

/// A step that must be refused as stale.
async fn refused(store: &Arc<dyn Store>, call: &Call, seen: Option<u64>) {
    let answer = store.record(record(call, seen.map(Version))).await;
    assert!(matches!(answer, Err(Error::Stale)), "expected a refusal as stale, got {answer:?}");
}

/// Everything that the store knows about a call.
async fn known(
    store: &Arc<dyn Store>,
    call: &Call,
) -> (Option<Stored>, Option<Receipt>, Vec<FactKind>) {
    let (tenant, id) = (&call.asked.tenant, call.asked.id);
    let query = FactQuery { tenant: Some(tenant.clone()), call: Some(id), after: 0, limit: 99 };
    let facts = store.facts(query).await.expect("facts");
    (
        store.call(tenant, id).await.expect("a call"),
        store.receipt(tenant, id).await.expect("a receipt"),
        facts.into_iter().map(|logged| logged.fact.kind).collect(),
    )
}

/// A call, its facts and its receipt read back as they were recorded.
pub async fn a_call_reads_back_whole(store: &Arc<dyn Store>) {
    let first = accepted(&tenant());
    assert_eq!(put(store, &first, None).await, Version(1));
    let stored = Stored { call: first.clone(), version: Version(1) };
    assert_eq!(known(store, &first).await, (Some(stored), None, vec![FactKind::Accepted]));

    let last = in_state(&first, finished());
    assert_eq!(put(store, &last, Some(1)).await, Version(2));
    let stored = Stored { call: last.clone(), version: Version(2) };
    let facts = vec![FactKind::Accepted, FactKind::Finished];
    assert_eq!(
        known(store, &last).await,
        (Some(stored), Receipt::of(&last, ReceiptDetails::default()), facts)
    );
}

/// A record whose `seen` is not the current version changes nothing.
pub async fn stale_changes_nothing(store: &Arc<dyn Store>) {
    let call = accepted(&tenant());
    put(store, &call, None).await;
    let call = in_state(&call, State::Dispatched);
    put(store, &call, Some(1)).await;
    let before = known(store, &call).await;
    for seen in [Some(0), Some(1), Some(3), Some(u64::MAX), None] {
        refused(store, &in_state(&call, finished()), seen).await;
    }
    assert_eq!(known(store, &call).await, before);
    refused(store, &accepted(&tenant()), Some(1)).await;
}

/// An insert of an id that exists changes nothing, in any process.
pub async fn an_id_that_exists_is_stale(store: &Arc<dyn Store>) {
    let call = accepted(&tenant());
    put(store, &call, None).await;
    let mut other = accepted(&tenant());
    other.asked.id = call.asked.id;
    refused(store, &other, None).await;
    refused(store, &other, Some(1)).await;
    assert_eq!(known(store, &other).await, (None, None, Vec::new()));
}

/// A call in a final state never changes again.
pub async fn a_final_call_never_changes(store: &Arc<dyn Store>) {
    let call = accepted(&tenant());
    put(store, &call, None).await;
    let last = in_state(&call, State::Denied { reasons: Vec::new() });
    put(store, &last, Some(1)).await;
    let before = known(store, &last).await;
    for state in [State::Accepted, State::OutcomeUnknown, finished()] {
        refused(store, &in_state(&call, state), Some(2)).await;
    }
    assert_eq!(known(store, &last).await, before);
}

/// One of many callers who take the same step at once succeeds.
pub async fn of_many_who_race_one_wins(store: &Arc<dyn Store>) {
    let call = accepted(&tenant());
    put(store, &call, None).await;
    let racers: Vec<_> = (0..32)
        .map(|_| {
            let (store, next) = (Arc::clone(store), in_state(&call, State::Running));
            tokio::spawn(async move { store.record(record(&next, Some(Version(1)))).await })
        })
        .collect();
    let mut won = 0;
    for racer in racers {
        match racer.await.expect("a racer does not panic") {
            Ok(version) => won += version.0,
            Err(Error::Stale) => {}
            Err(other) => panic!("expected success or stale, got {other:?}"),
        }
    }
    assert_eq!(won, 2, "one of them, to version 2");
    let id: CallId = call.asked.id;
    let stored = store.call(&call.asked.tenant, id).await.expect("a call").expect("it exists");
    assert_eq!(stored.version, Version(2));
}
