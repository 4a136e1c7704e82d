//! Parts of a server: opens the backends and the engine.

use std::{path::Path, sync::Arc, time::Duration};

use ringfence_bus::Bus;
use ringfence_conversation::{Conversations, Metrics as ConversationMetrics};
use ringfence_egress::{Fetcher, GuardedClient, Roots};
use ringfence_engine::{Dependency, Engine, Parts, Telemetry, builtin_tools_with};
use ringfence_intake::{Intake, Metrics as IntakeMetrics};
use ringfence_llm::{Llm, LlmConfig};
use ringfence_models::{Analyser, Embedder, Library};
use ringfence_otlp::Exporter;
use ringfence_plans::{Metrics as PlanMetrics, Plans};
use ringfence_redis::{Metrics as RedisMetrics, Redis};
use ringfence_registry::{Config as RegistryConfig, Registry};
use ringfence_sandbox::{Backend, Config as SandboxConfig, Docker, Native, Root};
use ringfence_sqlite::{Db, Options as DbOptions};
use ringfence_store::{
    Error as StoreError, Log as _, PostgresStore, PostgresUrl, ProcessRole, SqliteStore, Store,
};
use ringfence_types::{Clock, Digest};
use ringfence_webhook::{Counts, Webhooks};
use tokio::task::JoinHandle;

use super::{
    SystemClock, bus::OpenBus, embedded::SKILLS, policy, policy::Decider, secret_keys, stop::Stop,
    telemetry,
};
use crate::{
    doctor::layer_names,
    failure::Failure,
    ledger::{self, HeadKeeper},
    settings::Settings,
};

/// All open parts.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) engine: Engine,
    /// Revision of the rules in force.
    pub(super) policy: Digest,
    db: Db,
    bus: OpenBus,
    sandbox: Native,
    /// Containers, if an engine is configured.
    docker: Option<Docker>,
    /// Exporter of traces, if configured.
    exporter: Option<Exporter>,
    /// Watchers of skills and rules.
    watchers: Vec<JoinHandle<()>>,
    watching: Stop,
    /// Webhooks, if configured.
    webhooks: Option<Webhooks>,
    /// Reads requests from the bus, if the operator bound a key to it.
    intake: Option<Intake>,
    /// Conversations, if there are model profiles.
    pub(super) conversations: Option<Conversations>,
    /// Plans, which this process drives.
    pub(super) plans: Plans,
    /// Shared rate limits and the mirror, if configured.
    redis: Option<Redis>,
    /// Writer of the heads.
    heads: HeadKeeper,
    /// Gives up what this process owns when it ends.
    postgres: Option<Arc<PostgresStore>>,
}

