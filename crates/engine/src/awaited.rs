//! Calls of other processes whose end is waited for here.
//!
//! One task follows the commits of all processes while a caller waits, however many wait.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ringfence_types::{Call, CallId};
use tokio::sync::watch;

use crate::engine::Inner;

/// Commits per read.
const COMMITS_PER_READ: usize = 500;

/// Pause after a read that failed.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Calls that are waited for.
#[derive(Debug, Default)]
pub(crate) struct AwaitedCalls {
    calls: Mutex<HashMap<CallId, watch::Sender<Option<Arc<Call>>>>>,
}

/// Wait for one call. A record of it that is read after this was made is not older than what the wait
/// misses.
#[derive(Debug)]
pub(crate) struct AwaitedCall<'a> {
    of: &'a AwaitedCalls,
    id: CallId,
    seen: watch::Receiver<Option<Arc<Call>>>,
}

impl AwaitedCalls {
    fn lock(&self) -> MutexGuard<'_, HashMap<CallId, watch::Sender<Option<Arc<Call>>>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, id: CallId) -> AwaitedCall<'_> {
        let seen = self.lock().entry(id).or_default().subscribe();
        AwaitedCall { of: self, id, seen }
    }

    fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Tells those who wait for a call that it stands still.
    fn tell(&self, call: &Arc<Call>) {
        if let Some(waiting) = self.lock().get(&call.asked.id) {
            waiting.send_replace(Some(call.clone()));
        }
    }
}

impl AwaitedCall<'_> {
    /// The call once it has ended or is held.
    pub(crate) async fn stands_still(&mut self) -> Option<Arc<Call>> {
        let seen = self.seen.wait_for(Option::is_some).await.ok()?;
        seen.clone()
    }
}

impl Drop for AwaitedCall<'_> {
    fn drop(&mut self) {
        let mut calls = self.of.lock();
        // This receiver is one of them.
        if calls.get(&self.id).is_some_and(|waiting| waiting.receiver_count() <= 1) {
            calls.remove(&self.id);
        }
    }
}

/// Whether a call only continues on request: it is held, or has ended.
pub(crate) fn stands_still(call: &Call) -> bool {
    call.state.is_final() || call.hold().is_some()
}

/// Follows the commits of all processes until the engine stops.
pub(crate) async fn run(inner: Arc<Inner>) {
    if !inner.parts.store.is_shared() {
        return;
    }
    let mut newest = inner.parts.store.newest();
    let mut after = *newest.borrow_and_update();
    loop {
        let changed = tokio::select! {
            () = inner.stopping.cancelled() => return,
            changed = newest.changed() => changed,
        };
        if changed.is_err() {
            return;
        }
        let known = *newest.borrow_and_update();
        // After the newest position was read: who waits from now on reads a record that is newer.
        if inner.awaited.is_empty() {
            after = known;
            continue;
        }
        match read(&inner, after).await {
            Ok(read) => after = read,
            Err(error) => {
                let error = ringfence_types::error_chain(&error);
                tracing::warn!(error, "calls of other processes cannot be followed");
                newest.mark_changed();
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }
}

async fn read(inner: &Inner, mut after: u64) -> Result<u64, ringfence_store::Error> {
    loop {
        let commits = inner.parts.store.commits(after, COMMITS_PER_READ).await?;
        let Some(last) = commits.last() else { return Ok(after) };
        after = last.position;
        for commit in commits.iter().filter(|commit| stands_still(&commit.call)) {
            inner.awaited.tell(&commit.call);
        }
    }
}
