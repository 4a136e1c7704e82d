//! A whole engine in a temporary directory.

use std::{path::Path, sync::Arc, time::Duration};

use ringfence_bus::SqliteBus;
use ringfence_egress::Fetcher;
use ringfence_engine::{CallRequest, Engine, Ledger, Parts, Settings, builtin_tools};
use ringfence_ledger::SigningKey;
use ringfence_policy::{Bundle, Rego};
use ringfence_registry::Registry;
use ringfence_sandbox::Native;
use ringfence_sqlite::Db;
use ringfence_store::{SqliteStore, Store};
use ringfence_types::{Call, Clock, Hold, Json, KeyId, Principal, Scope, State, Timestamp};
use serde_json::{Value, json};

/// The machine's clock.
#[derive(Debug)]
pub(crate) struct Wall;

impl Clock for Wall {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Timestamp::from_micros(
            i64::try_from(since.expect("works here").as_micros()).expect("works here"),
        )
    }
}

/// An engine, and the parts that only tests look into.
#[derive(Debug, Clone)]
pub(crate) struct TestEngine {
    engine: Engine,
    store: Arc<dyn Store>,
    ledger: Ledger,
    registry: Registry,
}

impl TestEngine {
    pub(crate) async fn start(parts: Parts) -> Self {
        let (store, ledger) = (parts.store.clone(), parts.ledger.clone());
        let registry = parts.registry.clone();
        let engine = Engine::start(parts).await.expect("works here");
        Self { engine, store, ledger, registry }
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }
}