/// Opens everything. Slow parts that are not needed yet continue in the background.
pub(crate) async fn open(settings: &Settings) -> Result<Opened, Failure> {
    let sandbox = sandbox(settings);
    // A server that runs no calls needs nothing of its host.
    let trial = settings.calls.role.runs_calls().then(|| trial(&sandbox));
    let watching = Stop::default();
    let Decider { engine: policy, mut watchers } = policy::open(settings, &watching)?;
    let fetcher = Fetcher::system(settings.egress.clone());
    if let Err(error) = &fetcher {
        // Only `http_fetch` needs certificates.
        let hint = "install the authorities of your system: apt install ca-certificates";
        tracing::warn!(%error, hint, "`http_fetch` cannot work");
    }
    let registry = registry(settings)?;
    let db = match &settings.store {
        Some(_) => bus_database(&settings.data)?,
        None => database(&settings.data)?,
    };
    let (mut telemetry, exporter) = telemetry::open(settings, &db, &policy)?;
    let (store, postgres) = store(settings, &db).await?;
    let ledger = ledger::open(&settings.data, store.clone(), &settings.heads).await?;
    let registered = &mut telemetry.registry;
    let heads = HeadKeeper::start(&settings.heads, &settings.data, &store, registered)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let bus = OpenBus::open(settings, db.clone(), ledger.origin(), clock.clone()).await?;
    let broker = bus.dependency(&mut telemetry.registry);
    let told = webhooks(settings, &bus.shared(), &clock, &mut telemetry).await?;
    let counts = IntakeMetrics::default();
    if settings.intake.is_some() {
        counts.register(&mut telemetry.registry);
    }
    let redis = redis(settings, &store, &mut telemetry);
    let secret_keys =
        secret_keys::open(&settings.data, settings.secret_keys.as_ref(), settings.store.is_some());
    let talked = ConversationMetrics::default();
    if settings.models.profiles.is_some() {
        talked.register(&mut telemetry.registry);
    }
    let docker = settings.docker.clone().map(Docker::new);
    let planned = PlanMetrics::default();
    planned.register(&mut telemetry.registry);
    let models = models(settings);
    let llm = llm(settings);
    if let Some(trial) = trial {
        trial.await?;
    }
    let revision = policy.revision();
    let parts = Parts {
        store,
        ledger,
        bus: bus.shared(),
        policy,
        registry: registry.clone(),
        sandbox: Arc::new(sandbox.clone()),
        containers: docker.clone().map(|docker| Arc::new(docker) as Arc<dyn Backend>),
        fetcher,
        models: models.clone(),
        llm,
        secret_keys,
        telemetry,
        clock,
        settings: settings.calls.clone(),
    };
    let engine = Engine::start(parts).await;
    let engine = engine.map_err(|error| Failure::because("cannot start the engine", &error))?;
    if let Some(broker) = broker {
        engine.watch_dependency(broker);
    }
    if let Some(redis) = &redis {
        engine.access().share_rates(Arc::new(redis.clone()));
        engine.watch_dependency(Dependency { name: "redis", is_up: redis.is_up() });
    }
    if let Some(docker) = &docker {
        let (asked, is_up) = (watching.asked(), docker.is_up());
        engine.watch_dependency(Dependency { name: "docker", is_up });
        let docker = docker.clone();
        watchers.push(tokio::spawn(async move { docker.watch(asked).await }));
    }
    let asked = watching.asked();
    watchers.push(tokio::spawn(async move { registry.watch(asked).await }));
    let open = |config| Intake::open(config, bus.shared(), engine.clone(), counts);
    let accepts = settings.calls.role != ProcessRole::Worker;
    let intake = settings.intake.clone().filter(|_| accepts).map(open);
    let conversations = conversations(settings, &engine, bus.shared(), models, talked)?;
    let plans = Plans::start(ringfence_plans::Parts {
        engine: engine.clone(),
        metrics: planned,
        config: ringfence_plans::Config::default(),
    });
    Ok(Opened {
        engine,
        policy: revision,
        db,
        bus,
        sandbox,
        docker,
        exporter,
        watchers,
        watching,
        webhooks: told,
        intake,
        conversations,
        plans,
        redis,
        heads,
        postgres,
    })
}

/// The store, and the same if it is in PostgreSQL.
async fn store(
    settings: &Settings,
    db: &Db,
) -> Result<(Arc<dyn Store>, Option<Arc<PostgresStore>>), Failure> {
    let Some(url) = &settings.store else {
        let store = SqliteStore::open(db.clone(), &settings.blobs.directory(&settings.data)).await;
        let store = store.map_err(|error| Failure::because("cannot open the store", &error))?;
        return Ok((Arc::new(store), None));
    };
    let store = postgres(url, settings).await?;
    if *store.grown().borrow() == 0 {
        let message = format!("the database {url} has no ledger yet");
        return Err(Failure::new(message).hint(MIGRATE));
    }
    Ok((store.clone(), Some(store)))
}

/// Next step where a database is not ready for a server.
const MIGRATE: &str = "prepare it, with the same --store and --data: ringfence migrate";

