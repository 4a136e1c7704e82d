//! The engine as its owner holds it: parts in, doors' handle out, an orderly end.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ringfence_access::Access;
use ringfence_bus::Bus;
use ringfence_egress::Fetcher;
use ringfence_policy as policy;
use ringfence_registry::Registry;
use ringfence_sandbox::Backend;
use ringfence_store::{BudgetBounds, RoomLimits, Store};
use ringfence_types::{Clock, Spans, Stopper};
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    CircuitSettings, Ledger, Memo, Metrics, Telemetry,
    budget::Budgets,
    canary,
    circuit::Circuits,
    hold::{self, Locks, RecheckQueue},
    ids::Ids,
    in_flight::InFlightCalls,
    ledger::{self, Tools},
    publish,
    queue::{Bounds, Queue},
    recover,
    sandboxes::{SandboxLimits, Sandboxes},
    use_cases::Probed,
};

/// What the engine is made of. Whoever starts it picks the backends.
#[derive(Debug)]
pub struct Parts {
    /// Durable state.
    pub store: Arc<dyn Store>,
    /// Where results are published.
    pub bus: Arc<dyn Bus>,
    /// Who decides.
    pub policy: Arc<dyn policy::Engine>,
    /// What tools there are.
    pub registry: Registry,
    /// Where everything that happens is signed and proved; of the same store.
    pub ledger: Ledger,
    /// Where programs run.
    pub sandbox: Arc<dyn Backend>,
    /// How tools reach the network, or why they cannot.
    pub fetcher: Result<Fetcher, ringfence_egress::SetupError>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Who watches.
    pub telemetry: Telemetry,
    /// The rest.
    pub settings: Settings,
}

/// Bounds and places.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Calls in sandboxes at one time.
    pub running: usize,
    /// Of these, of one tenant.
    pub running_per_tenant: usize,
    /// Calls waiting for a sandbox.
    pub waiting: usize,
    /// Of these, of one tenant.
    pub waiting_per_tenant: usize,
    /// No call runs longer, whatever its tool says.
    pub longest: Duration,
    /// A held call that nobody decides about ends after this.
    pub hold_for: Duration,
    /// Holds one directory per tenant, which `file_read` reads.
    pub work: PathBuf,
    /// Of which tools results are remembered.
    pub memo: Memo,
    /// How much may be stored.
    pub room: RoomLimits,
    /// What calls of a tenant may take in a day, unless it has a budget of its own for that.
    pub daily_budget: BudgetBounds,
    /// When a tool that fails is left alone.
    pub circuit: CircuitSettings,
    /// Further tries of a pure call whose sandbox failed.
    pub retries: u32,
    /// How many session sandboxes are kept.
    pub sandboxes: SandboxLimits,
}

impl Settings {
    /// Usual bounds for a machine with so many processors.
    pub fn for_processors(processors: usize, work: PathBuf) -> Self {
        let running = (processors * 8).clamp(8, 512);
        Self {
            running,
            running_per_tenant: (running * 3 / 4).max(1),
            waiting: 10_000,
            waiting_per_tenant: 2_000,
            longest: Duration::from_secs(3_600),
            hold_for: Duration::from_secs(86_400),
            work,
            memo: Memo::default(),
            room: RoomLimits::default(),
            daily_budget: BudgetBounds::default(),
            circuit: CircuitSettings::default(),
            retries: 2,
            sandboxes: SandboxLimits::default(),
        }
    }
}

/// The engine. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) parts: Parts,
    pub(crate) access: Access,
    pub(crate) metrics: Metrics,
    pub(crate) ids: Ids,
    pub(crate) in_flight: InFlightCalls,
    pub(crate) queue: Queue,
    /// What calls may take.
    pub(crate) budgets: Budgets,
    /// Tools that fail.
    pub(crate) circuits: Circuits,
    /// Session sandboxes, and what runs in them.
    pub(crate) sandboxes: Sandboxes,
    /// Held calls, and when each is looked at again.
    pub(crate) rechecks: RecheckQueue,
    /// Who decides about a hold.
    pub(crate) locks: Locks,
    /// What was last put on record of policies that are tried.
    pub(crate) marks: canary::Marks,
    /// Owns every task of the engine: stopping waits for all of them.
    pub(crate) tasks: TaskTracker,
    pub(crate) stopping: CancellationToken,
    /// Owns the publisher, which ends after all other tasks: calls end while the engine stops.
    pub(crate) publisher: TaskTracker,
    /// Every other task has ended.
    pub(crate) drained: CancellationToken,
    /// Whether the last call that could not be recorded met a full disk.
    pub(crate) disk_full: AtomicBool,
    /// The last probe of the store.
    pub(crate) probed: Probed,
    /// A turn at judging the past, which keeps every processor busy.
    pub(crate) replay_turn: Semaphore,
}

