//! The HTTP door: REST and server-sent events over the engine.
//!
//! A door translates and does nothing else: identity from a header, a request from a body, an
//! answer from a call. It has no idea of its own of what may run; that is the engine's.
//!
//! Invariants:
//! - every request that is not on a short list of open paths carries a key, and what a handler may
//!   do is in its signature (`auth::May`);
//! - everything a client sends is bounded: header, body, depth, time, number and rate;
//! - an answer that is not a success is a problem of RFC 9457 with a stable code;
//! - a foreign id is answered exactly like a missing one.

mod auth;
mod base64;
mod body;
mod config;
mod connections;
mod docs;
mod edge;
mod exposition;
mod fields;
mod host;
pub mod keys;
mod kinds;
mod metrics;
mod openapi;
mod path;
mod permit;
mod problem;
mod query;
mod refused;
mod reply;
mod routes;
mod serve;
mod shared;
mod sse;
mod stall;
mod template;
mod views;
mod visit;

use std::{io, sync::Arc};

use axum::Router;
use ringfence_engine::Engine;
use tokio::net::TcpListener;

pub use self::config::{ApiConfig, Rate};
use self::{edge::Edge, shared::Shared};

/// The HTTP door. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Api {
    edge: Edge,
}

impl Api {
    /// A door to this engine.
    pub fn new(engine: Engine, config: ApiConfig) -> Self {
        let shared = Arc::new(Shared::new(engine, config));
        let router = routes::router(shared.clone());
        Self { edge: Edge { shared, router } }
    }

    /// The door as a router, for whoever serves it otherwise. It takes requests for loopback
    /// names only, as a server on loopback does.
    pub fn router(&self) -> Router {
        Router::new().fallback_service(self.edge.clone())
    }

    /// Serves until `stop`; then event streams end at once and requests within the grace.
    pub async fn serve(
        self,
        listener: TcpListener,
        stop: impl Future<Output = ()>,
    ) -> io::Result<()> {
        serve::run(self.edge, listener, stop).await
    }

    /// The OpenAPI document as JSON.
    pub fn openapi() -> String {
        openapi::text()
    }
}
