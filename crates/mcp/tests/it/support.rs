//! A whole server in a temporary directory, and a client that speaks JSON-RPC.
#![expect(clippy::disallowed_methods, reason = "tests have no other way to be told")]

use std::{net::SocketAddr, ops::Deref, path::PathBuf, time::Duration};

use ringfence_edge::{Edge, EdgeConfig};
use ringfence_engine::{Action, Resolution, Resolved, TermsRequest};
use ringfence_mcp::{Mcp, McpConfig};
use ringfence_policy::Bundle;
use ringfence_testkit::{Plane, PlaneConfig, rules};
use ringfence_types::{Principal, Scope};
use serde_json::{Value, json};

pub(crate) const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// Every call waits for a person, but those whose text is `free`; `http_fetch` is denied.
pub(crate) const ASK: &str = r#"
package ringfence

default decision := {"decision": "hold", "reasons": [{"rule": "ask", "message": "ask a person"}]}

decision := {"decision": "deny", "reasons": [{"rule": "no_net", "message": "nothing is fetched"}]} if {
    input.tool.name == "http_fetch"
} else := {"decision": "allow", "reasons": []} if {
    input.approval != null
} else := {"decision": "allow", "reasons": []} if {
    input.args.text == "free"
}
"#;

pub(crate) struct Server {
    plane: Plane,
    pub(crate) address: SocketAddr,
    client: reqwest::Client,
}

impl Deref for Server {
    type Target = Plane;

    fn deref(&self) -> &Plane {
        &self.plane
    }
}

/// The binary that makes sandboxes.
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

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with(PlaneConfig::default(), McpConfig::default()).await
    }

    pub(crate) async fn asking() -> Self {
        let bundle = Bundle::from_files([("ask.rego", ASK)]).unwrap();
        let config = McpConfig { hold_wait: Duration::ZERO, ..McpConfig::default() };
        Self::with(PlaneConfig { policy: Some(rules(&bundle)), ..PlaneConfig::default() }, config)
            .await
    }

    pub(crate) async fn sandboxed() -> Self {
        Self::with(PlaneConfig::sandboxed(binary()), McpConfig::default()).await
    }

    pub(crate) async fn with(plane: PlaneConfig, config: McpConfig) -> Self {
        let mut plane = Plane::start(plane).await.unwrap();
        let edge = Edge::new(plane.engine.clone(), EdgeConfig::default());
        let mcp = Mcp::new(edge.clone(), config);
        let address = plane.listen(edge, &[&mcp]).await.unwrap();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { plane, address, client }
    }

    pub(crate) async fn agent(&self) -> String {
        self.key("acme", &[Scope::Call]).await.unwrap()
    }

    pub(crate) fn post(&self, key: &str, body: impl Into<String>) -> reqwest::RequestBuilder {
        self.client
            .post(format!("http://{}/mcp", self.address))
            .bearer_auth(key)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(body.into())
            .timeout(STEP_TIMEOUT)
    }

    /// A request of revision 2026-07-28, and its answer.
    pub(crate) async fn ask(&self, key: &str, method: &str, params: Value) -> Value {
        self.ask_as(key, method, params, json!({})).await
    }

    /// The same, of a client with these capabilities.
    pub(crate) async fn ask_as(
        &self,
        key: &str,
        method: &str,
        params: Value,
        capabilities: Value,
    ) -> Value {
        let answer = self.stateless(key, method, params, capabilities).send().await.unwrap();
        last_message(&answer.text().await.unwrap())
    }

    pub(crate) fn stateless(
        &self,
        key: &str,
        method: &str,
        mut params: Value,
        capabilities: Value,
    ) -> reqwest::RequestBuilder {
        let name = params["name"].as_str().or(params["uri"].as_str()).or(params["taskId"].as_str());
        let name = name.unwrap_or_default().to_owned();
        let meta = params.as_object_mut().unwrap().entry("_meta").or_insert_with(|| json!({}));
        meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        meta["io.modelcontextprotocol/clientCapabilities"] = capabilities;
        meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "test", "version": "1"});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let request = self
            .post(key, body.to_string())
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", method);
        match method {
            "tools/call" | "resources/read" | "prompts/get" | "tasks/get" | "tasks/cancel" => {
                request.header("mcp-name", name)
            }
            _ => request,
        }
    }

    pub(crate) async fn call(&self, key: &str, tool: &str, args: Value) -> Value {
        let params = json!({"name": tool, "arguments": args});
        let answer = self.ask(key, "tools/call", params).await;
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].clone()
    }

    /// A person approves a held call.
    pub(crate) async fn approve(&self, id: &str) {
        let secret = self.key("acme", &[Scope::Approve, Scope::Read]).await.unwrap();
        let known = self.access().authenticate(secret.as_bytes()).await.unwrap();
        let who: &Principal = &known.principal;
        let action = Action::Approve { terms: TermsRequest::default(), edited: None };
        let resolution = Resolution { action, reason: None, shown: None };
        let resolved = self.resolve(who, id.parse().unwrap(), resolution).await.unwrap();
        assert!(matches!(resolved, Resolved::Runs(_)), "{resolved:?}");
    }

    /// A session of revision 2025-11-25.
    pub(crate) async fn session(&self, key: &str, capabilities: Value) -> String {
        let info = json!({"name": "old", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        let answer = self.post(key, body.to_string()).send().await.unwrap();
        let id = answer.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let text = answer.text().await.unwrap();
        assert_eq!(last_message(&text)["result"]["protocolVersion"], "2025-11-25", "{text}");
        let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let told = self.in_session(key, &id, done).send().await.unwrap();
        assert_eq!(told.status(), 202);
        id
    }

    pub(crate) fn in_session(&self, key: &str, id: &str, body: Value) -> reqwest::RequestBuilder {
        let request = self.post(key, body.to_string());
        request.header("mcp-session-id", id).header("mcp-protocol-version", "2025-11-25")
    }
}

/// All messages of an answer, whether it is one or a stream.
pub(crate) fn messages(text: &str) -> Vec<Value> {
    if let Ok(one) = serde_json::from_str(text) {
        return vec![one];
    }
    let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
    data.filter_map(|data| serde_json::from_str(data).ok()).collect()
}

pub(crate) fn last_message(text: &str) -> Value {
    messages(text).pop().unwrap_or_else(|| panic!("no message in `{text}`"))
}

/// Text of a result.
pub(crate) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"))
}

/// Id of the call that a result is about.
pub(crate) fn call_id(result: &Value) -> String {
    result["_meta"]["dev.ringfence/call_id"].as_str().unwrap().to_owned()
}
