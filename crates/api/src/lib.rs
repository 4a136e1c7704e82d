//! The REST door: routes, views and the OpenAPI document over the engine's use cases.
//!
//! A door only translates: a body into a request, a call into an answer. The common parts of all
//! doors (listener, identity, limits, problems, event streams) are in `edge`; scopes are in
//! `access`; the decision to run is the engine's.
//!
//! Invariant: the id of another tenant is answered exactly like a missing one.

mod base64;
mod config;
mod docs;
mod metrics;
mod openapi;
mod routes;
mod shared;
mod views;

use std::sync::Arc;

use axum::Router;
use http::Method;
use ringfence_conversation::Conversations;
use ringfence_edge::{Door, Edge, OwnedRule};
use ringfence_engine::Owned;
use ringfence_plans::Plans;

pub use self::config::{ApiConfig, Setting};
use self::shared::Shared;

/// The REST door. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Api(Arc<Shared>);

impl Api {
    /// The REST door behind this edge.
    pub fn new(edge: Edge, config: ApiConfig) -> Self {
        Self::with_workers(edge, config, None, None)
    }

    /// The REST door with conversations, and with plans that this process drives.
    pub fn with_workers(
        edge: Edge,
        config: ApiConfig,
        conversations: Option<Conversations>,
        plans: Option<Plans>,
    ) -> Self {
        Self(Arc::new(Shared::new(edge, config, conversations, plans)))
    }

    /// The OpenAPI document as JSON.
    pub fn openapi() -> String {
        openapi::text()
    }
}

/// Paths that need no key.
const OPEN_PATHS: [&str; 8] = [
    "/",
    "/health",
    "/livez",
    "/healthz",
    "/readyz",
    "/docs",
    "/openapi.json",
    "/.well-known/authzen-configuration",
];

impl Door for Api {
    fn routes(&self) -> Router {
        routes::router(self.0.clone())
    }

    fn open_paths(&self) -> Vec<&'static str> {
        let mut open = OPEN_PATHS.to_vec();
        open.extend(self.0.config.open_metrics.then_some("/metrics"));
        open
    }

    fn route_patterns(&self) -> Vec<String> {
        openapi::paths()
    }

    fn areas(&self) -> &'static [&'static str] {
        &AREAS
    }

    fn owned(&self) -> Option<OwnedRule> {
        Some(owned)
    }
}

/// Cancelling a call, its output, deciding about it if it is held, and everything about a session sandbox.
fn owned(method: &Method, path: &str) -> Option<Owned> {
    let parts: Vec<&str> = path.strip_prefix("/v1/")?.split('/').collect();
    match parts[..] {
        ["calls", id] if method == Method::DELETE => id.parse().ok().map(Owned::Call),
        ["calls", id, "output", _]
        | ["holds" | "requeue", id, "resolve"]
        | ["policy", "requeue", id, "resolve"] => id.parse().ok().map(Owned::Call),
        ["sandboxes"] if method == Method::POST => Some(Owned::NewSandbox),
        ["sandboxes", id, ..] => id.parse().ok().map(Owned::Sandbox),
        _ => None,
    }
}

/// Path prefixes that metrics count separately.
const AREAS: [&str; 42] = [
    "/v1/calls",
    "/v1/tools",
    "/v1/tool",
    "/v1/discovery",
    "/v1/plans",
    "/v1/keys",
    "/v1/secrets",
    "/v1/events",
    "/v1/canvas",
    "/v1/sandboxes",
    "/v1/holds",
    "/v1/requeue",
    "/v1/approvals",
    "/v1/artifacts",
    "/v1/lineage",
    "/api/v1/artifacts",
    "/v1/audit",
    "/v1/ledger",
    "/v1/sessions",
    "/v1/session",
    "/v1/model-profiles",
    "/v1/llm",
    "/v1/mcp",
    "/v1/retention",
    "/v1/evaluate",
    "/v1/config",
    "/v1/processes",
    "/v1/admin",
    "/v1/usage",
    "/v1/budgets",
    "/v1/policies",
    "/v1/policy",
    "/v1/decisions",
    "/access",
    "/.well-known",
    "/skills",
    "/health",
    "/livez",
    "/readyz",
    "/metrics",
    "/docs",
    "/openapi.json",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_of_ours_but_the_root_has_an_area() {
        for path in openapi::paths().iter().filter(|path| *path != "/") {
            assert!(AREAS.iter().any(|area| path.starts_with(area)), "{path}");
        }
    }

    #[test]
    fn requests_about_calls_and_sandboxes_are_for_the_process_that_has_them() {
        let (call, sandbox) = ("0198c6b8-2b44-7d0a-9d3f-0a1b2c3d4e5f", "0".repeat(32));
        let is_call = |method, path: &str| match owned(&method, path) {
            Some(Owned::Call(id)) => id.to_string() == call,
            _ => false,
        };
        assert!(is_call(Method::DELETE, &format!("/v1/calls/{call}")));
        assert!(is_call(Method::GET, &format!("/v1/calls/{call}/output/stdout")));
        assert!(is_call(Method::POST, &format!("/v1/holds/{call}/resolve")));
        for rest in ["", "/exec", "/exec/1/terminal", "/files"] {
            let path = format!("/v1/sandboxes/{sandbox}{rest}");
            assert!(matches!(owned(&Method::GET, &path), Some(Owned::Sandbox(_))), "{path}");
        }
        assert_eq!(owned(&Method::POST, "/v1/sandboxes"), Some(Owned::NewSandbox));
        assert_eq!(owned(&Method::GET, "/v1/sandboxes"), None);
        for path in ["/v1/calls", "/v1/sandboxes/restore", "/v1/calls/x/output/stdout"] {
            assert_eq!(owned(&Method::POST, path), None, "{path}");
        }
        assert_eq!(owned(&Method::GET, &format!("/v1/calls/{call}")), None, "its record is enough");
    }

    #[test]
    fn the_documents_are_paths_of_the_document() {
        let paths = openapi::paths();
        assert!(["/docs", "/openapi.json"].iter().all(|path| paths.iter().any(|own| own == path)));
    }
}