/// Opens a store in PostgreSQL.
pub(super) async fn postgres(
    url: &PostgresUrl,
    settings: &Settings,
) -> Result<Arc<PostgresStore>, Failure> {
    let large = settings.blobs.open().await?;
    let directory = settings.blobs.directory(&settings.data);
    match PostgresStore::open_with(url.clone(), large, &directory).await {
        Ok(store) => Ok(Arc::new(store)),
        Err(error) => Err(cannot_open(url, &error)),
    }
}

/// Failure to open a database, with the next step.
pub(super) fn cannot_open(url: &PostgresUrl, error: &StoreError) -> Failure {
    let failure = Failure::because(format!("cannot use the database {url}"), error);
    match error {
        StoreError::Schema { found, needed } if found < needed => failure.hint(MIGRATE),
        StoreError::Schema { .. } => failure.hint("install the version that last migrated it"),
        _ => failure,
    }
}

/// File of the embedded bus of a server whose store is in PostgreSQL.
fn bus_database(data: &Path) -> Result<Db, Failure> {
    open_file(&data.join("bus.db"))
}

/// Starts the webhooks before anything is published, so that a first start misses no event.
async fn webhooks(
    settings: &Settings,
    bus: &Arc<dyn Bus>,
    clock: &Arc<dyn Clock>,
    telemetry: &mut Telemetry,
) -> Result<Option<Webhooks>, Failure> {
    let Some(config) = settings.webhooks.clone() else { return Ok(None) };
    let counts = Counts::default();
    counts.register(&mut telemetry.registry);
    let started = Webhooks::start(config, bus, clock.clone(), counts).await;
    started.map(Some).map_err(|error| Failure::because("cannot tell others of events", &error))
}

/// Connects to Redis, if the settings name one.
fn redis(settings: &Settings, store: &Arc<dyn Store>, telemetry: &mut Telemetry) -> Option<Redis> {
    let config = settings.redis.as_ref()?;
    let metrics = RedisMetrics::default();
    metrics.register(&mut telemetry.registry);
    Some(Redis::start(config, store.clone(), metrics))
}

fn sandbox(settings: &Settings) -> Native {
    let wanted = &settings.sandbox;
    let pools = settings.calls.role.runs_calls().then(|| wanted.pools.clone());
    let config = SandboxConfig {
        most_sandboxes: wanted.most,
        pools,
        watchdog: wanted.watchdog,
        may_miss: wanted.may_miss.clone(),
        ..SandboxConfig::service()
    };
    let sandbox = Native::open(config);
    let is_worker = settings.calls.role.runs_calls();
    for language in wanted.prepare.iter().filter(|_| is_worker) {
        sandbox.prepare(&Root::Host, *language);
    }
    sandbox
}

/// Starts a trial of the sandbox; the future waits for its end. Without sandboxes there is nothing
/// to serve.
fn trial(sandbox: &Native) -> impl Future<Output = Result<(), Failure>> + use<> {
    let native = sandbox.clone();
    let trying = tokio::spawn(async move { native.trial().await });
    let native = sandbox.clone();
    async move {
        let tried =
            trying.await.map_err(|error| Failure::because("the trial broke off", &error))?;
        tried
            .map_err(|error| Failure::from(error).context("cannot make sandboxes on this host"))?;
        if !native.missing_layers().is_empty() {
            let missing = layer_names(native.missing_layers());
            tracing::warn!(missing, "sandboxes lack layers, as `sandbox.allow_missing` allows");
        }
        Ok(())
    }
}

/// Models of the server. Nothing is loaded or fetched yet.
fn models(settings: &Settings) -> Embedder {
    let library = Library::new(settings.models.folder.clone());
    Embedder::new(library, settings.models.embedder.clone())
}

/// Model servers that the settings name.
fn llm(settings: &Settings) -> Llm {
    let profiles = settings.models.profiles.clone().unwrap_or_default();
    Llm::new(GuardedClient::configured(Roots::System), profiles, LlmConfig::default())
}

