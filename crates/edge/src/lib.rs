//! Parts that every HTTP door shares, from the listener to the handler and back.
//!
//! A [`Door`] has routes and views of its own. The [`Server`] puts doors behind one listener, and does
//! before and after every handler what no handler may forget.
//!
//! Contents: `serve` accepts connections (`connections`: which may be closed to make room,
//! `write_timeout`: when a client takes nothing; `tls`: encryption); `server` is the way of one request (`host`,
//! `credentials`, `forward`, `request_trace`, `route_pattern`, `metrics`); the rest is for handlers: [`identity`],
//! [`body`], [`fields`], [`query`], [`path`], [`reply`], [`problem`], [`sse`],
//! [`lineage_svg`].
//!
//! Invariants:
//! - every request that is not on a short list of open paths carries a key, and what a handler may
//!   do is in its signature ([`identity::May`]);
//! - everything a client sends is bounded: header, body, depth, time, number and rate;
//! - an answer that is not a success is a problem of RFC 9457 with a stable code.

pub mod body;
mod config;
mod connections;
mod credentials;
pub mod exposition;
pub mod fields;
mod forward;
mod host;
pub mod identity;
pub mod lineage_svg;
mod metrics;
pub mod path;
pub mod problem;
pub mod problem_codes;
pub mod query;
mod refused;
pub mod reply;
mod request_trace;
mod route_pattern;
mod serve;
mod server;
pub mod sse;
mod tls;
mod write_timeout;

use std::{
    fmt::Debug,
    sync::{Arc, atomic::AtomicBool},
};

use axum::Router;
use http::Method;
use ringfence_access::Access;
use ringfence_engine::{Engine, Owned};
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::metrics::Metrics;
pub use self::{
    config::EdgeConfig,
    credentials::SESSION_COOKIE,
    metrics::append_metrics,
    problem::Problem,
    refused::{DISK_FULL, missing_call, setup_failure},
    server::Server,
    tls::{Tls, TlsError, Validity},
};

/// One door: routes, and what the edge must know about their paths.
pub trait Door: Debug {
    /// Routes, with the state of the door.
    fn routes(&self) -> Router;

    /// Paths that need no key. None of them tells about tools, calls or tenants.
    fn open_paths(&self) -> Vec<&'static str>;

    /// Route patterns, such as `/v1/calls/{id}`: the form of a path in logs, spans and labels.
    fn route_patterns(&self) -> Vec<String>;

    /// Beginnings of paths that metrics count apart. The first that fits counts.
    fn areas(&self) -> &'static [&'static str];

    /// Beginning of the paths on which the cookie of a browser's session stands for a key. There a
    /// request without a session reaches its handler, whose [`identity::May`] refuses it.
    fn session_area(&self) -> Option<&'static str> {
        None
    }

    /// Rule that tells which subject of a request one process alone has in memory: the request is for that process.
    fn owned(&self) -> Option<OwnedRule> {
        None
    }
}

/// Subject of a request, by its method and path, that one process alone has in memory.
pub type OwnedRule = fn(&Method, &str) -> Option<Owned>;

/// State that all requests of all doors share. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Edge(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    engine: Engine,
    config: EdgeConfig,
    metrics: Metrics,
    /// Room for large bodies, in bytes.
    bodies: Arc<Semaphore>,
    /// Room for event streams.
    streams: Arc<Semaphore>,
    tasks: TaskTracker,
    stopping: CancellationToken,
    /// Whether only this machine can reach us, so that only its own names may be used.
    is_loopback: AtomicBool,
}

impl Edge {
    /// The edge of an engine, with these limits.
    pub fn new(engine: Engine, config: EdgeConfig) -> Self {
        Self(Arc::new(Inner {
            engine,
            metrics: Metrics::new(),
            bodies: Arc::new(Semaphore::new(config.max_bodies_together)),
            streams: Arc::new(Semaphore::new(config.max_streams)),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            is_loopback: true.into(),
            config,
        }))
    }

    /// The engine behind the doors.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// Keys.
    pub fn access(&self) -> &Access {
        self.0.engine.access()
    }

    /// Limits.
    pub fn config(&self) -> &EdgeConfig {
        &self.0.config
    }

    /// Work that goes on beside requests; the server waits for its end, and it ends with
    /// [`Edge::stopping`].
    pub fn tasks(&self) -> &TaskTracker {
        &self.0.tasks
    }

    /// Cancelled when the server stops: event streams and everything else that would go on ends.
    pub fn stopping(&self) -> &CancellationToken {
        &self.0.stopping
    }

    /// Metrics of the engine and of the edge, in the text format of OpenMetrics.
    pub fn metrics_text(&self) -> String {
        append_metrics(&self.0.engine.metrics_text(), &self.0.metrics.registry)
    }
}
