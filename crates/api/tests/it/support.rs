//! A whole server in a temporary directory, and short ways to say what the tests say often.
#![expect(clippy::disallowed_methods, reason = "tests have no other way to be told, or to tell")]

use std::{future::Future, net::SocketAddr, ops::Deref, path::PathBuf, sync::Once, time::Duration};

use ringfence_access::OPERATOR_TENANT;
use ringfence_api::{Api, ApiConfig};
use ringfence_edge::{Edge, EdgeConfig};
use ringfence_policy::Bundle;
use ringfence_testkit::{Plane, PlaneConfig, SkillFolder, rules};
use ringfence_types::Scope;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Longer than anything takes, even while the machine is busy.
pub(crate) const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// Parts of a server in which tests differ.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) config: EdgeConfig,
    pub(crate) api: ApiConfig,
    pub(crate) plane: PlaneConfig,
}

impl Plan {
    pub(crate) fn with(config: EdgeConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// With sandboxes of the real binary.
    pub(crate) fn sandboxed() -> Self {
        Self { plane: PlaneConfig::sandboxed(binary()), ..Self::default() }
    }

    /// With these rules instead of the built-in ones.
    pub(crate) fn bundle(mut self, bundle: &Bundle) -> Self {
        self.plane.policy = Some(rules(bundle));
        self
    }

    /// With sandboxes made in this way.
    pub(crate) fn sandbox(mut self, config: ringfence_sandbox::Config) -> Self {
        self.plane.sandbox = Some(config);
        self
    }

    /// With these skill folders.
    pub(crate) fn skills(mut self, skills: Vec<SkillFolder>) -> Self {
        self.plane.skills = skills;
        self
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
    plane: Plane,
    pub(crate) address: SocketAddr,
    /// A key of the operator's with every scope.
    pub(crate) admin: String,
    client: reqwest::Client,
}

impl Deref for Server {
    type Target = Plane;

    fn deref(&self) -> &Plane {
        &self.plane
    }
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
        let mut plane = Plane::start(plan.plane).await.unwrap();
        let edge = Edge::new(plane.engine.clone(), plan.config);
        let api = Api::new(edge.clone(), plan.api);
        let address = plane.listen(edge, &[&api]).await.unwrap();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let admin = plane.key(OPERATOR_TENANT, &Scope::ALL).await.unwrap();
        Self { plane, address, admin, client }
    }

    /// A key of a tenant.
    pub(crate) async fn key(&self, tenant: &str, scopes: &[Scope]) -> String {
        self.plane.key(tenant, scopes).await.unwrap()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
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

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        send(with_json(self.request("PUT", path), body)).await
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
        let ending = self.plane.shut_down(Duration::from_secs(1));
        within("the end of the server", ending).await.unwrap();
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
