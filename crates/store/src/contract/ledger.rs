//! The ledger.

use std::{collections::BTreeSet, sync::Arc};

use ringfence_types::{About, Digest, EntryKind, Sealed, TenantId, Timestamp};
use serde_json::json;
use uuid::Uuid;

use super::{
    calls::put,
    samples::{AT, accepted, ending, finished, in_state, record, sealed, tenant},
};
use crate::{Commitment, EntryQuery, Error, Placed, Store, Version};

/// Something about the whole tenant.
fn entry(tenant: &TenantId, kind: EntryKind, micros: i64) -> Sealed {
    let at = Timestamp::from_micros(AT + micros);
    sealed(kind, About::tenant(tenant.clone(), at), &json!({ "at": micros }))
}

async fn found(store: &Arc<dyn Store>, query: EntryQuery) -> Vec<Placed> {
    store.entries(EntryQuery { limit: query.limit.max(1), ..query }).await.expect("entries")
}

fn of(tenant: &TenantId) -> EntryQuery {
    EntryQuery { tenant: Some(tenant.clone()), limit: 99, ..EntryQuery::default() }
}

/// Those of the tenant itself, without the server's.
fn own(tenant: &TenantId, placed: Vec<Placed>) -> Vec<Sealed> {
    let is_own = |placed: &Placed| placed.sealed.about.tenant.as_ref() == Some(tenant);
    placed.into_iter().filter(is_own).map(|placed| placed.sealed).collect()
}

