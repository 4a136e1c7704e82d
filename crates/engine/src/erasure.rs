//! Erasure of records: on request, and of everything older than the retention.
//!
//! The entry that says so is on the ledger before any record goes, so that a reader of the ledger never finds
//! less than it says. Entries themselves stay, and every check of them holds as before.

use std::{sync::Arc, time::Duration};

use ringfence_ledger::{Entry, Erasure};
use ringfence_store::{ErasableCalls, ErasedEvents, ErasureScope, Error, PAGE, SessionQuery};
use ringfence_types::{About, CallId, KeyId, Principal, Timestamp, error_chain};

use crate::{Engine, engine::Inner};

/// Calls whose records are erased in one commit.
const CALLS_PER_COMMIT: usize = 100;

/// Entries of the ledger that are visited at once to find calls that ended long ago.
const ENTRIES_PER_ROUND: usize = 500;

/// Other rows that are erased in one commit.
const ROWS_PER_COMMIT: usize = 500;

/// Name of the cursor up to which the ledger has no call with records that are too old.
const CURSOR: &str = "retention";

/// Time between two passes of the retention.
const PASS_INTERVAL: Duration = Duration::from_secs(600);

/// Numbers of erased records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ErasedRecords {
    /// Calls.
    pub calls: u64,
    /// Session events.
    pub events: u64,
    /// Decisions about actions other than calls.
    pub decisions: u64,
    /// Blobs that no other call refers to.
    pub blobs: u64,
    /// Bytes of those blobs.
    pub blob_bytes: u64,
}

impl ErasedRecords {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Reason why records were not erased.
#[derive(Debug, thiserror::Error)]
pub enum EraseError {
    /// The tenant has no such call or session.
    #[error("there are no records of it")]
    NotFound,
    /// Some of its calls have not ended.
    #[error("{0} of its calls have not ended: cancel them or wait for them first")]
    UnderWay(u64),
    /// The store failed. What was erased so far stays erased.
    #[error("erase records")]
    Store(#[from] Error),
}

impl Engine {
    /// Erases the records of a call and of the calls that it made, or of a session with its events. Again is
    /// the same as once.
    pub async fn erase(
        &self,
        who: &Principal,
        scope: ErasureScope,
        reason: Option<String>,
    ) -> Result<ErasedRecords, EraseError> {
        let inner = &self.inner;
        let mut found = inner.erasable(who, &scope).await?;
        if found.under_way > 0 {
            return Err(EraseError::UnderWay(found.under_way));
        }
        let session = match &scope {
            ErasureScope::Session(session) => Some(session.clone()),
            ErasureScope::Call(_) => None,
        };
        if found.ended.is_empty() && !inner.has_more(who, &scope).await? {
            return Err(EraseError::NotFound);
        }
        let said = Erasure::Requested { by: who.key, session: session.clone(), reason };
        let mut erased = ErasedRecords::default();
        while !found.ended.is_empty() {
            let at = inner.parts.clock.now();
            let about = |call: &CallId| About {
                call: Some(*call),
                ..About::tenant(who.tenant.clone(), at)
            };
            let entries = found.ended.iter().map(|call| Entry::erasure(about(call), &said));
            let first = inner.parts.ledger.append_entries(entries.collect()).await?;
            let calls = found.ended.into_iter().zip(first..).collect();
            inner.erase_calls(calls, &mut erased).await?;
            found = inner.erasable(who, &scope).await?;
        }
        if let Some(session) = session {
            let about = About::tenant(who.tenant.clone(), inner.parts.clock.now());
            inner.parts.ledger.append(vec![Entry::erasure(about, &said)]).await?;
            let events = ErasedEvents::Session(who.tenant.clone(), session);
            inner.erase_events(events, &mut erased).await?;
        }
        inner.collect_blobs(Duration::ZERO).await?;
        inner.metrics.erased(&erased);
        Ok(erased)
    }

    /// Whether the records of a call were erased.
    pub async fn is_erased(&self, who: &Principal, call: CallId) -> Result<bool, Error> {
        Ok(self.inner.parts.store.erasure(&who.tenant, call).await?.is_some())
    }

    /// Time for which records are kept; none if that is for ever.
    pub fn retention(&self) -> Option<Duration> {
        self.inner.parts.settings.retention
    }

    /// Numbers of records from before a moment, of all tenants. Blobs are not counted.
    pub async fn count_expired(&self, before: Timestamp) -> Result<ErasedRecords, Error> {
        let store = &self.inner.parts.store;
        let (events, decisions) = store.count_expired(before).await?;
        let mut count = ErasedRecords { events, decisions, ..ErasedRecords::default() };
        let mut from = store.cursor(CURSOR).await?;
        loop {
            let found = store.expired_calls(before, from, ENTRIES_PER_ROUND).await?;
            count.calls += found.calls.len() as u64;
            if found.is_end {
                return Ok(count);
            }
            from = found.next;
        }
    }

    /// Erases records from before a moment, of all tenants: of calls that ended before it, session events, and
    /// decisions about actions other than calls.
    pub async fn prune(&self, by: KeyId, before: Timestamp) -> Result<ErasedRecords, Error> {
        self.inner.prune(Some(by), before).await
    }
}

impl Inner {
    async fn erasable(
        &self,
        who: &Principal,
        scope: &ErasureScope,
    ) -> Result<ErasableCalls, Error> {
        self.parts.store.erasable_calls(&who.tenant, scope, CALLS_PER_COMMIT).await
    }

