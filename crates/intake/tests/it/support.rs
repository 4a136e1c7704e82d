//! A whole engine on the embedded bus in a temporary directory.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ringfence_access::KeyRequest;
use ringfence_bus::{Bus, Group, Member, Message, SqliteBus};
use ringfence_egress::{Fetcher, GuardedClient, Roots};
use ringfence_engine::{
    Engine, Ledger, Parts, SecretKey, SecretKeys, Settings, Telemetry, builtin_tools,
};
use ringfence_intake::{Config, Intake, Metrics, REQUESTS, RESULTS, schema_problems};
use ringfence_ledger::SigningKey;
use ringfence_llm::{Llm, LlmConfig, Profiles};
use ringfence_models::{Embedder, EmbedderConfig, Library};
use ringfence_policy::{Bundle, Rego};
use ringfence_registry::Registry;
use ringfence_sandbox::Native;
use ringfence_sqlite::Db;
use ringfence_store::{SqliteStore, Store};
use ringfence_types::{Clock, KeyId, Principal, Scope, Timestamp};
use serde_json::Value;

/// Time limit for a message that must come.
const NEXT_TIMEOUT: Duration = Duration::from_secs(60);

/// The machine's clock.
#[derive(Debug)]
struct Wall;

impl Clock for Wall {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap())
    }
}

/// Engine, bus and open door.
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) bus: Arc<dyn Bus>,
    /// Key of tenant `public`.
    pub(crate) key: KeyId,
    intake: Intake,
    results: Box<dyn Member>,
    _folder: tempfile::TempDir,
}

impl World {
    pub(crate) async fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (engine, bus) = engine(folder.path()).await;
        let request = KeyRequest {
            tenant: "public".parse().unwrap(),
            persona: None,
            person: None,
            label: "door".to_owned(),
            scopes: vec![Scope::Call].into(),
            expires_at: None,
            created_by: None,
        };
        let key = engine.access().create(request).await.unwrap().key.id;
        let topics = vec![RESULTS.to_owned()];
        let group = Group { name: "client".to_owned(), topics, from_oldest: true };
        let results = bus.join(group).await.unwrap();
        let tenants = BTreeMap::from([("public".parse().unwrap(), key)]);
        let group = "tool-executor".to_owned();
        let config = Config { group, key: None, tenants, accepting: 4 };
        let intake = Intake::open(config, bus.clone(), engine.clone(), Metrics::default());
        Self { engine, bus, key, intake, results, _folder: folder }
    }

    /// A member of a group of its own.
    pub(crate) async fn member(&self, group: &str, topic: &str) -> Box<dyn Member> {
        let topics = vec![topic.to_owned()];
        let group = Group { name: group.to_owned(), topics, from_oldest: true };
        self.bus.join(group).await.unwrap()
    }

    /// Publishes a request.
    pub(crate) async fn send(&self, payload: &Value) {
        self.send_raw(payload.to_string().as_bytes()).await;
    }

    pub(crate) async fn send_raw(&self, payload: &[u8]) {
        let message = Message {
            topic: REQUESTS.to_owned(),
            key: Some(b"k".to_vec()),
            headers: Vec::new(),
            payload: payload.to_vec(),
        };
        self.bus.publish(vec![message]).await.unwrap();
    }

    /// The next result. Every result fits its schema.
    pub(crate) async fn result(&mut self) -> Value {
        let next = tokio::time::timeout(NEXT_TIMEOUT, self.results.next()).await;
        let delivery = next.expect("a result is due").unwrap();
        self.results.commit(&delivery).await.unwrap();
        let result = serde_json::from_slice(&delivery.message.payload).unwrap();
        assert_eq!(schema_problems("tool_result.json", &result), [""; 0]);
        result
    }

    /// Causes of dead letters, once there are so many.
    pub(crate) async fn dead(&self, count: usize) -> Vec<(String, Vec<u8>)> {
        let found = async {
            loop {
                let dead = self.engine.dead_letters(REQUESTS, 0, 100).await.unwrap();
                if dead.len() >= count {
                    return dead;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let dead = tokio::time::timeout(NEXT_TIMEOUT, found).await.expect("dead letters are due");
        dead.into_iter().map(|dead| (dead.cause, dead.message.payload)).collect()
    }

    pub(crate) async fn close(self) {
        self.intake.close().await;
        self.engine.stop(Duration::from_secs(5)).await;
    }
}

/// The next message of a member.
pub(crate) async fn next(member: &mut Box<dyn Member>) -> Value {
    let next = tokio::time::timeout(NEXT_TIMEOUT, member.next()).await;
    let delivery = next.expect("a message is due").unwrap();
    member.commit(&delivery).await.unwrap();
    serde_json::from_slice(&delivery.message.payload).unwrap()
}

/// A principal that may revoke any key.
pub(crate) fn operator() -> Principal {
    Principal {
        key: KeyId(uuid::Uuid::from_u128(1)),
        tenant: "default".parse().unwrap(),
        persona: None,
        scopes: Scope::ALL.to_vec().into(),
        label: "operator".to_owned(),
        person: None,
    }
}

async fn engine(folder: &std::path::Path) -> (Engine, Arc<dyn Bus>) {
    let clock: Arc<dyn Clock> = Arc::new(Wall);
    let options = ringfence_sqlite::Options::default();
    let db = Db::open(&folder.join("state.db"), &options).unwrap();
    let store = SqliteStore::open(db.clone(), &folder.join("blobs")).await.unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let key = SigningKey::from_seed([5; 32]);
    let ledger = Ledger::open(store.clone(), key, clock.now()).await.unwrap();
    let bus = SqliteBus::open(db, ringfence_bus::Options::default(), clock.clone()).await.unwrap();
    let bus: Arc<dyn Bus> = Arc::new(bus);
    let registry = ringfence_registry::Config {
        builtins: builtin_tools(clock.now()),
        folders: Vec::new(),
        embedded: Vec::new(),
        uploads: folder.join("uploads"),
        clock: clock.clone(),
    };
    // No tool of these tests needs a sandbox. The default would start this very test as its spawner.
    let sandbox = ringfence_sandbox::Config {
        exe: "/bin/false".into(),
        ..ringfence_sandbox::Config::one_shot()
    };
    let parts = Parts {
        store,
        ledger,
        bus: bus.clone(),
        policy: Arc::new(Rego::load(&Bundle::built_in()).unwrap()),
        registry: Registry::open(registry).unwrap(),
        sandbox: Arc::new(Native::open(sandbox)),
        containers: None,
        fetcher: Fetcher::system(ringfence_egress::Options::default()),
        models: Embedder::new(Library::new(folder.join("models")), EmbedderConfig::default()),
        llm: Llm::new(
            GuardedClient::configured(Roots::System),
            Profiles::default(),
            LlmConfig::default(),
        ),
        secret_keys: Arc::new(NoKeys),
        telemetry: Telemetry::default(),
        clock,
        settings: Settings::for_processors(2, folder.join("work")),
    };
    (Engine::start(parts).await.unwrap(), bus)
}

/// No tool of these tests has a secret.
#[derive(Debug)]
struct NoKeys;

impl SecretKeys for NoKeys {
    fn load(&self) -> std::io::Result<Vec<SecretKey>> {
        Ok(Vec::new())
    }

    fn replace(&self, _: &[SecretKey]) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    fn makes_first(&self) -> bool {
        false
    }
}