/// Whoever appends at the same time, indexes have no gap, nothing stands twice, leaves stand where
/// their entries do, and the number of entries is announced.
pub async fn entries_have_indexes_without_a_gap(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let before = *store.grown().borrow();
    let writers: Vec<_> = (0..8)
        .map(|_| {
            let (store, tenant) = (Arc::clone(store), tenant.clone());
            tokio::spawn(async move {
                for _ in 0..8 {
                    let both = [1, 2].map(|at| entry(&tenant, EntryKind::Approval, at));
                    store.append(both.to_vec()).await.expect("two entries");
                    let call = accepted(&tenant);
                    put(&store, &in_state(&call, finished()), None).await;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("a writer does not panic");
    }
    let size = *store.grown().borrow();
    assert!(size >= before + 8 * 8 * 3, "{before} and then {size}");
    let query = EntryQuery { from: before, limit: 999, ..EntryQuery::default() };
    let found = found(store, query).await;
    let indexes: Vec<_> = found.iter().map(|placed| placed.index).collect();
    assert_eq!(indexes, (before..size).collect::<Vec<_>>());
    let leaves: Vec<_> = found.iter().map(|placed| placed.sealed.leaf).collect();
    assert_eq!(store.leaves(before, 999).await.expect("leaves"), leaves);
    assert_eq!(store.leaves(before + 1, 2).await.expect("leaves"), leaves[1..3]);
    assert_eq!(leaves.iter().collect::<BTreeSet<_>>().len(), leaves.len());
}

/// The entry of a step is there when the step is, reads back as it was given, and is not there if
/// the step was refused.
pub async fn an_entry_shares_its_commit(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let call = accepted(&tenant);
    put(store, &call, None).await;
    let last = in_state(&call, finished());
    let stale = record(&last, Some(Version(7)));
    assert!(matches!(store.record(stale).await, Err(Error::Stale)));
    let about = || EntryQuery { call: Some(call.asked.id), ..of(&tenant) };
    assert_eq!(found(store, about()).await, []);

    let mut step = record(&last, Some(Version(1)));
    let decision = sealed(EntryKind::Decision, About::call(&call.asked, call.changed_at), &1);
    step.entries.insert(0, decision);
    let given = step.entries.clone();
    store.record(step).await.expect("a step");
    let kept = found(store, about()).await;
    assert_eq!(kept.iter().map(|placed| placed.sealed.clone()).collect::<Vec<_>>(), given);
    assert_eq!(kept[1].index, kept[0].index + 1);
}

/// An entry about a call that is not there is refused, with all that came with it.
pub async fn an_entry_about_no_call_of_ours_is_refused(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let call = in_state(&accepted(&tenant), finished());
    let stray = ending(&call).expect("it has ended");
    let both = vec![entry(&tenant, EntryKind::Key, 1), stray];
    let refused = store.append(both).await;
    assert!(matches!(refused, Err(Error::Stale)), "expected stale, got {refused:?}");
    assert_eq!(own(&tenant, found(store, of(&tenant)).await), []);
    let size = *store.grown().borrow();
    assert_eq!(store.append(Vec::new()).await.expect("nothing to append"), size);
}

/// Entries are found by kind, call, session, persona, tool and time, page by page.
pub async fn entries_are_found_by_what_they_concern(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let mut call = accepted(&tenant);
    call.asked.session = Some("thread".parse().expect("a session"));
    let ended = in_state(&call, finished());
    put(store, &ended, None).await;
    put(store, &in_state(&accepted(&tenant), finished()), None).await;
    let later =
        sealed(EntryKind::Approval, About::call(&call.asked, Timestamp::from_micros(AT + 9)), &2);
    let first = store.append(vec![later.clone(), entry(&tenant, EntryKind::Key, 20)]).await;
    let first = first.expect("two entries");

    let count = async |query: EntryQuery| own(&tenant, found(store, query).await).len();
    let all = of(&tenant);
    assert_eq!(count(all.clone()).await, 4);
    assert_eq!(count(EntryQuery { kind: Some(EntryKind::Call), ..all.clone() }).await, 2);
    assert_eq!(count(EntryQuery { call: Some(call.asked.id), ..all.clone() }).await, 2);
    assert_eq!(count(EntryQuery { session: call.asked.session.clone(), ..all.clone() }).await, 2);
    assert_eq!(count(EntryQuery { persona: call.asked.persona.clone(), ..all.clone() }).await, 3);
    let tool = Some(call.asked.tool.name.clone());
    assert_eq!(count(EntryQuery { tool, ..all.clone() }).await, 3);
    let at = |micros| Some(Timestamp::from_micros(AT + micros));
    assert_eq!(count(EntryQuery { since: at(20), ..all.clone() }).await, 3, "two ended later");
    assert_eq!(count(EntryQuery { until: at(20), ..all.clone() }).await, 1);
    assert_eq!(count(EntryQuery { since: at(9), until: at(10), ..all.clone() }).await, 1);
    let kind = Some(EntryKind::Approval);
    let page = found(store, EntryQuery { kind, from: first, limit: 1, ..all.clone() }).await;
    assert_eq!(page, [Placed { index: first, sealed: later }]);
    let rest = found(store, EntryQuery { kind, from: first + 1, ..all }).await;
    assert_eq!(own(&tenant, rest), []);
}

/// A tenant finds its own entries and the server's, and nobody else's.
pub async fn entries_of_others_are_never_found(store: &Arc<dyn Store>) {
    let (mine, theirs) = (tenant(), tenant());
    let mut call = accepted(&theirs);
    call.asked.session = Some("thread".parse().expect("a session"));
    put(store, &in_state(&call, finished()), None).await;
    let server = sealed(EntryKind::Tool, About::server(call.changed_at), &Uuid::now_v7());
    let from = store.append(vec![server.clone()]).await.expect("an entry");
    let queries = [
        of(&mine),
        EntryQuery { call: Some(call.asked.id), ..of(&mine) },
        EntryQuery { session: call.asked.session.clone(), ..of(&mine) },
        EntryQuery { persona: call.asked.persona.clone(), ..of(&mine) },
        EntryQuery { kind: Some(EntryKind::Call), ..of(&mine) },
    ];
    for query in queries {
        let foreign = own(&theirs, found(store, query.clone()).await);
        assert_eq!(foreign, [], "{query:?}");
    }
    for tenant in [&mine, &theirs] {
        let seen = found(store, EntryQuery { from, ..of(tenant) }).await;
        assert_eq!(seen[0].sealed, server, "the server's are everybody's");
    }
}

/// A checkpoint reads back with its tiles; the first of its size stays.
pub async fn a_checkpoint_and_its_tiles_read_back(store: &Arc<dyn Store>) {
    store.append(vec![entry(&tenant(), EntryKind::Key, 1)]).await.expect("an entry");
    let size = *store.grown().borrow();
    let tile = Digest::of(Uuid::now_v7().as_bytes()).as_bytes().repeat(256);
    let index = Uuid::now_v7().as_u128() as u64 >> 16;
    for (note, hashes) in [("first", tile.clone()), ("second", vec![1; 8_192])] {
        let tiles = vec![(2, index, hashes.clone()), (0, index, hashes)];
        let commitment = Commitment { size, note: note.to_owned(), tiles };
        store.save_checkpoint(commitment).await.expect("a checkpoint");
    }
    assert_eq!(store.checkpoint().await.expect("one"), Some((size, "first".to_owned())));
    let listed = store.checkpoints(size - 1, 9).await.expect("checkpoints");
    assert_eq!(listed, [(size, "first".to_owned())]);
    assert_eq!(store.checkpoints(size, 9).await.expect("checkpoints"), []);
    for level in [0, 2] {
        assert_eq!(store.tile(level, index).await.expect("a tile"), Some(tile.clone()));
    }
    assert_eq!(store.tile(1, index).await.expect("an answer"), None);
}
