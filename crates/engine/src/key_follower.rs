//! Revocations by other processes on the same store, found by their entries on the ledger.

use std::{sync::Arc, time::Duration};

use ringfence_ledger::{KeyChange, said_in};
use ringfence_store::{EntryQuery, Error, PAGE};
use ringfence_types::{EntryKind, error_chain};

use crate::{Engine, engine::Inner};

/// Pause between two reads, while entries come.
const READ_PAUSE: Duration = Duration::from_millis(100);

/// Pause after a read that failed.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Follows the ledger until the engine stops.
pub(crate) async fn run(inner: Arc<Inner>) {
    if !inner.parts.store.is_shared() {
        return;
    }
    let mut grown = inner.parts.store.grown();
    let mut from = *grown.borrow_and_update();
    loop {
        let changed = tokio::select! {
            () = inner.stopping.cancelled() => return,
            changed = grown.changed() => changed,
        };
        if changed.is_err() {
            return;
        }
        // Before the read, which sees at least so many entries.
        let size = *grown.borrow_and_update();
        let pause = match read(&inner, from, size).await {
            Ok(next) => {
                from = next;
                READ_PAUSE
            }
            Err(error) => {
                let error = error_chain(&error);
                tracing::warn!(error, "revocations by other processes cannot be read");
                grown.mark_changed();
                RETRY_PAUSE
            }
        };
        tokio::select! {
            () = inner.stopping.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Applies revocations from an index on; gives the index after the last entry that was seen.
async fn read(inner: &Arc<Inner>, mut from: u64, size: u64) -> Result<u64, Error> {
    loop {
        let kind = Some(EntryKind::Key);
        let query = EntryQuery { kind, from, limit: PAGE, ..EntryQuery::default() };
        let found = inner.parts.store.entries(query).await?;
        for placed in &found {
            from = placed.index + 1;
            let change = said_in::<KeyChange>(&placed.sealed);
            let Some(change) = change.filter(|change| change.event == "revoked") else { continue };
            inner.access.revoked_elsewhere(change.key);
            let engine = Engine { inner: inner.clone() };
            engine.key_revoked(change.key, change.by.unwrap_or(change.key));
        }
        if found.len() < PAGE {
            return Ok(from.max(size));
        }
    }
}
