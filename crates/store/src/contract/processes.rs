//! Two processes that use one database.
//!
//! The first leaves before the second, which was started later, is asked for the calls left behind.

use std::{collections::BTreeSet, sync::Arc};

use ringfence_types::{CallId, Digest, EntryKind, TenantId};

use super::{
    calls::put,
    lists::several,
    log::{Counting, entry, sign},
    samples::{accepted, finished, held, in_state, record, tenant},
    uploads,
};
use crate::{Error, PAGE, ProcessInfo, ProcessRole, QueuedCall, Store, Version};

/// Calls of these tenants that a process may take, in the order in which it finds them.
async fn unfinished(store: &Arc<dyn Store>, of: &[&TenantId]) -> Vec<CallId> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = store.unfinished(after, 2).await.expect("calls");
        assert!(page.len() <= 2);
        let Some(last) = page.last() else { return found };
        after = Some(last.call.asked.id);
        let ours = page.into_iter().filter(|stored| of.contains(&&stored.call.asked.tenant));
        found.extend(ours.map(|stored| stored.call.asked.id));
    }
}

/// A process that describes itself is found as it says, and owns nothing for itself.
pub async fn a_process_finds_itself_as_it_describes_itself(
    store: &Arc<dyn Store>,
    later: &Arc<dyn Store>,
) {
    for (store, role) in [(store, ProcessRole::All), (later, ProcessRole::Worker)] {
        let info = ProcessInfo {
            address: Some("http://127.0.0.1:1".to_owned()),
            role,
            version: "1.2.3".to_owned(),
            policy: Some(Digest::of(b"rules")),
        };
        store.describe(info.clone()).await.expect("a description");
        let found = store.processes().await.expect("processes");
        let own: Vec<_> = found.iter().filter(|process| process.is_own).collect();
        assert_eq!(own.iter().map(|process| &process.info).collect::<Vec<_>>(), [&info]);
        let (tenant, sandbox) = (tenant(), uuid::Uuid::new_v4().to_string());
        let call = accepted(&tenant);
        put(store, &call, None).await;
        store.add_sandbox(&tenant, &sandbox).await.expect("a sandbox");
        assert_eq!(store.owner_of_call(&tenant, call.asked.id).await.expect("an owner"), None);
        assert_eq!(store.owner_of_sandbox(&tenant, &sandbox).await.expect("an owner"), None);
        store.remove_sandbox(&sandbox).await.expect("it ended");
        put(store, &in_state(&call, finished()), Some(1)).await;
    }
}

/// Calls that are not final are found across tenants, oldest first, and no others; no answer is longer
/// than a page.
pub async fn unfinished_calls_are_oldest_first(store: &Arc<dyn Store>, later: &Arc<dyn Store>) {
    let (one, other) = (tenant(), tenant());
    let mut expected = several(store, &one, 3).await;
    expected.extend(several(store, &other, 3).await);
    expected.sort_unstable();
    let done = accepted(&one);
    put(store, &done, None).await;
    put(store, &in_state(&done, finished()), Some(1)).await;
    store.leave().await.expect("the first process is gone");
    assert_eq!(unfinished(later, &[&one, &other]).await, expected);
    let many: Vec<_> = (0..PAGE + 20).map(|_| accepted(&one)).collect();
    for chunk in many.chunks(200) {
        let steps = chunk.iter().map(|call| {
            let (store, step) = (Arc::clone(store), record(call, None));
            tokio::spawn(async move { store.record(step).await })
        });
        for step in steps.collect::<Vec<_>>() {
            step.await.expect("no panic").expect("a step");
        }
    }
    store.leave().await.expect("it is gone again");
    assert_eq!(later.unfinished(None, usize::MAX).await.expect("calls").len(), PAGE);
}

/// A process finds no call that is under way in itself; a held call belongs to any process, and so does one of a
/// process that is gone, until the next step makes it the call of the process that takes it.
pub async fn a_call_belongs_to_the_process_that_it_is_under_way_in(
    store: &Arc<dyn Store>,
    later: &Arc<dyn Store>,
) {
    let tenant = tenant();
    let (running, waiting) = (accepted(&tenant), accepted(&tenant));
    for call in [&running, &waiting] {
        put(store, call, None).await;
    }
    put(store, &in_state(&waiting, held()), Some(1)).await;
    let both = BTreeSet::from([running.asked.id, waiting.asked.id]);
    assert_eq!(unfinished(store, &[&tenant]).await, [waiting.asked.id]);
    store.leave().await.expect("the first process is gone");
    let left: BTreeSet<_> = unfinished(later, &[&tenant]).await.into_iter().collect();
    assert_eq!(left, both);
    let taken = in_state(&running, ringfence_types::State::Dispatched);
    put(later, &taken, Some(1)).await;
    assert_eq!(unfinished(later, &[&tenant]).await, [waiting.asked.id]);
    put(later, &in_state(&running, finished()), Some(2)).await;
    put(later, &in_state(&waiting, finished()), Some(2)).await;
    assert_eq!(unfinished(store, &[&tenant]).await, []);
    assert_eq!(unfinished(later, &[&tenant]).await, []);
}