impl Engine {
    /// Starts: what an earlier process left unfinished is dealt with first.
    pub async fn start(mut parts: Parts) -> Result<Self, ringfence_store::Error> {
        let bounds = Bounds {
            running: parts.settings.running,
            running_per_tenant: parts.settings.running_per_tenant,
            waiting: parts.settings.waiting,
            waiting_per_tenant: parts.settings.waiting_per_tenant,
        };
        parts.store.room().set_limits(parts.settings.room);
        let registry = std::mem::take(&mut parts.telemetry.registry);
        let signer = Arc::new(parts.ledger.clone());
        let access = Access::new(parts.store.clone(), signer, parts.clock.clone());
        let inner = Inner {
            budgets: Budgets::default(),
            circuits: Circuits::new(parts.settings.circuit),
            parts,
            access,
            metrics: Metrics::new(registry),
            ids: Ids::new(),
            in_flight: InFlightCalls::default(),
            queue: Queue::new(bounds),
            sandboxes: Sandboxes::default(),
            rechecks: RecheckQueue::default(),
            locks: Locks::default(),
            marks: canary::Marks::default(),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            publisher: TaskTracker::new(),
            drained: CancellationToken::new(),
            disk_full: AtomicBool::new(false),
            probed: Probed::default(),
            replay_turn: Semaphore::new(1),
        };
        let inner = Arc::new(inner);
        // Before any call: what its digest stands for is on the ledger first.
        let Parts { ledger, registry, clock, .. } = &inner.parts;
        let mut tools = Tools::recorded(ledger).await?;
        tools.record(ledger, &registry.catalogue(), clock.now()).await?;
        recover::run(&inner).await?;
        inner.publisher.spawn(publish::run(inner.clone()));
        inner.tasks.spawn(hold::run(inner.clone()));
        inner.tasks.spawn(ledger::follow_tools(inner.clone(), tools));
        inner.tasks.spawn(canary::run(inner.clone()));
        inner.tasks.spawn(crate::syntax::run(inner.clone()));
        Ok(Self { inner })
    }

    /// What is counted and timed.
    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// All of it, and all that watches beside it, in the text format of OpenMetrics.
    pub fn metrics_text(&self) -> String {
        self.inner.metrics.text(&self.inner)
    }

    /// Keys: who may do what.
    pub fn access(&self) -> &Access {
        &self.inner.access
    }

    /// Whether the last call that could not be recorded met a full disk.
    pub fn met_full_disk(&self) -> bool {
        self.inner.disk_full.load(Ordering::Relaxed)
    }

    /// What time it is.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.parts.clock
    }

    /// Takes spans, if anybody does.
    pub fn spans(&self) -> Option<&dyn Spans> {
        self.inner.parts.telemetry.spans.as_deref()
    }

    /// How many calls run and how many wait for a place.
    pub fn load(&self) -> (usize, usize) {
        self.inner.queue.load()
    }

    /// Whether [`Engine::stop`] was called, so that no new call is accepted.
    pub fn is_stopping(&self) -> bool {
        self.inner.stopping.is_cancelled()
    }

    /// Accepts nothing more, lets calls end for `grace`, cancels the rest, publishes what is left.
    pub async fn stop(&self, grace: Duration) {
        self.inner.stopping.cancel();
        // Sandboxes end with the process, and a terminal would use up the time of all others.
        self.inner.end_session_calls(Stopper::Shutdown);
        self.inner.tasks.close();
        if tokio::time::timeout(grace, self.inner.tasks.wait()).await.is_err() {
            for in_flight in self.inner.in_flight.all() {
                in_flight.cancel(Stopper::Shutdown);
            }
            self.inner.tasks.wait().await;
        }
        self.inner.drained.cancel();
        self.inner.publisher.close();
        self.inner.publisher.wait().await;
    }
}
