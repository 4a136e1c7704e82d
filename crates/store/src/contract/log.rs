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
use crate::{CheckpointSigner, Commitment, EntryQuery, Error, Placed, Signed, Store, Version};

/// Something about the whole tenant.
pub(super) fn entry(tenant: &TenantId, kind: EntryKind, micros: i64) -> Sealed {
    let at = Timestamp::from_micros(AT + micros);
    sealed(kind, About::tenant(tenant.clone(), at), &json!({ "at": micros }))
}

async fn found(store: &Arc<dyn Store>, query: EntryQuery) -> Vec<Placed> {
    store.entries(EntryQuery { limit: query.limit.max(1), ..query }).await.expect("entries")
}

fn of(tenant: &TenantId) -> EntryQuery {
    EntryQuery { tenant: Some(tenant.clone()), limit: 99, ..EntryQuery::default() }
}

/// Entries of the tenant itself, without the server's.
fn own(tenant: &TenantId, placed: Vec<Placed>) -> Vec<Sealed> {
    let is_own = |placed: &Placed| placed.sealed.about.tenant.as_ref() == Some(tenant);
    placed.into_iter().filter(is_own).map(|placed| placed.sealed).collect()
}

/// While several append at the same time, indexes have no gap, nothing stands twice, leaves stand where
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

/// A tenant finds its own entries and the server's, and no others.
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
        assert_eq!(seen[0].sealed, server, "the server's belong to all tenants");
    }
}

/// Counts instead of signing, and replaces every checkpoint of its own but the first.
#[derive(Debug)]
pub(super) struct Counting {
    /// Entries that it has seen, and its newest checkpoint.
    state: Mutex<(u64, Option<Signed>)>,
    /// The leaves of its newest commit: those that it had missed, and the new ones.
    pub(super) given: Mutex<(Vec<Digest>, Vec<Digest>)>,
    first: u64,
    tile: u64,
    refuses: bool,
}

impl Counting {
    pub(super) fn over(size: u64) -> Self {
        let tile = Uuid::now_v7().as_u128() as u64 >> 16;
        let (state, given) = (Mutex::new((size, None)), Mutex::default());
        Self { state, given, first: size, tile, refuses: false }
    }

    fn hashes(leaves: &[Digest]) -> Vec<u8> {
        leaves.iter().flat_map(|leaf| leaf.as_bytes()).copied().collect()
    }
}

/// Has the next checkpoints of a store signed by one that has seen all entries.
pub(super) async fn sign(store: &Arc<dyn Store>) -> Arc<Counting> {
    let newest = store.checkpoint().await.expect("an answer");
    let signer = Arc::new(Counting::over(newest.map_or(0, |newest| newest.size)));
    store.set_checkpoint_signer(signer.clone());
    signer
}

impl CheckpointSigner for Counting {
    fn seen(&self, at: Option<&Signed>) -> u64 {
        let mut state = self.state.lock().expect("no panic");
        if let Some(at) = at.filter(|at| state.1.as_ref() == Some(at)) {
            state.0 = at.size;
        }
        state.0
    }

    fn commit(
        &self,
        at: Option<&Signed>,
        missing: &[Digest],
        leaves: &[Digest],
    ) -> Result<Commitment, Error> {
        if self.refuses {
            return Err(Error::Busy);
        }
        let (seen, before) = (self.seen(at), at.map_or(0, |at| at.size));
        assert_eq!(seen + missing.len() as u64, before, "what it has not seen is handed over");
        *self.given.lock().expect("no panic") = (missing.to_vec(), leaves.to_vec());
        let size = before + leaves.len() as u64;
        let note = format!("over {size} by {}", self.tile);
        self.state.lock().expect("no panic").1 = Some(Signed { size, note: note.clone() });
        let tiles = vec![(2, self.tile + before - self.first, Self::hashes(leaves))];
        let replaces = (before > self.first + 1).then_some(before);
        Ok(Commitment { size, note, tiles, replaces })
    }
}

/// The checkpoint for the entries of a commit is there when they are, with its tiles; and one that it
/// replaces is gone. Nothing is signed for what was refused.
pub async fn a_checkpoint_and_its_tiles_share_the_commit(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let signer = sign(store).await;
    let before = *store.grown().borrow();
    let listed = async || store.checkpoints(before, 9).await.expect("checkpoints");
    let mut kept: Vec<Signed> = Vec::new();
    for added in 1..=3 {
        let entry = entry(&tenant, EntryKind::Key, added);
        let leaf = entry.leaf;
        let index = store.append(vec![entry]).await.expect("an entry");
        kept.retain(|signed| signed.size != index || index == before + 1);
        let (size, note) = (index + 1, format!("over {} by {}", index + 1, signer.tile));
        kept.push(Signed { size, note });
        assert_eq!(listed().await, kept);
        assert_eq!(store.checkpoint().await.expect("one"), kept.last().cloned());
        assert_eq!(*signer.given.lock().expect("no panic"), (Vec::new(), vec![leaf]));
        let tile = store.tile(2, signer.tile + index - before).await.expect("a tile");
        assert_eq!(tile, Some(Counting::hashes(&[leaf])));
    }
    let stray = ending(&in_state(&accepted(&tenant), finished())).expect("it has ended");
    store.append(vec![stray]).await.expect_err("it is about no call of ours");
    assert_eq!(listed().await, kept);
    assert_eq!(store.tile(1, signer.tile).await.expect("an answer"), None);
}

/// A ledger that is shorter than it was seen takes nothing more, nor one whose checkpoint is not signed.
pub async fn a_ledger_that_is_not_as_its_checkpoint_says_takes_nothing(store: &Arc<dyn Store>) {
    let tenant = tenant();
    sign(store).await;
    store.append(vec![entry(&tenant, EntryKind::Key, 1)]).await.expect("an entry");
    let size = *store.grown().borrow();
    let refusing = Counting { refuses: true, ..Counting::over(size) };
    for other in [Counting::over(size + 1), refusing] {
        store.set_checkpoint_signer(Arc::new(other));
        let refused = store.append(vec![entry(&tenant, EntryKind::Key, 1)]).await;
        assert!(matches!(refused, Err(Error::Backend { .. })), "{refused:?}");
        let call = in_state(&accepted(&tenant), finished());
        store.record(record(&call, None)).await.expect_err("nor is a call recorded");
        assert_eq!(*store.grown().borrow(), size);
    }
    sign(store).await;
    store.append(vec![entry(&tenant, EntryKind::Key, 1)]).await.expect("the control");
}

/// An entry without a signature is taken where every commit has a checkpoint, and reads back as it was.
pub async fn an_entry_without_a_signature_reads_back_without_one(store: &Arc<dyn Store>) {
    let tenant = tenant();
    sign(store).await;
    let bare = || Sealed { signature: None, ..entry(&tenant, EntryKind::Key, 1) };
    let first = *store.grown().borrow();
    let entries = vec![bare(), entry(&tenant, EntryKind::Key, 2), bare()];
    store.append(entries.clone()).await.expect("entries");
    let query = EntryQuery { from: first, limit: 3, ..EntryQuery::default() };
    let found = found(store, query).await.into_iter().map(|placed| placed.sealed);
    assert_eq!(found.collect::<Vec<_>>(), entries);
}