/// Entries of another process are handed to the signer, before it signs for anything after them.
pub async fn entries_of_another_process_are_handed_to_the_signer(
    store: &Arc<dyn Store>,
    later: &Arc<dyn Store>,
) {
    let tenant = tenant();
    sign(store).await;
    store.append(vec![entry(&tenant, EntryKind::Key, 1)]).await.expect("an entry");
    let size = *store.grown().borrow();
    let two = [2, 3].map(|at| entry(&tenant, EntryKind::Key, at));
    store.append(two.to_vec()).await.expect("entries");
    let behind = Arc::new(Counting::over(size));
    later.set_checkpoint_signer(behind.clone());
    let own = entry(&tenant, EntryKind::Key, 4);
    assert_eq!(later.append(vec![own.clone()]).await.expect("an entry"), size + 2);
    let (missing, leaves) = behind.given.lock().expect("no panic").clone();
    assert_eq!(missing, two.map(|entry| entry.leaf));
    assert_eq!(leaves, [own.leaf]);
}

/// A process finds that another one changed the uploads, and what they are.
pub async fn uploads_of_another_process_are_found(store: &Arc<dyn Store>, later: &Arc<dyn Store>) {
    let row = uploads::row(&uploads::name());
    let version = async || later.uploads_version().await.expect("an answer");
    let before = version().await;
    assert!(store.add_upload(row.clone(), b"files".to_vec()).await.expect("it is kept"));
    let added = version().await;
    assert!(added > before);
    assert_eq!(uploads::found(later, row.tool.digest).await, Some(row.clone()));
    assert!(store.remove_upload(row.tool.digest).await.expect("it is removed"));
    assert!(version().await > added);
    assert!(uploads::found(later, row.tool.digest).await.expect("its row").is_removed);
}

/// Calls of a tenant among those that a worker takes now.
async fn taken(store: &Arc<dyn Store>, tenant: &TenantId) -> Vec<CallId> {
    let taken = store.take_queued(PAGE).await.expect("calls");
    let ours = taken.into_iter().filter(|stored| stored.call.asked.tenant == *tenant);
    ours.map(|stored| stored.call.asked.id).collect()
}

fn left(tenant: &TenantId, id: CallId, seen: u64) -> QueuedCall {
    QueuedCall { tenant: tenant.clone(), id, seen: Version(seen), to: None }
}

/// A call that is left to the workers is taken by one of them, which owns it then: the process that left it
/// takes no further step. A step before that takes it back.
pub async fn a_call_that_is_left_to_the_workers_is_taken_once(
    store: &Arc<dyn Store>,
    later: &Arc<dyn Store>,
) {
    let tenant = tenant();
    let (one, back, waiting) = (accepted(&tenant), accepted(&tenant), accepted(&tenant));
    for call in [&one, &back, &waiting] {
        put(store, call, None).await;
    }
    put(store, &in_state(&waiting, held()), Some(1)).await;
    let leave = async |id, seen| store.queue_call(left(&tenant, id, seen)).await;
    let stale = leave(one.asked.id, 2).await;
    assert!(matches!(stale, Err(Error::Stale)), "{stale:?}");
    let queued = later.queued();
    leave(one.asked.id, 1).await.expect("it is left");
    leave(back.asked.id, 1).await.expect("it is left");
    leave(waiting.asked.id, 2).await.expect("a held one may be left too");
    drop(queued);
    assert_eq!(unfinished(later, &[&tenant]).await, [], "only workers take them");
    put(store, &in_state(&back, finished()), Some(1)).await;
    assert_eq!(taken(later, &tenant).await, [one.asked.id, waiting.asked.id]);
    assert_eq!(taken(later, &tenant).await, []);
    assert_eq!(taken(store, &tenant).await, []);
    for (call, seen) in [(&one, 1), (&waiting, 2)] {
        put(later, &in_state(call, finished()), Some(seen)).await;
        let gone = store.queue_call(left(&tenant, call.asked.id, seen + 1)).await;
        assert!(matches!(gone, Err(Error::Stale)), "it is at its end: {gone:?}");
    }
}

/// A call that is left to one process is not taken by another one while that one lives.
pub async fn a_call_that_is_left_to_one_worker_is_taken_by_it(
    store: &Arc<dyn Store>,
    later: &Arc<dyn Store>,
) {
    let own = later.processes().await.expect("processes").into_iter();
    let own = own.filter(|process| process.is_own).map(|process| process.id).next();
    let tenant = tenant();
    let call = accepted(&tenant);
    put(store, &call, None).await;
    let to_one = QueuedCall { to: own, ..left(&tenant, call.asked.id, 1) };
    store.queue_call(to_one).await.expect("it is left");
    assert_eq!(taken(later, &tenant).await, [call.asked.id]);
    put(later, &in_state(&call, finished()), Some(1)).await;
}
