//! The one assembly of a running product for tests, examples and measurements.
//!
//! Everything is real and in this process: database, ledger, bus, policy, registry, sandboxes, engine,
//! and on request an HTTP listener on a port of its own. The product's own assembly, from its settings,
//! is `serve::parts` in the command line; a test of that starts the binary.

use std::{
    fmt, fs,
    net::SocketAddr,
    ops::Deref,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result};
use ringfence_access::KeyRequest;
use ringfence_bus::SqliteBus;
use ringfence_edge::{Door, Edge, Server};
use ringfence_egress::{Fetcher, GuardedClient, Roots};
use ringfence_engine::{
    Engine, Ledger, Parts, SecretKey, SecretKeys, Settings, Telemetry, builtin_tools_with,
};
use ringfence_ledger::SigningKey;
use ringfence_llm::{Llm, LlmConfig, Profiles};
use ringfence_models::{Embedder, EmbedderConfig, Library};
use ringfence_policy::{Bundle, Rego};
use ringfence_registry::Registry;
use ringfence_sandbox::Native;
use ringfence_sqlite::Db;
use ringfence_store::{SqliteStore, Store};
use ringfence_types::{Clock, Scope, Scopes};
use tempfile::TempDir;
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

use crate::TestClock;

/// Seed of the ledger's key: a second plane in the same folder has the same key.
const LEDGER_SEED: [u8; 32] = [5; 32];

/// Skill folder: its name, and path and content of its files.
pub type SkillFolder = (&'static str, Vec<(&'static str, &'static str)>);

/// Properties of a plane in which tests differ.
pub struct PlaneConfig {
    /// Folder for its state, which outlives it. Without one it has a temporary folder.
    pub folder: Option<PathBuf>,
    /// Policy in force. Without one it has the built-in rules.
    pub policy: Option<Arc<dyn ringfence_policy::Engine>>,
    /// Clock: that of the machine.
    pub clock: Arc<dyn Clock>,
    /// Way to make sandboxes. Without one no sandbox can be made, which inline tools never need.
    pub sandbox: Option<ringfence_sandbox::Config>,
    /// Skill folders that it finds when it starts.
    pub skills: Vec<SkillFolder>,
    /// Folder of the weights of models. Without one there are none.
    pub models: Option<PathBuf>,
    /// Model servers of others. Without profiles there are none.
    pub profiles: Profiles,
    /// Addresses that tools may fetch from.
    pub egress: ringfence_egress::Options,
    /// Changes to the usual settings for two processors.
    pub tune: Box<dyn FnOnce(&mut Settings) + Send>,
}

impl fmt::Debug for PlaneConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlaneConfig").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Default for PlaneConfig {
    fn default() -> Self {
        Self {
            folder: None,
            policy: None,
            clock: Arc::new(TestClock::system()),
            sandbox: None,
            skills: Vec::new(),
            models: None,
            profiles: Profiles::default(),
            egress: ringfence_egress::Options::default(),
            tune: Box::new(|_| {}),
        }
    }
}

impl PlaneConfig {
    /// Configuration with sandboxes that this binary makes, as a server makes them.
    pub fn sandboxed(binary: PathBuf) -> Self {
        let service = ringfence_sandbox::Config::service();
        let sandbox = Some(ringfence_sandbox::Config { exe: binary, ..service });
        Self { sandbox, ..Self::default() }
    }
}

/// Policy of these rules.
///
/// # Panics
///
/// If the rules do not compile.
pub fn rules(bundle: &Bundle) -> Arc<dyn ringfence_policy::Engine> {
    Arc::new(Rego::load(bundle).expect("rules of a test compile"))
}

/// Running product: an engine with its parts. It ends, and its temporary folder goes, when it is dropped.
#[derive(Debug)]
pub struct Plane {
    /// Engine. A plane can be used as one.
    pub engine: Engine,
    /// Store behind the engine.
    pub store: Arc<dyn Store>,
    /// Ledger of the same store.
    pub ledger: Ledger,
    /// Bus of the engine.
    pub bus: Arc<dyn ringfence_bus::Bus>,
    /// Tools.
    pub registry: Registry,
    /// Database of the store and of the bus.
    pub db: Db,
    folder: PathBuf,
    http: Option<Http>,
    // Dropped last: everything above has files in it.
    _temporary: Option<TempDir>,
}

