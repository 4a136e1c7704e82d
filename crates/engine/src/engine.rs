//! The engine for its owner: assembled from parts, used through a handle, stopped in order.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ringfence_access::Access;
use ringfence_bus::Bus;
use ringfence_egress::{Fetcher, ProxyLimits};
use ringfence_llm::Llm;
use ringfence_models::Embedder;
use ringfence_policy as policy;
use ringfence_registry::Registry;
use ringfence_sandbox::{Backend, Sessions};
use ringfence_store::{BudgetBounds, ProcessRole, RoomLimits, Store};
use ringfence_types::{Clock, Spans, Stopper, TenantId};
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    ArtifactLimits, CircuitSettings, Ledger, Memo, Metrics, Telemetry,
    awaited::{self, AwaitedCalls},
    budget::Budgets,
    canary,
    circuit::Circuits,
    erasure, handover,
    hold::{self, HoldLocks, RecheckQueue},
    ids::Ids,
    in_flight::InFlightCalls,
    key_follower,
    ledger::{self, Tools},
    lifecycle::{self, Lifecycle},
    publish,
    queue::{Bounds, Queue},
    recover,
    roots::{Installs, RootSettings},
    sandboxes::{SandboxLimits, Sandboxes},
    secrets::{SecretKeys, Vault},
    sources::{self, Sources},
    uploads::{self, Uploads},
    use_cases::{Dependency, DiscoverySettings, Neighbours, Probed, SeenClients, follow_policy},
};

/// Parts of the engine. The owner picks the backends.
#[derive(Debug)]
pub struct Parts {
    /// Durable state.
    pub store: Arc<dyn Store>,
    /// Message bus for results.
    pub bus: Arc<dyn Bus>,
    /// Policy engine.
    pub policy: Arc<dyn policy::Engine>,
    /// Tools.
    pub registry: Registry,
    /// Ledger that signs and proves everything that happens; of the same store.
    pub ledger: Ledger,
    /// Backend that runs programs on this host.
    pub sandbox: Arc<dyn Sessions>,
    /// Backend that runs programs in containers of an engine, if there is one.
    pub containers: Option<Arc<dyn Backend>>,
    /// Network access of tools, or the reason why there is none.
    pub fetcher: Result<Fetcher, ringfence_egress::SetupError>,
    /// Models that run in the server.
    pub models: Embedder,
    /// Model servers of others.
    pub llm: Llm,
    /// Keys that encrypt secrets.
    pub secret_keys: Arc<dyn SecretKeys>,
    /// Wall clock.
    pub clock: Arc<dyn Clock>,
    /// Spans and metrics.
    pub telemetry: Telemetry,
    /// Bounds and paths.
    pub settings: Settings,
}

/// Bounds and paths.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Running calls.
    pub running: usize,
    /// Running calls per tenant.
    pub running_per_tenant: usize,
    /// Calls waiting for a place.
    pub waiting: usize,
    /// Calls waiting for a place, per tenant.
    pub waiting_per_tenant: usize,
    /// Maximum wall time of a call, whatever its tool allows.
    pub max_wall_time: Duration,
    /// Time after which an undecided held call expires.
    pub hold_for: Duration,
    /// Tenants whose denied calls are held.
    pub held_denials: HeldDenials,
    /// Directory with one work directory per tenant, which `file_read` reads.
    pub work: PathBuf,
    /// Directory of the installed packages of MCP servers.
    pub mcp_packages: PathBuf,
    /// Tools whose results are remembered.
    pub memo: Memo,
    /// Storage limits.
    pub room: RoomLimits,
    /// Default daily budget of a tenant.
    pub daily_budget: BudgetBounds,
    /// Circuit breaker.
    pub circuit: CircuitSettings,
    /// Retries of a pure call whose sandbox failed.
    pub retries: u32,
    /// Limits on session sandboxes.
    pub sandboxes: SandboxLimits,
    /// Limits on artifacts.
    pub artifacts: ArtifactLimits,
    /// Limits on the network access of one sandbox.
    pub proxy: ProxyLimits,
    /// Time for which records of ended calls are kept; for ever without one.
    pub retention: Option<Duration>,
    /// Images, layers of packages, and where packages come from.
    pub roots: RootSettings,
    /// Directories of tools that are searched for what is missing.
    pub discovery: DiscoverySettings,
    /// Part of the work that this process does among those on the same store.
    pub role: ProcessRole,
}