impl std::ops::Deref for TestEngine {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

pub(crate) async fn engine(dir: &Path) -> (TestEngine, Db) {
    engine_with(dir, &Bundle::built_in()).await
}

/// Rules that allow everything, so that the way of effectful tools can be walked.
pub(crate) fn allow_all() -> Bundle {
    let rules = "package ringfence\n\ndecision := {\"decision\": \"allow\", \"reasons\": []}\n";
    Bundle::from_files([("allow.rego", rules)]).expect("works here")
}

pub(crate) async fn engine_with(dir: &Path, bundle: &Bundle) -> (TestEngine, Db) {
    let policy = Arc::new(Rego::load(bundle).expect("works here"));
    engine_of(dir, policy, Settings::for_processors(2, dir.join("work"))).await
}

pub(crate) async fn engine_of(
    dir: &Path,
    policy: Arc<dyn ringfence_policy::Engine>,
    settings: Settings,
) -> (TestEngine, Db) {
    assemble(dir, policy, settings, ringfence_egress::Options::default(), Arc::new(Wall)).await
}

/// An engine whose clock the test sets.
pub(crate) async fn engine_at(
    dir: &Path,
    settings: Settings,
    clock: Arc<dyn Clock>,
) -> (TestEngine, Db) {
    let policy = Arc::new(Rego::load(&allow_all()).expect("works here"));
    assemble(dir, policy, settings, ringfence_egress::Options::default(), clock).await
}

/// An engine whose tools may fetch from one address of this machine.
pub(crate) async fn engine_fetching(
    dir: &Path,
    policy: Arc<dyn ringfence_policy::Engine>,
    settings: Settings,
    address: std::net::SocketAddr,
) -> TestEngine {
    let options = ringfence_egress::Options {
        allow_private: vec![address.into()],
        ..ringfence_egress::Options::default()
    };
    assemble(dir, policy, settings, options, Arc::new(Wall)).await.0
}

async fn assemble(
    dir: &Path,
    policy: Arc<dyn ringfence_policy::Engine>,
    settings: Settings,
    fetching: ringfence_egress::Options,
    clock: Arc<dyn Clock>,
) -> (TestEngine, Db) {
    let db =
        Db::open(&dir.join("state.db"), &ringfence_sqlite::Options::default()).expect("works here");
    let store = SqliteStore::open(db.clone(), &dir.join("blobs")).await.expect("works here");
    let store: Arc<dyn Store> = Arc::new(store);
    let key = SigningKey::from_seed([5; 32]);
    let ledger = Ledger::open(store.clone(), key, clock.now()).await.expect("works here");
    let bus = SqliteBus::open(db.clone(), ringfence_bus::Options::default(), clock.clone());
    let registry = ringfence_registry::Config {
        builtins: builtin_tools(clock.now()),
        folders: Vec::new(),
        embedded: Vec::new(),
        uploads: dir.join("uploads"),
        clock: clock.clone(),
    };
    let parts = Parts {
        store,
        ledger,
        bus: Arc::new(bus.await.expect("works here")),
        policy,
        registry: Registry::open(registry).expect("works here"),
        sandbox: Arc::new(Native::open(without_spawner())),
        fetcher: Fetcher::system(fetching),
        telemetry: ringfence_engine::Telemetry::default(),
        clock,
        settings,
    };
    (TestEngine::start(parts).await, db)
}

pub(crate) fn principal(tenant: &str) -> Principal {
    Principal {
        key: KeyId(uuid::Uuid::from_u128(7)),
        tenant: tenant.parse().expect("works here"),
        persona: None,
        scopes: vec![Scope::Call, Scope::Read].into(),
        label: "agent".to_owned(),
        person: None,
    }
}

pub(crate) fn request(tool: &str, args: &Value) -> CallRequest {
    CallRequest::new(tool.parse().expect("works here"), Json::of(args).expect("works here"))
}

pub(crate) fn echo(text: &str) -> CallRequest {
    request("echo", &json!({"text": text}))
}

/// Makes a call and waits for where it comes to stand.
pub(crate) async fn stand(engine: &Engine, who: &Principal, request: CallRequest) -> Arc<Call> {
    let mut ticket = engine.call(who, request).await.expect("works here");
    ticket.wait(Duration::from_secs(30)).await.expect("it is on record")
}

/// No tool of these tests needs a sandbox. The default would start this very test as its spawner.
fn without_spawner() -> ringfence_sandbox::Config {
    ringfence_sandbox::Config { exe: "/bin/false".into(), ..ringfence_sandbox::Config::one_shot() }
}

/// A hold that ends after this.
pub(crate) fn held(lasts: Duration) -> State {
    let now = Wall.now();
    State::Held(Box::new(Hold::new(Vec::new(), now, now.after(lasts), 1)))
}

/// A principal of the tenant that may approve.
pub(crate) fn approver(tenant: &str, number: u128) -> Principal {
    let key = KeyId(uuid::Uuid::from_u128(1_000 + number));
    let (label, scopes) = (format!("boss {number}"), vec![Scope::Approve, Scope::Read].into());
    Principal { key, label, scopes, ..principal(tenant) }
}

/// Rules that can be replaced while they are in force.
#[derive(Debug)]
pub(crate) struct Replaced(std::sync::RwLock<Arc<Rego>>);

impl Replaced {
    pub(crate) fn new(rules: &str) -> Arc<Self> {
        Arc::new(Self(std::sync::RwLock::new(load(rules))))
    }

    pub(crate) fn with(&self, rules: &str) {
        *self.0.write().expect("works here") = load(rules);
    }

    fn now(&self) -> Arc<Rego> {
        self.0.read().expect("works here").clone()
    }
}

fn load(rules: &str) -> Arc<Rego> {
    let bundle = Bundle::from_files([("rules.rego", rules)]).expect("works here");
    Arc::new(Rego::load(&bundle).expect("works here"))
}

#[async_trait::async_trait]
impl ringfence_policy::Engine for Replaced {
    fn name(&self) -> &str {
        "replaced"
    }

    fn revision(&self) -> ringfence_types::Digest {
        self.now().revision()
    }

    async fn evaluate(
        &self,
        input: &ringfence_policy::Input,
    ) -> Result<ringfence_policy::Answer, ringfence_policy::Unavailable> {
        self.now().evaluate(input).await
    }
}
