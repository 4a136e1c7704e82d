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
use ringfence_edge::{Door, Edge};

pub use self::config::{ApiConfig, Setting};
use self::shared::Shared;

/// The REST door. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Api(Arc<Shared>);

impl Api {
    /// The REST door behind this edge.
    pub fn new(edge: Edge, config: ApiConfig) -> Self {
        Self(Arc::new(Shared::new(edge, config)))
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
}

/// Path prefixes that metrics count separately.
const AREAS: [&str; 30] = [
    "/v1/calls",
    "/v1/tools",
    "/v1/tool",
    "/v1/keys",
    "/v1/events",
    "/v1/canvas",
    "/v1/sandboxes",
    "/v1/holds",
    "/v1/requeue",
    "/v1/approvals",
    "/v1/audit",
    "/v1/ledger",
    "/v1/sessions",
    "/v1/evaluate",
    "/v1/config",
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
    fn the_documents_are_paths_of_the_document() {
        let paths = openapi::paths();
        assert!(["/docs", "/openapi.json"].iter().all(|path| paths.iter().any(|own| own == path)));
    }
}