/// Tenants whose denied calls are held, until policy allows them or the hold ends. Denials are final for
/// all others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum HeldDenials {
    /// None.
    #[default]
    None,
    /// All.
    All,
    /// These.
    Of(BTreeSet<TenantId>),
}

impl HeldDenials {
    pub(crate) fn has(&self, tenant: &TenantId) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Of(tenants) => tenants.contains(tenant),
        }
    }
}

impl Settings {
    /// Default bounds for a machine with this many processors.
    pub fn for_processors(processors: usize, work: PathBuf) -> Self {
        let running = (processors * 8).clamp(8, 512);
        let roots = work.parent().map(RootSettings::below).unwrap_or_default();
        Self {
            running,
            running_per_tenant: (running * 3 / 4).max(1),
            waiting: 10_000,
            waiting_per_tenant: 2_000,
            max_wall_time: Duration::from_secs(3_600),
            hold_for: Duration::from_secs(86_400),
            held_denials: HeldDenials::default(),
            mcp_packages: work.with_file_name("mcp-packages"),
            work,
            memo: Memo::default(),
            room: RoomLimits::default(),
            daily_budget: BudgetBounds::default(),
            circuit: CircuitSettings::default(),
            retries: 2,
            sandboxes: SandboxLimits::default(),
            artifacts: ArtifactLimits::default(),
            proxy: ProxyLimits::default(),
            retention: None,
            roots,
            discovery: DiscoverySettings::default(),
            role: ProcessRole::All,
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
    /// Calls of other processes that are waited for.
    pub(crate) awaited: AwaitedCalls,
    /// Other processes on the same store.
    pub(crate) neighbours: Neighbours,
    pub(crate) queue: Queue,
    /// State of tools in the store.
    pub(crate) lifecycle: Lifecycle,
    /// Uploaded skills in the store, and their copies here.
    pub(crate) uploads: Uploads,
    /// Budgets of tenants and keys.
    pub(crate) budgets: Budgets,
    /// Secrets of tenants.
    pub(crate) secrets: Vault,
    /// Calls that install packages.
    pub(crate) installs: Installs,
    /// Circuit breakers by tenant and tool.
    pub(crate) circuits: Circuits,
    /// Session sandboxes, and the programs in them.
    pub(crate) sandboxes: Sandboxes,
    /// MCP servers whose tools are offered.
    pub(crate) sources: Sources,
    /// MCP clients that were seen.
    pub(crate) clients: SeenClients,
    /// Held calls, with the time of their next recheck.
    pub(crate) rechecks: RecheckQueue,
    /// Locks of holds that are being decided.
    pub(crate) locks: HoldLocks,
    /// Counts of canary policies when they were last stored.
    pub(crate) canary_counts: canary::StoredCounts,
    /// Owns every task of the engine: stopping waits for all of them.
    pub(crate) tasks: TaskTracker,
    pub(crate) stopping: CancellationToken,
    /// Owns the publisher, which ends after all other tasks: calls end while the engine stops.
    pub(crate) publisher: TaskTracker,
    /// Set when every other task has ended.
    pub(crate) drained: CancellationToken,
    /// Whether the last call that could not be recorded met a full disk.
    pub(crate) disk_full: AtomicBool,
    /// Result of the last probe of the store.
    pub(crate) probed: Probed,
    /// Services beside the server.
    pub(crate) dependencies: Mutex<Vec<Dependency>>,
    /// Held by the one import that is parsed.
    pub(crate) import_turn: Semaphore,
    /// Held by the one replay that runs: a replay keeps every processor busy.
    pub(crate) replay_turn: Semaphore,
}

impl Inner {
    /// Source of the events of this installation.
    pub(crate) fn event_source(&self) -> String {
        format!("/{}", self.parts.ledger.origin())
    }
}

impl Engine {
    /// Starts the engine, after dealing with calls that an earlier process left unfinished.
    pub async fn start(mut parts: Parts) -> Result<Self, ringfence_store::Error> {
        let bounds = Bounds::of(&parts.settings);
        parts.store.room().set_limits(parts.settings.room);
        let mut registry = std::mem::take(&mut parts.telemetry.registry);
        let (store, keys) = (parts.store.clone(), parts.secret_keys.clone());
        let secrets = Vault::new(store, keys, &mut registry);
        let signer = Arc::new(parts.ledger.clone());
        let access = Access::new(parts.store.clone(), signer, parts.clock.clone());
        let inner = Inner {
            lifecycle: Lifecycle::default(),
            uploads: Uploads::default(),
            budgets: Budgets::default(),
            secrets,
            installs: Installs::default(),
            circuits: Circuits::new(parts.settings.circuit),
            parts,
            access,
            metrics: Metrics::new(registry),
            ids: Ids::new(),
            in_flight: InFlightCalls::default(),
            awaited: AwaitedCalls::default(),
            neighbours: Neighbours::default(),
            queue: Queue::new(bounds),
            sandboxes: Sandboxes::default(),
            sources: Sources::default(),
            clients: SeenClients::default(),
            rechecks: RecheckQueue::default(),
            locks: HoldLocks::default(),
            canary_counts: canary::StoredCounts::default(),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            publisher: TaskTracker::new(),
            drained: CancellationToken::new(),
            disk_full: AtomicBool::new(false),
            probed: Probed::default(),
            dependencies: Mutex::default(),
            import_turn: Semaphore::new(1),
            replay_turn: Semaphore::new(1),
        };
        let inner = Arc::new(inner);
        // Before any call, recovered ones included: what was withdrawn does not run.
        lifecycle::refresh(&inner).await?;
        uploads::start(&inner).await?;
        // Before any call: the ledger names a tool digest before a receipt uses it.
        let Parts { ledger, registry, clock, .. } = &inner.parts;
        let mut tools = Tools::recorded(ledger).await?;
        tools.record(ledger, &registry.catalogue(), clock.now()).await?;
        recover::run(&inner).await?;
        inner.publisher.spawn(publish::run(inner.clone()));
        inner.tasks.spawn(recover::follow(inner.clone()));
        inner.tasks.spawn(key_follower::run(inner.clone()));
        inner.tasks.spawn(lifecycle::follow(inner.clone()));
        inner.tasks.spawn(uploads::follow(inner.clone()));
        inner.tasks.spawn(awaited::run(inner.clone()));
        inner.tasks.spawn(follow_policy(inner.clone()));
        inner.tasks.spawn(hold::run(inner.clone()));
        inner.tasks.spawn(hold::follow(inner.clone()));
        inner.tasks.spawn(ledger::follow_tools(inner.clone(), tools));
        inner.tasks.spawn(canary::run(inner.clone()));
        inner.tasks.spawn(erasure::run(inner.clone()));
        if inner.parts.settings.role.runs_calls() {
            inner.tasks.spawn(handover::follow(inner.clone()));
            inner.tasks.spawn(sources::run(inner.clone()));
            inner.tasks.spawn(crate::syntax::run(inner.clone()));
        }
        Ok(Self { inner })
    }

    /// Counters and timers.
    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// All metrics of the engine and of the parts beside it, in the OpenMetrics text format.
    pub fn metrics_text(&self) -> String {
        self.inner.metrics.text(&self.inner)
    }

    /// Keys and their scopes.
    pub fn access(&self) -> &Access {
        &self.inner.access
    }

    /// Whether the last call that could not be recorded met a full disk.
    pub fn met_full_disk(&self) -> bool {
        self.inner.disk_full.load(Ordering::Relaxed)
    }

    /// Model servers of others.
    pub fn llm(&self) -> &Llm {
        &self.inner.parts.llm
    }

    /// The wall clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.parts.clock
    }

    /// Receiver of spans, if there is one.
    pub fn spans(&self) -> Option<&dyn Spans> {
        self.inner.parts.telemetry.spans.as_deref()
    }

    /// Numbers of running calls and of calls that wait for a place.
    pub fn load(&self) -> (usize, usize) {
        self.inner.queue.load()
    }

    /// Source of the events of this installation, as CloudEvents name it.
    pub fn event_source(&self) -> String {
        self.inner.event_source()
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
