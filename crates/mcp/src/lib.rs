//! The MCP door: tools of the engine for agents and editors, over streamable HTTP at `/mcp`.
//!
//! The protocol, in its revisions 2025-11-25 and 2026-07-28, is `rmcp`'s; the listener, keys, `Host`,
//! `Origin` and limits are `edge`'s; the decision to run is the engine's. This crate translates.
//!
//! Contents: `http` is the way of one request to `rmcp` and back (`sessions`: which key a session of
//! the older revision belongs to); `handler` answers methods; `call` makes a call and waits for it
//! (`progress`: its live output, `held`: a person must decide first); `result` is the end of a call in
//! the words of the protocol; `tools` lists and searches; `resources` are receipts, outputs and skills.
//!
//! Invariants:
//! - arguments reach the engine as the client wrote them: they are taken from the body's text, not from
//!   the tree of numbers that the protocol library parsed;
//! - every request is made by its own key, also in a session; a session of another key is not found.

mod call;
mod handler;
mod held;
mod http;
mod metadata;
mod progress;
mod resources;
mod result;
mod sessions;
mod tools;

use std::time::Duration;

use axum::Router;
use ringfence_edge::{Door, Edge};
use rmcp::ServerHandler;

pub use self::handler::Handler;

/// Path of the endpoint.
pub const MCP_PATH: &str = "/mcp";

/// Settings of the door.
#[derive(Debug, Clone)]
pub struct McpConfig {
    /// Whether the server is reached by TLS, for the links that it hands out.
    pub has_tls: bool,
    /// Time for a person to decide about a held call before a client that knows neither tasks nor
    /// links is told to ask again.
    pub hold_wait: Duration,
    /// Tools on a page of the list. A larger catalogue also has a tool for searching it.
    pub page: usize,
    /// Sessions of older clients at one time.
    pub max_sessions: usize,
    /// Sessions of one key at one time.
    pub max_sessions_per_key: usize,
}

impl Default for McpConfig {
    fn default() -> Self {
        Self {
            has_tls: false,
            hold_wait: Duration::from_secs(20),
            page: 50,
            max_sessions: 1_024,
            max_sessions_per_key: 128,
        }
    }
}

/// The MCP door. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Mcp(Router);

impl Mcp {
    /// The door behind this edge.
    pub fn new(edge: Edge, config: McpConfig) -> Self {
        let handler = Handler::new(edge.clone(), config.clone());
        Self::with_handler(edge, config, handler)
    }

    /// The door with a handler around the product's own. The protocol's conformance suite needs tools
    /// of fixed names; its fixtures are such a handler.
    pub fn with_handler(
        edge: Edge,
        config: McpConfig,
        handler: impl ServerHandler + Clone,
    ) -> Self {
        Self(http::router(edge, config, handler))
    }
}

impl Door for Mcp {
    fn routes(&self) -> Router {
        self.0.clone()
    }

    fn open_paths(&self) -> Vec<&'static str> {
        http::METADATA_PATHS.to_vec()
    }

    fn route_patterns(&self) -> Vec<String> {
        let paths = std::iter::once(&MCP_PATH).chain(&http::METADATA_PATHS);
        paths.map(|path| (*path).to_owned()).collect()
    }

    fn areas(&self) -> &'static [&'static str] {
        &[MCP_PATH]
    }
}
