//! The ledger.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use ringfence_types::{About, Digest, EntryKind, Sealed, TenantId, Timestamp};
use serde_json::json;
use uuid::Uuid;

use super::{
    calls::put,
    samples::{AT, accepted, ending, finished, in_state, record, sealed, tenant},
};
use crate::{Commitment, EntryQuery, Error, Notary, Placed, Store, Version};

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

/// Counts instead of signing, and replaces every checkpoint of its own but the first.
#[derive(Debug)]
struct Counting {
    /// Entries, those of a commit that has not ended, and where the first tile goes.
    state: Mutex<(u64, u64)>,
    first: u64,
    tile: u64,
}

impl Counting {
    fn over(size: u64) -> Self {
        let tile = Uuid::now_v7().as_u128() as u64 >> 16;
        Self { state: Mutex::new((size, 0)), first: size, tile }
    }

    fn hashes(leaves: &[Digest]) -> Vec<u8> {
        leaves.iter().flat_map(|leaf| leaf.as_bytes()).copied().collect()
    }
}

impl Notary for Counting {
    fn size(&self) -> u64 {
        self.state.lock().expect("no panic").0
    }

    fn commit(&self, leaves: &[Digest]) -> Commitment {
        let mut state = self.state.lock().expect("no panic");
        let (before, size) = (state.0, state.0 + leaves.len() as u64);
        state.1 = size;
        let tiles = vec![(2, self.tile + before - self.first, Self::hashes(leaves))];
        let replaces = (before > self.first + 1).then_some(before);
        Commitment { size, note: format!("over {size}"), tiles, replaces }
    }

    fn ended(&self, is_kept: bool) {
        let mut state = self.state.lock().expect("no panic");
        if is_kept {
            state.0 = state.0.max(state.1);
        }
    }
}

/// What a notary signs for the entries of a commit is there when they are, with its tiles; and one
/// that it replaces is gone. Nothing is signed for what was refused.
pub async fn a_checkpoint_and_its_tiles_share_the_commit(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let before = *store.grown().borrow();
    let notary = Arc::new(Counting::over(before));
    store.appoint(notary.clone());
    let listed = async || store.checkpoints(before, 9).await.expect("checkpoints");
    let mut kept: Vec<(u64, String)> = Vec::new();
    for added in 1..=3 {
        let entry = entry(&tenant, EntryKind::Key, added);
        let leaf = entry.leaf;
        let index = store.append(vec![entry]).await.expect("an entry");
        kept.retain(|(size, _)| *size != index || index == before + 1);
        kept.push((index + 1, format!("over {}", index + 1)));
        assert_eq!(listed().await, kept);
        assert_eq!(store.checkpoint().await.expect("one"), kept.last().cloned());
        let tile = store.tile(2, notary.tile + index - before).await.expect("a tile");
        assert_eq!(tile, Some(Counting::hashes(&[leaf])));
    }
    let stray = ending(&in_state(&accepted(&tenant), finished())).expect("it has ended");
    store.append(vec![stray]).await.expect_err("it is about no call of ours");
    assert_eq!(listed().await, kept);
    assert_eq!(store.tile(1, notary.tile).await.expect("an answer"), None);
}

/// A ledger that is not as the notary left it takes nothing more.
pub async fn a_ledger_that_somebody_else_changed_takes_nothing(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let size = *store.grown().borrow();
    for other in [size + 1, size.saturating_sub(1)].into_iter().filter(|other| *other != size) {
        store.appoint(Arc::new(Counting::over(other)));
        let refused = store.append(vec![entry(&tenant, EntryKind::Key, 1)]).await;
        assert!(matches!(refused, Err(Error::Backend { .. })), "{refused:?}");
        assert_eq!(*store.grown().borrow(), size);
    }
    store.appoint(Arc::new(Counting::over(size)));
    store.append(vec![entry(&tenant, EntryKind::Key, 1)]).await.expect("the control");
}

/// An entry without a signature is taken only where every commit has a checkpoint, and gets one later,
/// in order.
pub async fn a_signature_may_come_later(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let bare = || Sealed { signature: None, ..entry(&tenant, EntryKind::Key, 1) };
    let first = *store.grown().borrow();
    store.appoint(Arc::new(Counting::over(first)));
    let signed = entry(&tenant, EntryKind::Key, 2);
    store.append(vec![bare(), signed.clone(), bare(), bare()]).await.expect("entries");
    let kept = async || {
        let query = EntryQuery { from: first, limit: 4, ..EntryQuery::default() };
        let found = found(store, query).await;
        found.into_iter().map(|placed| placed.sealed.signature).collect::<Vec<_>>()
    };
    let of = |number: u8| Some([number; 64]);
    let own = signed.signature;
    assert_eq!(kept().await, [None, own, None, None]);
    let done = store.signed().await.expect("a number");
    assert!(done <= first, "{done}");
    // Whatever came before this test.
    store.save_signatures(done, vec![[9; 64]; (first - done) as usize]).await.expect("works");
    store.save_signatures(first + 1, vec![[8; 64]]).await.expect("left alone: a gap");
    store.save_signatures(first, vec![[1; 64], [2; 64]]).await.expect("works");
    store.save_signatures(first, vec![[7; 64]; 4]).await.expect("left alone: they are there");
    assert_eq!(kept().await, [of(1), own, None, None]);
    store.save_signatures(first + 2, vec![[3; 64]]).await.expect("works");
    assert_eq!(kept().await, [of(1), own, of(3), None]);
    assert_eq!(store.signed().await.expect("a number"), first + 3);
}
