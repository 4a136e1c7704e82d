//! The order of facts.

use std::{collections::BTreeSet, sync::Arc};

use ringfence_types::{CallId, FactKind, State, TenantId};
use uuid::Uuid;

use super::{
    calls::put,
    samples::{accepted, fact, finished, in_state, record, tenant},
};
use crate::{Commit, FactQuery, Logged, Store, Version};

async fn facts(
    store: &Arc<dyn Store>,
    tenant: &TenantId,
    call: Option<CallId>,
    after: u64,
    limit: usize,
) -> Vec<Logged> {
    let query = FactQuery { tenant: Some(tenant.clone()), call, after, limit };
    store.facts(query).await.expect("facts")
}

/// Kinds of the facts of one record.
const THREE: [FactKind; 3] = [FactKind::Decided, FactKind::Dispatched, FactKind::Finished];

/// Facts of one call are in the order of its records, and within a record as they were given.
pub async fn facts_of_a_call_are_in_order(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let call = accepted(&tenant);
    put(store, &call, None).await;
    put(store, &accepted(&tenant), None).await;
    let next = in_state(&call, finished());
    let mut step = record(&next, Some(Version(1)));
    step.facts = THREE.map(|kind| fact(&next, kind)).to_vec();
    store.record(step.clone()).await.expect("a step");

    let found = facts(store, &tenant, Some(call.asked.id), 0, 99).await;
    let kinds: Vec<_> = found.iter().map(|l| (l.fact.kind, l.index)).collect();
    let [one, two, three] = THREE;
    assert_eq!(kinds, [(FactKind::Accepted, 0), (one, 0), (two, 1), (three, 2)]);
    assert!(found[0].position < found[1].position);
    assert_eq!(found[1].fact, step.facts[0]);
    let later = facts(store, &tenant, Some(call.asked.id), found[0].position, 99).await;
    assert_eq!(later, found[1..]);
    assert_eq!(facts(store, &tenant, None, 0, 99).await.len(), 5);
}

/// The facts of one commit are never split between answers.
pub async fn a_commit_is_never_split(store: &Arc<dyn Store>) {
    let tenant = tenant();
    for _ in 0..3 {
        let call = accepted(&tenant);
        let mut step = record(&call, None);
        step.facts = vec![fact(&call, FactKind::Edited); 4];
        store.record(step).await.expect("a step");
    }
    let first = facts(store, &tenant, None, 0, 5).await;
    assert_eq!(first.len(), 8, "two whole commits for a limit of five");
    let rest = facts(store, &tenant, None, first[7].position, 1).await;
    assert_eq!(rest.len(), 4);
    assert_eq!(facts(store, &tenant, None, 0, 0).await, []);
}

/// A reader who reads on from the last position it saw, while others write, sees everything once.
pub async fn who_follows_the_facts_misses_none(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let mut newest = store.newest();
    let mut position = *newest.borrow();
    let writers: Vec<_> = (0..16)
        .map(|_| {
            let (store, tenant) = (Arc::clone(store), tenant.clone());
            tokio::spawn(async move {
                for _ in 0..8 {
                    put(&store, &accepted(&tenant), None).await;
                }
            })
        })
        .collect();
    let mut seen = BTreeSet::new();
    while seen.len() < 16 * 8 {
        newest.wait_for(|newest| *newest > position).await.expect("the store lives");
        // Of every tenant, as a reader inside the server would: nothing may come late.
        let query = FactQuery { tenant: None, call: None, after: position, limit: 7 };
        for logged in store.facts(query).await.expect("facts") {
            assert!(logged.position > position, "a position that was passed before");
            position = logged.position;
            let ours = logged.tenant == tenant;
            assert!(!ours || seen.insert(logged.fact.call), "the same fact twice");
        }
    }
    for writer in writers {
        writer.await.expect("a writer does not panic");
    }
}

/// A follower of the commits, while others write, gets each once and in order, with its call; and
/// who comes later gets the same.
pub async fn who_follows_the_commits_misses_none(store: &Arc<dyn Store>) {
    let mut newest = store.newest();
    let began = *newest.borrow();
    let calls: Vec<_> = (0..64).map(|_| accepted(&tenant())).collect();
    let writers = calls.clone().into_iter().map(|call| {
        let store = Arc::clone(store);
        tokio::spawn(async move { put(&store, &call, None).await })
    });
    let writers: Vec<_> = writers.collect();
    let mut followed = Vec::new();
    while followed.len() < calls.len() {
        let position = followed.last().map_or(began, |commit: &Arc<Commit>| commit.position);
        newest.wait_for(|newest| *newest > position).await.expect("the store lives");
        followed.extend(store.commits(position, 7).await.expect("commits"));
    }
    for writer in writers {
        writer.await.expect("a writer does not panic");
    }
    assert!(followed.is_sorted_by_key(|commit| commit.position));
    for call in &calls {
        let of_it = followed.iter().filter(|commit| *commit.call == *call);
        let facts: Vec<_> = of_it.flat_map(|commit| commit.facts.clone()).collect();
        assert_eq!(facts, [fact(call, FactKind::Accepted)]);
    }
    assert_eq!(store.commits(began, calls.len()).await.expect("commits"), followed);
    assert_eq!(store.commits(*newest.borrow(), 9).await.expect("commits"), []);
}

/// The position of the newest commit changes with each one, and is that of its facts.
pub async fn the_newest_position_changes_with_each_commit(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let newest = store.newest();
    let call = accepted(&tenant);
    put(store, &call, None).await;
    let first = facts(store, &tenant, None, 0, 9).await[0].position;
    assert!(*newest.borrow() >= first, "acknowledged, so announced");
    put(store, &in_state(&call, State::Running), Some(1)).await;
    let second = facts(store, &tenant, None, first, 9).await[0].position;
    assert!(second > first && *newest.borrow() >= second);
}

/// A cursor begins at 0 and never moves back.
pub async fn a_cursor_never_moves_back(store: &Arc<dyn Store>) {
    let name = Uuid::now_v7().to_string();
    for (set, expected) in [(0, 0), (5, 5), (3, 5), (9, 9)] {
        store.set_cursor(&name, set).await.expect("a cursor");
        assert_eq!(store.cursor(&name).await.expect("a cursor"), expected);
    }
    assert_eq!(store.cursor("unknown").await.expect("a cursor"), 0);
}
