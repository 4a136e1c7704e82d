//! Changes picked up while the server runs.
//!
//! inotify says *that* something changed, never what: every change is answered by a full scan, which
//! is cheap because unchanged skills are taken over. Watches are set before the scan, so a change
//! during it is seen after it. What inotify cannot see (network file systems, an exhausted number of
//! watches) a slow rescan finds.

mod eyes;

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use self::eyes::Eyes;
use crate::registry::Registry;

/// How long nothing may happen before files are read: an editor writes a file in several steps.
const QUIET: Duration = Duration::from_millis(100);
/// How long a folder may be busy before it is read nevertheless.
const BUSY: Duration = Duration::from_secs(2);
/// How often everything is read even if nothing seems to have changed.
const RESCAN: Duration = Duration::from_secs(30);

impl Registry {
    /// Picks up added, changed and removed folders until `stop` completes.
    pub async fn watch(&self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let eyes = Eyes::open().map(Arc::new);
        let eyes =
            eyes.map_err(|error| tracing::warn!(%error, "no inotify: changes are seen late"));
        let eyes = eyes.ok();
        loop {
            tokio::select! {
                () = &mut stop => return,
                () = self.look(eyes.clone()) => {}
            }
            tokio::select! {
                () = &mut stop => return,
                () = change(eyes.as_deref()) => {}
                () = tokio::time::sleep(RESCAN) => {}
            }
        }
    }

    /// Sets watches on everything there is, then reads it.
    async fn look(&self, eyes: Option<Arc<Eyes>>) {
        let registry = self.clone();
        let work = tokio::task::spawn_blocking(move || {
            if let Some(eyes) = eyes {
                let sources = &registry.inner.sources;
                sources.folders.iter().for_each(|place| eyes.watch(place));
                eyes.watch(&sources.uploads);
            }
            registry.rescan();
        });
        // It fails only if it panicked or the runtime is going away; the next round tries again.
        if let Err(error) = work.await {
            tracing::error!(%error, "a scan of the tools failed");
        }
    }
}

/// Returns some time after something changed, when it is quiet again.
async fn change(eyes: Option<&Eyes>) {
    let Some(eyes) = eyes else { return std::future::pending().await };
    eyes.changed().await;
    let settled = async { while tokio::time::timeout(QUIET, eyes.changed()).await.is_ok() {} };
    // Out of patience is as good as quiet: the next change brings the next scan.
    let _ = tokio::time::timeout(BUSY, settled).await;
}
