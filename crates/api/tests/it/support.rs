//! A whole server in a temporary directory, and short ways to say what the tests say often.
#![expect(clippy::disallowed_methods, reason = "tests have no other way to be told, or to tell")]

use std::{
    future::Future,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Once},
    time::Duration,
};

use ringfence_access::{KeyRequest, OPERATOR_TENANT};
use ringfence_api::{Api, ApiConfig};
use ringfence_bus::SqliteBus;
use ringfence_edge::{Edge, EdgeConfig, Server as HttpServer};
use ringfence_egress::Fetcher;
use ringfence_engine::{Engine, Ledger, Parts, SandboxLimits, Settings, builtin_tools};
use ringfence_ledger::SigningKey;
use ringfence_policy::{Bundle, Rego};
use ringfence_registry::Registry;
use ringfence_sandbox::Native;
use ringfence_sqlite::Db;
use ringfence_store::{SqliteStore, Store};
use ringfence_types::{Clock, Scope, Scopes, Timestamp};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};

/// Longer than anything takes, even while the machine is busy.
pub(crate) const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// The machine's clock.
#[derive(Debug)]
struct Wall;

impl Clock for Wall {
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Timestamp::from_micros(i64::try_from(since.unwrap().as_micros()).unwrap())
    }
}

/// Parts of a server in which tests differ.
pub(crate) struct Plan {
    pub(crate) config: EdgeConfig,
    pub(crate) api: ApiConfig,
    pub(crate) bundle: Bundle,
    pub(crate) sandboxes: SandboxLimits,
    /// The binary for sandboxes. Without one no sandbox can be had, which inline tools never need.
    pub(crate) binary: Option<PathBuf>,
    /// Sandbox configuration, instead of the default one with that binary.
    pub(crate) sandbox: Option<ringfence_sandbox::Config>,
    /// Skill folders by name: path and content of their files.
    pub(crate) skills: Vec<(&'static str, Vec<(&'static str, &'static str)>)>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            config: EdgeConfig::default(),
            api: ApiConfig::default(),
            bundle: Bundle::built_in(),
            sandboxes: SandboxLimits::default(),
            binary: None,
            sandbox: None,
            skills: Vec::new(),
        }
    }
}

impl Plan {
    pub(crate) fn with(config: EdgeConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// With sandboxes of the real binary.
    pub(crate) fn sandboxed() -> Self {
        Self { binary: Some(binary()), ..Self::default() }
    }
}

/// The binary under test.
pub(crate) fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("RINGFENCE_BIN") {
        return PathBuf::from(path);
    }
    let this = std::env::current_exe().expect("a running test has a path");
    let built = this.ancestors().nth(2).map(|dir| dir.join("ringfence"));
    match built.filter(|path| path.exists()) {
        Some(path) => path,
        None => panic!("no binary to test: run `cargo build -p ringfence`, or set RINGFENCE_BIN"),
    }
}

/// A running server, with the parts of its engine that only tests look into.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) engine: Engine,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) ledger: Ledger,
    pub(crate) registry: Registry,
    pub(crate) db: Db,
    /// A key of the operator's with every scope.
    pub(crate) admin: String,
    client: reqwest::Client,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<std::io::Result<()>>,
    dir: TempDir,
}

