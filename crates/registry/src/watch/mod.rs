//! Detection of changes while the server runs.
//!
//! inotify reports *that* something changed, never what: every change is answered by a full scan, which
//! is cheap because unchanged skills are taken over. Watches are set before the scan, so a change
//! during it is seen after it. A slow rescan finds what inotify cannot see (network file systems, an
//! exhausted number of watches).

mod watches;

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use self::watches::Watches;
use crate::registry::Registry;

/// Quiet time before files are read: an editor writes a file in several steps.
const QUIET_PERIOD: Duration = Duration::from_millis(100);
/// Time after which a busy folder is read nevertheless.
const MAX_BUSY: Duration = Duration::from_secs(2);
/// Interval of full scans without a reported change.
const RESCAN_INTERVAL: Duration = Duration::from_secs(30);

impl Registry {
    /// Picks up added, changed and removed folders until `stop` completes.
    pub async fn watch(&self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let watches = Watches::open().map(Arc::new);
        let watches =
            watches.map_err(|error| tracing::warn!(%error, "no inotify: changes are seen late"));
        let watches = watches.ok();
        loop {
            tokio::select! {
                () = &mut stop => return,
                () = self.look(watches.clone()) => {}
            }
            tokio::select! {
                () = &mut stop => return,
                () = change(watches.as_deref()) => {}
                () = tokio::time::sleep(RESCAN_INTERVAL) => {}
            }
        }
    }

    /// Sets watches on everything there is, then reads it.
    async fn look(&self, watches: Option<Arc<Watches>>) {
        let registry = self.clone();
        let work = tokio::task::spawn_blocking(move || {
            if let Some(watches) = watches {
                let sources = &registry.inner.sources;
                sources.folders.iter().for_each(|place| watches.watch(place));
                watches.watch(&sources.uploads);
            }
            registry.rescan();
        });
        // It fails only if it panicked or the runtime is shutting down; the next round tries again.
        if let Err(error) = work.await {
            tracing::error!(%error, "a scan of the tools failed");
        }
    }
}

/// Returns when it is quiet again after a change.
async fn change(watches: Option<&Watches>) {
    let Some(watches) = watches else { return std::future::pending().await };
    watches.changed().await;
    let settled =
        async { while tokio::time::timeout(QUIET_PERIOD, watches.changed()).await.is_ok() {} };
    // A timeout counts as quiet: the next change brings the next scan.
    let _ = tokio::time::timeout(MAX_BUSY, settled).await;
}