/// Listener, which ends when its sender is dropped.
#[derive(Debug)]
struct Http {
    stop: oneshot::Sender<()>,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Deref for Plane {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl Plane {
    /// Starts an engine, without a listener.
    pub async fn start(config: PlaneConfig) -> Result<Self> {
        let (folder, temporary) = match &config.folder {
            Some(folder) => (folder.clone(), None),
            None => {
                let temporary = tempfile::Builder::new().prefix("ringfence-plane-").tempdir()?;
                (temporary.path().to_owned(), Some(temporary))
            }
        };
        let db = Db::open(&folder.join("state.db"), &ringfence_sqlite::Options::default())?;
        let parts = parts(&folder, &db, config).await?;
        let (store, ledger) = (parts.store.clone(), parts.ledger.clone());
        let (registry, bus) = (parts.registry.clone(), parts.bus.clone());
        let engine = Engine::start(parts).await.context("the engine does not start")?;
        Ok(Self {
            engine,
            store,
            ledger,
            bus,
            registry,
            db,
            folder,
            http: None,
            _temporary: temporary,
        })
    }

    /// Serves doors on a free port of loopback, until the plane is stopped or dropped.
    pub async fn listen(&mut self, edge: Edge, doors: &[&dyn Door]) -> Result<SocketAddr> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let serving = Server::new(edge, doors).serve(listener, async {
            // A sender that is dropped says the same.
            let _ = stopped.await;
        });
        self.http = Some(Http { stop, serving: tokio::spawn(serving) });
        Ok(address)
    }

    /// Folder of its state.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Folder in which it looks for skills.
    pub fn skills(&self) -> PathBuf {
        self.folder.join("skills")
    }

    /// Secret of a new key.
    pub async fn key(&self, tenant: &str, scopes: &[Scope]) -> Result<String> {
        let request = KeyRequest {
            tenant: tenant.parse()?,
            persona: None,
            person: None,
            label: "test".to_owned(),
            scopes: Scopes::from(scopes.to_vec()),
            expires_at: None,
            created_by: None,
        };
        let made = self.engine.access().create(request).await?;
        Ok(made.secret.reveal().to_owned())
    }

    /// Stops listener, calls and sandboxes in good order. The store can still be read.
    pub async fn shut_down(&mut self, grace: Duration) -> Result<()> {
        if let Some(Http { stop, serving }) = self.http.take() {
            drop(stop);
            serving.await??;
        }
        self.engine.stop(grace).await;
        self.engine.close_sandboxes().await;
        Ok(())
    }

    /// Stops everything in good order and closes the database, so that another plane can open its folder.
    pub async fn close(mut self, grace: Duration) -> Result<()> {
        self.shut_down(grace).await?;
        let db = self.db.clone();
        // Joins the threads of the database.
        tokio::task::spawn_blocking(move || db.close()).await?;
        Ok(())
    }
}

async fn parts(folder: &Path, db: &Db, config: PlaneConfig) -> Result<Parts> {
    let clock = config.clock;
    let store = SqliteStore::open(db.clone(), &folder.join("blobs")).await?;
    let store: Arc<dyn Store> = Arc::new(store);
    let key = SigningKey::from_seed(LEDGER_SEED);
    let ledger = Ledger::open(store.clone(), key, clock.now()).await?;
    let bus = SqliteBus::open(db.clone(), ringfence_bus::Options::default(), clock.clone()).await?;
    write_skills(&folder.join("skills"), &config.skills)?;
    let mut settings = Settings::for_processors(2, folder.join("work"));
    (config.tune)(&mut settings);
    let registry = ringfence_registry::Config {
        builtins: builtin_tools_with(clock.now(), &settings.discovery),
        folders: vec![folder.join("skills")],
        embedded: Vec::new(),
        uploads: folder.join("uploads"),
        clock: clock.clone(),
    };
    // The usual binary is this process's own, and a test is no spawner.
    let sandbox = config.sandbox.unwrap_or_else(|| ringfence_sandbox::Config {
        exe: folder.join("no-binary"),
        ..ringfence_sandbox::Config::one_shot()
    });
    let models = config.models.unwrap_or_else(|| folder.join("models"));
    Ok(Parts {
        store,
        ledger,
        bus: Arc::new(bus),
        policy: config.policy.unwrap_or_else(|| rules(&Bundle::built_in())),
        registry: Registry::open(registry)?,
        sandbox: Arc::new(Native::open(sandbox)),
        containers: None,
        fetcher: Fetcher::system(config.egress),
        models: Embedder::new(Library::new(models), EmbedderConfig::default()),
        llm: Llm::new(
            GuardedClient::configured(Roots::System),
            config.profiles,
            LlmConfig::default(),
        ),
        secret_keys: Arc::new(MemoryKeys::default()),
        telemetry: Telemetry::default(),
        clock,
        settings,
    })
}

/// Keys for secrets that last as long as the plane.
#[derive(Debug, Default)]
struct MemoryKeys(std::sync::Mutex<Vec<SecretKey>>);

impl SecretKeys for MemoryKeys {
    fn load(&self) -> std::io::Result<Vec<SecretKey>> {
        Ok(self.0.lock().expect("no panic here").clone())
    }

    fn replace(&self, keys: &[SecretKey]) -> std::io::Result<()> {
        *self.0.lock().expect("no panic here") = keys.to_vec();
        Ok(())
    }

    fn makes_first(&self) -> bool {
        true
    }
}

fn write_skills(folder: &Path, skills: &[SkillFolder]) -> Result<()> {
    for (name, files) in skills {
        for (path, content) in files {
            let path = folder.join(name).join(path);
            fs::create_dir_all(path.parent().context("a file has a folder")?)?;
            fs::write(path, content)?;
        }
    }
    Ok(())
}
