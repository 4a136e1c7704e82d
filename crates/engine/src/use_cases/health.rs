//! Readiness of the store, and of services beside the server.

use std::time::{Duration, Instant};

use ringfence_store::Error;
use tokio::sync::watch;

use crate::Engine;

/// State of the store for writing.
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

/// A service beside the server. Without it the server goes on and does less.
#[derive(Debug, Clone)]
pub struct Dependency {
    /// Name.
    pub name: &'static str,
    /// Whether it answers.
    pub is_up: watch::Receiver<bool>,
}

/// Timeout of a probe of the store.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Time for which all clients share the result of a probe.
const PROBE_LIFETIME: Duration = Duration::from_secs(1);

/// The last probe: its time, and whether the store could be written.
#[derive(Debug, Default)]
pub(crate) struct Probed(tokio::sync::Mutex<Option<(Instant, bool)>>);

impl Engine {
    /// Probes the store by writing to it: on a full disk, or beside a changed ledger, reading still
    /// works. At most one write per second, however many clients ask: probes need no key.
    pub async fn probe_store(&self) -> StoreState {
        let store = &self.inner.parts.store;
        if !self.is_writable().await {
            // Checked after the write, which detects it.
            return if store.check_files().is_err() {
                StoreState::Gone
            } else {
                StoreState::Unavailable
            };
        }
        if store.room().check_disk().is_err() { StoreState::DiskLow } else { StoreState::Writable }
    }

    /// Has the readiness probe watch a service.
    pub fn watch_dependency(&self, dependency: Dependency) {
        let mut known =
            self.inner.dependencies.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        known.push(dependency);
    }

    /// Names of the services that do not answer.
    pub fn missing_dependencies(&self) -> Vec<&'static str> {
        let known =
            self.inner.dependencies.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let missing = known.iter().filter(|dependency| !*dependency.is_up.borrow());
        missing.map(|dependency| dependency.name).collect()
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

/// A pool of prepared sandboxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxPool {
    /// Name: language and way of starting.
    pub name: String,
    /// Sandboxes that are ready, of the number that it tries to hold.
    pub ready: usize,
    /// The number that it tries to hold.
    pub target: usize,
    /// Calls that found one ready.
    pub hits: usize,
    /// Calls that found none.
    pub misses: usize,
}

impl Engine {
    /// Pools of prepared sandboxes, by name.
    pub fn sandbox_pools(&self) -> Vec<SandboxPool> {
        let pools = self.inner.parts.sandbox.pools().into_iter();
        let mut pools: Vec<_> = pools
            .map(|(key, status)| SandboxPool {
                name: format!("{:?} {:?}", key.language, key.isolation).to_lowercase(),
                ready: status.ready,
                target: status.target,
                hits: status.hits,
                misses: status.misses,
            })
            .collect();
        pools.sort_by(|a, b| a.name.cmp(&b.name));
        pools
    }
}
