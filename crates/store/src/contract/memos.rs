//! Remembering results.

use std::sync::Arc;

use ringfence_types::{CallId, Digest, TenantId, Timestamp};

use super::samples::{AT, accepted, finished, in_state, record, tenant};
use crate::{EntryQuery, Error, NewMemo, Record, Remembered, Store, Version};

/// Puts a call that finished on record, remembered under this key.
async fn remember(store: &Arc<dyn Store>, tenant: &TenantId, key: Digest, most: u32) -> CallId {
    let call = in_state(&accepted(tenant), finished());
    let memo = Some(NewMemo { key, most });
    store.record(Record { memo, ..record(&call, None) }).await.expect("a step");
    call.asked.id
}

async fn find(store: &Arc<dyn Store>, tenant: &TenantId, key: Digest) -> Option<Remembered> {
    store.remembered(tenant, key, Timestamp::from_micros(AT)).await.expect("an answer")
}

async fn finds(store: &Arc<dyn Store>, tenant: &TenantId, key: Digest) -> Option<CallId> {
    find(store, tenant, key).await.map(|found| found.call.asked.id)
}

fn key(number: u32) -> Digest {
    Digest::of(&number.to_be_bytes())
}

/// A memo is the call as it ended, and its entry. A newer one takes its place.
pub async fn a_remembered_call_reads_back_with_its_entry(store: &Arc<dyn Store>) {
    let tenant = tenant();
    assert_eq!(finds(store, &tenant, key(1)).await, None);
    let first = remember(store, &tenant, key(1), 10).await;
    let found = find(store, &tenant, key(1)).await.expect("it is remembered");
    let stored = store.call(&tenant, first).await.expect("an answer").expect("it is there");
    assert_eq!(found.call, stored.call);
    let about = EntryQuery { call: Some(first), limit: 9, ..EntryQuery::default() };
    let entries = store.entries(about).await.expect("an answer");
    assert_eq!((found.entry, found.leaf), (entries[0].index, entries[0].sealed.leaf));

    let ended = stored.call.changed_at;
    for (since, is_found) in [(ended.as_micros() - 1, true), (ended.as_micros(), false)] {
        let since = Timestamp::from_micros(since);
        let found = store.remembered(&tenant, key(1), since).await.expect("an answer");
        assert_eq!(found.is_some(), is_found, "since {since}");
    }
    let second = remember(store, &tenant, key(1), 10).await;
    assert_eq!(finds(store, &tenant, key(1)).await, Some(second));
}

/// A refused record leaves no memo.
pub async fn a_memory_shares_the_commit_of_its_call(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let call = in_state(&accepted(&tenant), finished());
    let memo = Some(NewMemo { key: key(1), most: 10 });
    let stale = Record { memo, ..record(&call, Some(Version(7))) };
    assert!(matches!(store.record(stale).await, Err(Error::Stale)));
    assert_eq!(finds(store, &tenant, key(1)).await, None);
}

/// The oldest of a tenant give way to its newest, and those of no other tenant do.
pub async fn no_more_is_remembered_than_may_be_and_each_tenant_for_itself(store: &Arc<dyn Store>) {
    let (one, other) = (tenant(), tenant());
    let kept = remember(store, &other, key(0), 3).await;
    for number in 0..5 {
        remember(store, &one, key(number), 3).await;
    }
    for number in 0..5 {
        assert_eq!(finds(store, &one, key(number)).await.is_some(), number >= 2, "{number}");
        let expected = (number == 0).then_some(kept);
        assert_eq!(finds(store, &other, key(number)).await, expected, "{number}");
    }
}