    /// Whether a scope without kept calls is known: a session has events, or a call was erased before.
    async fn has_more(&self, who: &Principal, scope: &ErasureScope) -> Result<bool, Error> {
        let store = &self.parts.store;
        match scope {
            ErasureScope::Call(call) => Ok(store.erasure(&who.tenant, *call).await?.is_some()),
            ErasureScope::Session(session) => {
                let query = SessionQuery {
                    tenant: who.tenant.clone(),
                    session: session.clone(),
                    kind: None,
                    after: 0,
                    last: false,
                    limit: 1,
                };
                Ok(!store.session_events(query).await?.is_empty())
            }
        }
    }

    async fn erase_calls(
        &self,
        calls: Vec<(CallId, u64)>,
        erased: &mut ErasedRecords,
    ) -> Result<(), Error> {
        let done = self.parts.store.erase_calls(calls).await?;
        erased.calls += done.calls;
        erased.blobs += done.blobs.blobs;
        erased.blob_bytes += done.blobs.bytes;
        Ok(())
    }

    async fn erase_events(
        &self,
        events: ErasedEvents,
        erased: &mut ErasedRecords,
    ) -> Result<(), Error> {
        loop {
            match self.parts.store.erase_events(events.clone(), ROWS_PER_COMMIT).await? {
                0 => return Ok(()),
                count => erased.events += count,
            }
        }
    }

    /// Removes blobs that have had no owner for so long. Bytes that another process may be about to refer to stay
    /// for the next pass.
    async fn collect_blobs(&self, unused_for: Duration) -> Result<(), Error> {
        while self.parts.store.collect_blobs(unused_for, PAGE).await?.blobs > 0 {}
        Ok(())
    }

    async fn prune(&self, by: Option<KeyId>, before: Timestamp) -> Result<ErasedRecords, Error> {
        let mut pass = Pass { inner: self, by, before, entry: None };
        let mut erased = ErasedRecords::default();
        let done = pass.run(&mut erased).await;
        // A pass that failed half-way erased what it erased.
        self.metrics.erased(&erased);
        done?;
        self.collect_blobs(Duration::ZERO).await?;
        Ok(erased)
    }
}

/// One pass over records from before a moment.
struct Pass<'a> {
    inner: &'a Inner,
    by: Option<KeyId>,
    before: Timestamp,
    /// Index of the entry that says so; none until there is something to erase.
    entry: Option<u64>,
}

impl Pass<'_> {
    async fn run(&mut self, erased: &mut ErasedRecords) -> Result<(), Error> {
        self.calls(erased).await?;
        let store = &self.inner.parts.store;
        let (events, decisions) = store.count_expired(self.before).await?;
        if events + decisions == 0 {
            return Ok(());
        }
        self.say().await?;
        self.inner.erase_events(ErasedEvents::Before(self.before), erased).await?;
        loop {
            match store.erase_decisions(self.before, ROWS_PER_COMMIT).await? {
                0 => return Ok(()),
                count => erased.decisions += count,
            }
        }
    }

    /// Visits the ledger from where no earlier pass has to come back to, until no entry is old enough.
    async fn calls(&mut self, erased: &mut ErasedRecords) -> Result<(), Error> {
        let store = &self.inner.parts.store;
        let mut from = store.cursor(CURSOR).await?;
        // Whether every entry so far is old enough. A clock that was wrong leaves entries that are not.
        let mut is_settled = true;
        loop {
            let found = store.expired_calls(self.before, from, ENTRIES_PER_ROUND).await?;
            for calls in found.calls.chunks(CALLS_PER_COMMIT) {
                let entry = self.say().await?;
                let calls = calls.iter().map(|call| (*call, entry)).collect();
                self.inner.erase_calls(calls, erased).await?;
            }
            if is_settled {
                store.set_cursor(CURSOR, found.first_kept).await?;
                is_settled = found.first_kept == found.next;
            }
            if found.is_end {
                return Ok(());
            }
            from = found.next;
        }
    }

    /// Puts on record, once, what this pass erases.
    async fn say(&mut self) -> Result<u64, Error> {
        if let Some(entry) = self.entry {
            return Ok(entry);
        }
        let said = Erasure::Expired { before: self.before, by: self.by };
        let about = About::server(self.inner.parts.clock.now());
        let entries = vec![Entry::erasure(about, &said)];
        let entry = self.inner.parts.ledger.append_entries(entries).await?;
        Ok(*self.entry.insert(entry))
    }
}

/// Erases what is too old, in one of the processes on the same store, until the engine stops.
pub(crate) async fn run(inner: Arc<Inner>) {
    let mut duty = inner.parts.store.publishes();
    loop {
        if *duty.borrow_and_update() {
            pass(&inner).await;
        }
        tokio::select! {
            () = inner.stopping.cancelled() => return,
            () = tokio::time::sleep(PASS_INTERVAL) => {}
            changed = duty.changed() => if changed.is_err() { return },
        }
    }
}

async fn pass(inner: &Inner) {
    let done = match inner.parts.settings.retention {
        Some(keep_for) => {
            let before = inner.parts.clock.now().before(keep_for);
            inner.prune(None, before).await
        }
        None => {
            let grace = inner.parts.settings.artifacts.grace;
            inner.collect_blobs(grace).await.map(|()| ErasedRecords::default())
        }
    };
    match done {
        Ok(erased) if erased.is_empty() => {}
        Ok(ErasedRecords { calls, events, decisions, blob_bytes, .. }) => {
            tracing::info!(
                calls,
                events,
                decisions,
                blob_bytes,
                "records beyond the retention erased"
            );
        }
        Err(error) => {
            let error = error_chain(&error);
            tracing::warn!(error, "records beyond the retention are not erased yet");
        }
    }
}
