//! Whether calls can be taken.

use std::time::{Duration, Instant};

use ringfence_store::Error;

use crate::Engine;

/// Whether the store can take what is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreState {
    /// It can be written.
    Writable,
    /// It does not answer, or cannot be written.
    Unavailable,
    /// Its files were deleted or replaced: only a restart helps.
    Gone,
    /// The disk has less than its reserve.
    DiskLow,
}

/// How long the store may take to be written.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the result of a probe is good for every client.
const PROBE_LIFETIME: Duration = Duration::from_secs(1);

/// The last probe: when, and whether the store could be written.
#[derive(Debug, Default)]
pub(crate) struct Probed(tokio::sync::Mutex<Option<(Instant, bool)>>);

impl Engine {
    /// Probes the store by writing to it: on a full disk, or beside a ledger that was changed, reading
    /// works. Written at most once in a second, however many ask: probes need no key.
    pub async fn probe_store(&self) -> StoreState {
        let store = &self.inner.parts.store;
        if !self.is_writable().await {
            // Asked after the write, which is what finds out.
            return if store.check_files().is_err() {
                StoreState::Gone
            } else {
                StoreState::Unavailable
            };
        }
        if store.room().check_disk().is_err() { StoreState::DiskLow } else { StoreState::Writable }
    }

    /// Fails once files of the store were deleted or replaced.
    pub fn check_store_files(&self) -> Result<(), Error> {
        self.inner.parts.store.check_files()
    }

    async fn is_writable(&self) -> bool {
        let mut probed = self.inner.probed.0.lock().await;
        if let Some((_, answers)) = probed.filter(|(at, _)| at.elapsed() < PROBE_LIFETIME) {
            return answers;
        }
        let now = self.clock().now().as_micros().cast_unsigned();
        let writing = self.inner.parts.store.set_cursor("readyz", now);
        let answers = matches!(tokio::time::timeout(PROBE_TIMEOUT, writing).await, Ok(Ok(())));
        *probed = Some((Instant::now(), answers));
        answers
    }
}