/// An answer, whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) bytes: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.bytes)))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The code of a problem, after checking that it is a complete one.
    pub(crate) fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        let code = problem["code"].as_str().unwrap().to_owned();
        assert_eq!(problem["status"], self.status);
        assert_eq!(problem["type"], format!("/docs#{code}"));
        for member in ["title", "detail", "instance"] {
            assert!(!problem[member].as_str().unwrap().is_empty(), "{member} of {problem}");
        }
        assert_eq!(problem["trace_id"].as_str().unwrap().len(), 32);
        code
    }

    /// Pointers of all faults of a problem.
    pub(crate) fn pointers(&self) -> Vec<String> {
        let errors = self.json()["errors"].as_array().cloned().unwrap_or_default();
        errors.iter().map(|error| error["pointer"].as_str().unwrap().to_owned()).collect()
    }
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::of(Plan::default()).await
    }

    pub(crate) async fn of(plan: Plan) -> Self {
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| {
            let _ = rustls::crypto::ring::default_provider().install_default();
        });
        let dir = tempfile::Builder::new().prefix("ringfence-api-").tempdir().unwrap();
        let (parts, db) = parts(dir.path(), &plan).await;
        let (store, ledger) = (parts.store.clone(), parts.ledger.clone());
        let registry = parts.registry.clone();
        let engine = Engine::start(parts).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let edge = Edge::new(engine.clone(), plan.config);
        let api = Api::new(edge.clone(), plan.api);
        let serving = tokio::spawn(HttpServer::new(edge, &[&api]).serve(listener, async {
            let _ = stopped.await;
        }));
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let admin = key(&engine, OPERATOR_TENANT, &Scope::ALL).await;
        let stop = Some(stop);
        Self { address, engine, store, ledger, registry, db, admin, client, stop, serving, dir }
    }

    /// A key of a tenant.
    pub(crate) async fn key(&self, tenant: &str, scopes: &[Scope]) -> String {
        key(&self.engine, tenant, scopes).await
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn skills(&self) -> PathBuf {
        self.dir.path().join("skills")
    }

    /// A request of the operator's, to be sent with [`send`].
    pub(crate) fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        self.bare(method, path).bearer_auth(&self.admin)
    }

    /// A request without a key.
    pub(crate) fn bare(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method.parse().unwrap(), self.url(path))
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        send(self.request("GET", path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        send(with_json(self.request("POST", path), body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        send(self.request("DELETE", path)).await
    }

    /// Calls `echo` and returns the call.
    pub(crate) async fn echo(&self, text: &str) -> Value {
        let body = json!({"tool": "echo", "args": {"text": text}});
        let answer = self.post("/v1/calls", &body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// Sends bytes as they are and returns everything that comes until the server closes.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // Who is refused early may find the connection closed while it still sends.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ = within("an answer", stream.read_to_end(&mut answer)).await;
        answer
    }

    /// Stops it in good order.
    pub(crate) async fn stop(mut self) {
        let _ = self.stop.take().expect("stopped once").send(());
        within("the end of the server", self.serving).await.unwrap().unwrap();
        within("the end of the engine", self.engine.stop(Duration::from_secs(1))).await;
        self.engine.close_sandboxes().await;
    }
}

pub(crate) fn with_json(request: reqwest::RequestBuilder, body: &Value) -> reqwest::RequestBuilder {
    request.header("content-type", "application/json").body(body.to_string())
}

pub(crate) async fn send(request: reqwest::RequestBuilder) -> Answer {
    let response = within("an answer", request.send()).await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let bytes = within("a body", response.bytes()).await.unwrap().to_vec();
    Answer { status, headers, bytes }
}

/// Waits, but not for ever.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(STEP_TIMEOUT, future).await {
        Ok(value) => value,
        Err(_) => panic!("no {what} within {STEP_TIMEOUT:?}"),
    }
}

async fn parts(dir: &Path, plan: &Plan) -> (Parts, Db) {
    let clock: Arc<dyn Clock> = Arc::new(Wall);
    let db = Db::open(&dir.join("state.db"), &ringfence_sqlite::Options::default()).unwrap();
    let store = SqliteStore::open(db.clone(), &dir.join("blobs")).await.unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let key = SigningKey::from_seed([5; 32]);
    let ledger = Ledger::open(store.clone(), key, clock.now()).await.unwrap();
    let bus = SqliteBus::open(db.clone(), ringfence_bus::Options::default(), clock.clone());
    for (name, files) in &plan.skills {
        for (path, content) in files {
            let path = dir.join("skills").join(name).join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
    }
    let registry = ringfence_registry::Config {
        builtins: builtin_tools(clock.now()),
        folders: vec![dir.join("skills")],
        embedded: Vec::new(),
        uploads: dir.join("uploads"),
        clock: clock.clone(),
    };
    let sandbox = match plan.binary.clone() {
        _ if plan.sandbox.is_some() => plan.sandbox.clone().unwrap(),
        Some(exe) => ringfence_sandbox::Config { exe, ..ringfence_sandbox::Config::service() },
        None => {
            let exe = dir.join("no-binary");
            ringfence_sandbox::Config { exe, ..ringfence_sandbox::Config::one_shot() }
        }
    };
    let parts = Parts {
        store,
        ledger,
        bus: Arc::new(bus.await.unwrap()),
        policy: Arc::new(Rego::load(&plan.bundle).unwrap()),
        registry: Registry::open(registry).unwrap(),
        sandbox: Arc::new(Native::open(sandbox)),
        fetcher: Fetcher::system(ringfence_egress::Options::default()),
        telemetry: ringfence_engine::Telemetry::default(),
        clock,
        settings: Settings {
            sandboxes: plan.sandboxes,
            ..Settings::for_processors(2, dir.join("work"))
        },
    };
    (parts, db)
}

async fn key(engine: &Engine, tenant: &str, scopes: &[Scope]) -> String {
    let request = KeyRequest {
        tenant: tenant.parse().unwrap(),
        persona: None,
        person: None,
        label: "test".to_owned(),
        scopes: Scopes::from(scopes.to_vec()),
        expires_at: None,
        created_by: None,
    };
    let made = engine.access().create(request).await;
    made.unwrap().secret.reveal().to_owned()
}