/// Conversations, if the settings name model profiles. Messages that come through no door are made with the
/// keys of the door for requests.
fn conversations(
    settings: &Settings,
    engine: &Engine,
    bus: Arc<dyn Bus>,
    models: Embedder,
    metrics: ConversationMetrics,
) -> Result<Option<Conversations>, Failure> {
    if settings.models.profiles.is_none() {
        return Ok(None);
    }
    let mut config = ringfence_conversation::Config::default();
    if let Some(intake) = &settings.intake {
        config.key = intake.key;
        config.tenants = intake.tenants.clone();
    }
    let analyser = Analyser::new(models).map_err(|error| Failure::of(&error))?;
    let engine = engine.clone();
    let parts = ringfence_conversation::Parts { engine, bus, analyser, metrics, config };
    Ok(Some(Conversations::start(parts)))
}

fn registry(settings: &Settings) -> Result<Registry, Failure> {
    for folder in settings.skills.iter().filter(|folder| !folder.exists()) {
        tracing::warn!(folder = %folder.display(), "skills folder does not exist yet");
    }
    let config = RegistryConfig {
        builtins: builtin_tools_with(SystemClock.now(), &settings.calls.discovery),
        folders: settings.skills.clone(),
        embedded: SKILLS.to_vec(),
        uploads: settings.data.join("skills"),
        clock: Arc::new(SystemClock),
    };
    Registry::open(config).map_err(|error| Failure::of(&error))
}

pub(crate) fn database(data: &Path) -> Result<Db, Failure> {
    // Before anything is created: opening an empty store removes blobs that no row names.
    ledger::check_not_lost(data)?;
    open_database(data)
}

/// Opens or creates the database of a directory.
pub(crate) fn open_database(data: &Path) -> Result<Db, Failure> {
    open_file(&data.join("ringfence.db"))
}

fn open_file(path: &Path) -> Result<Db, Failure> {
    // Small caches: the kernel's page cache is close behind, and shared.
    let options =
        DbOptions { writer_cache_kib: 4 << 10, reader_cache_kib: 1 << 10, ..DbOptions::default() };
    Db::open(path, &options).map_err(|error| {
        let is_taken = matches!(error, ringfence_sqlite::Error::InUse(_));
        let failure = Failure::because("cannot open the database", &error);
        match is_taken {
            true => failure.hint("end the other server, or choose another directory with --data"),
            false => failure,
        }
    })
}

/// Time to wait for a watcher, which may hang in a folder.
const WATCHER_GRACE: Duration = Duration::from_secs(1);

impl Opened {
    /// Closes the door for requests on the bus.
    pub(super) async fn close_intake(&self) {
        if let Some(intake) = &self.intake {
            intake.close().await;
        }
        if let Some(conversations) = &self.conversations {
            conversations.close().await;
        }
        self.plans.close().await;
    }

    /// Closes everything under the engine, which has stopped.
    pub(crate) async fn close(self) {
        self.watching.ask();
        // The watchers' results no longer matter.
        for watcher in self.watchers {
            let _ = tokio::time::timeout(WATCHER_GRACE, watcher).await;
        }
        drop(self.engine);
        if let Some(docker) = &self.docker {
            docker.close().await;
        }
        if let Some(webhooks) = &self.webhooks {
            webhooks.stop().await;
        }
        let traces = async {
            if let Some(exporter) = self.exporter {
                exporter.close(telemetry::TRACES_TIMEOUT).await;
            }
        };
        tokio::join!(self.sandbox.close(), traces, self.heads.close());
        if let Some(redis) = &self.redis {
            redis.stop().await;
        }
        if let Some(store) = &self.postgres {
            store.close().await;
        }
        self.bus.close().await;
        let db = self.db.clone();
        // Joins the threads of the database.
        let _ = tokio::task::spawn_blocking(move || db.close()).await;
    }
}
