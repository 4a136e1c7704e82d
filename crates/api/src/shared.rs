//! What all requests share.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};

use ringfence_engine::Engine;
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{ApiConfig, auth::Cache, metrics::Metrics, routes::sandboxes::Tables};

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) config: ApiConfig,
    pub(crate) keys: Cache,
    pub(crate) metrics: Metrics,
    /// Room for large bodies, in bytes.
    pub(crate) bodies: Arc<Semaphore>,
    /// Room for event streams.
    pub(crate) streams: Arc<Semaphore>,
    /// Held while a session sandbox is made, so that their number is checked and kept.
    pub(crate) making: tokio::sync::Mutex<()>,
    /// Held while a key is revoked: of two that revoke each other one must stay.
    pub(crate) revoking: tokio::sync::Mutex<()>,
    /// Room for whole workspaces in memory: snapshots on their way in or out.
    pub(crate) packing: Semaphore,
    /// Room for snapshots that are being sent, each whole in memory.
    pub(crate) sending: Arc<Semaphore>,
    /// Room for archives that are packed while they are sent, each on a thread of its own.
    pub(crate) packing_out: Arc<Semaphore>,
    /// A turn at judging the past, which keeps every processor busy.
    pub(crate) replays: Semaphore,
    /// Programs and interpreters that clients know by number.
    pub(crate) tables: Tables,
    /// Work that goes on beside requests; it ends with `stopping`.
    pub(crate) tasks: TaskTracker,
    /// Ends event streams and everything else that would go on.
    pub(crate) stopping: CancellationToken,
    /// Whether only this machine can reach us, so that only its own names may be used.
    pub(crate) is_loopback: AtomicBool,
    /// Zero of the clock of rates.
    began: Instant,
    /// Whether the store could be written when somebody last asked, and when that was.
    pub(crate) probed: tokio::sync::Mutex<Option<(Instant, bool)>>,
}

impl Shared {
    pub(crate) fn new(engine: Engine, config: ApiConfig) -> Self {
        Self {
            engine,
            keys: Cache::new(config.max_streams_per_key),
            metrics: Metrics::new(),
            bodies: Arc::new(Semaphore::new(config.max_bodies_together)),
            streams: Arc::new(Semaphore::new(config.max_streams)),
            making: tokio::sync::Mutex::default(),
            revoking: tokio::sync::Mutex::default(),
            packing: Semaphore::new(2),
            sending: Arc::new(Semaphore::new(8)),
            packing_out: Arc::new(Semaphore::new(8)),
            replays: Semaphore::new(1),
            tables: Tables::default(),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            is_loopback: true.into(),
            began: Instant::now(),
            probed: tokio::sync::Mutex::default(),
            config,
        }
    }

    /// Nanoseconds since the beginning; grows whatever the wall clock does.
    pub(crate) fn ticks(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
