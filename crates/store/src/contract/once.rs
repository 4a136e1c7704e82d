//! Doing things once.

use std::{sync::Arc, time::Duration};

use ringfence_types::{CallId, KeyId, Timestamp};
use uuid::Uuid;

use super::{
    calls::put,
    samples::{AT, accepted, once, record, tenant},
};
use crate::{CallQuery, Error, IDEMPOTENCY_SECS, KeyUse, Store};

async fn owner(store: &Arc<dyn Store>, key: KeyId, name: &str, now: i64) -> Option<CallId> {
    let found = store.idempotent(key, name, Timestamp::from_micros(now)).await;
    found.expect("an answer").map(|used| match used {
        KeyUse::Call(stored) => stored.call.asked.id,
        KeyUse::Erased(id) => panic!("the records of {id} are not erased"),
    })
}

/// A second call with the same key and idempotency key is refused and names the first.
pub async fn an_idempotency_key_makes_one_call(store: &Arc<dyn Store>) {
    let (tenant, key) = (tenant(), KeyId(Uuid::now_v7()));
    let first = once(accepted(&tenant), key, "pay");
    put(store, &first, None).await;
    let second = once(accepted(&tenant), key, "pay");
    let answer = store.record(record(&second, None)).await;
    let id = first.asked.id;
    assert!(matches!(answer, Err(Error::Repeated(of)) if of == id), "got {answer:?}");
    assert_eq!(store.call(&tenant, second.asked.id).await.expect("an answer"), None);
    assert_eq!(owner(store, key, "pay", AT).await, Some(id));

    let other_key = KeyId(Uuid::now_v7());
    assert_eq!(owner(store, other_key, "pay", AT).await, None);
    put(store, &once(accepted(&tenant), other_key, "pay"), None).await;
    put(store, &once(accepted(&tenant), key, "pay more"), None).await;
}

/// A key is free again when its day is over, to the microsecond.
pub async fn a_day_later_the_key_is_free(store: &Arc<dyn Store>) {
    let (tenant, key) = (tenant(), KeyId(Uuid::now_v7()));
    let first = once(accepted(&tenant), key, "daily");
    put(store, &first, None).await;
    let later = AT + IDEMPOTENCY_SECS as i64 * 1_000_000;
    assert_eq!(owner(store, key, "daily", later - 1).await, Some(first.asked.id));
    assert_eq!(owner(store, key, "daily", later).await, None);

    let mut second = once(accepted(&tenant), key, "daily");
    second.asked.accepted_at = first.asked.accepted_at.after(Duration::from_secs(IDEMPOTENCY_SECS));
    put(store, &second, None).await;
    assert_eq!(owner(store, key, "daily", later).await, Some(second.asked.id));
}

/// A key that the server derived names its call for as long as there is that call.
pub async fn a_derived_key_does_not_expire(store: &Arc<dyn Store>) {
    let (tenant, key) = (tenant(), KeyId(Uuid::now_v7()));
    let name = "\u{1}[\"step\",\"plan\",\"pay\",1]";
    let first = once(accepted(&tenant), key, name);
    put(store, &first, None).await;
    let year = Duration::from_secs(365 * IDEMPOTENCY_SECS);
    let later = first.asked.accepted_at.after(year);
    // Keys of clients that are forgotten meanwhile take none of these with them.
    for number in 0..8 {
        let mut other = once(accepted(&tenant), key, &format!("of a client {number}"));
        other.asked.accepted_at = later;
        put(store, &other, None).await;
    }
    assert_eq!(owner(store, key, name, later.as_micros()).await, Some(first.asked.id));
    let mut second = once(accepted(&tenant), key, name);
    second.asked.accepted_at = later;
    let answer = store.record(record(&second, None)).await;
    let id = first.asked.id;
    assert!(matches!(answer, Err(Error::Repeated(of)) if of == id), "got {answer:?}");
}

/// One of many equal requests at once becomes a call, and all others learn which.
pub async fn of_equal_requests_one_wins(store: &Arc<dyn Store>) {
    let (tenant, key) = (tenant(), KeyId(Uuid::now_v7()));
    let requests: Vec<_> = (0..32)
        .map(|_| {
            let (store, call) = (Arc::clone(store), once(accepted(&tenant), key, "together"));
            tokio::spawn(async move { (call.asked.id, store.record(record(&call, None)).await) })
        })
        .collect();
    let (mut made, mut named) = (Vec::new(), Vec::new());
    for request in requests {
        match request.await.expect("a request does not panic") {
            (id, Ok(_)) => made.push(id),
            (_, Err(Error::Repeated(id))) => named.push(id),
            (_, Err(other)) => panic!("expected success or repeated, got {other:?}"),
        }
    }
    assert_eq!((made.len(), named.len()), (1, 31));
    assert!(named.iter().all(|id| *id == made[0]), "all name the one that was made");
    let query = CallQuery {
        tenant,
        state: None,
        tool: None,
        session: None,
        parent: None,
        before: None,
        limit: 99,
    };
    assert_eq!(store.calls(query).await.expect("calls").calls.len(), 1);
}
