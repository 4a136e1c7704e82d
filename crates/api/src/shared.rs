//! State shared by all requests of this door.

use std::sync::Arc;

use ringfence_conversation::Conversations;
use ringfence_edge::Edge;
use ringfence_engine::Engine;
use ringfence_plans::Plans;
use tokio::sync::Semaphore;

use crate::{ApiConfig, metrics::Metrics, routes::sandboxes::Once};

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) edge: Edge,
    pub(crate) engine: Engine,
    pub(crate) config: ApiConfig,
    /// Conversations, if the server has model profiles.
    pub(crate) conversations: Option<Conversations>,
    pub(crate) plans: Plans,
    pub(crate) metrics: Metrics,
    /// Permits for whole workspaces in memory: snapshots on their way in or out.
    pub(crate) packing: Semaphore,
    /// Permits for snapshots being sent, each whole in memory.
    pub(crate) sending: Arc<Semaphore>,
    /// Permits for archives that are packed while they are sent, each on a thread of its own.
    pub(crate) packing_out: Arc<Semaphore>,
    /// Session sandboxes by the idempotency keys they were asked for with.
    pub(crate) once: Once,
}

impl Shared {
    pub(crate) fn new(
        edge: Edge,
        config: ApiConfig,
        conversations: Option<Conversations>,
        plans: Option<Plans>,
    ) -> Self {
        Self {
            plans: plans.unwrap_or_else(|| Plans::without_worker(edge.engine().clone())),
            engine: edge.engine().clone(),
            edge,
            config,
            conversations,
            metrics: Metrics::new(),
            packing: Semaphore::new(2),
            sending: Arc::new(Semaphore::new(8)),
            packing_out: Arc::new(Semaphore::new(8)),
            once: Once::default(),
        }
    }
}
