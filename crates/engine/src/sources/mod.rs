//! MCP servers of others as sources of tools.
//!
//! Each server has one supervisor (`supervise`), which connects, lists its tools, follows changes and
//! starts again with back-off. A server on standard input and output is a program in a session sandbox
//! (`start`): making the sandbox and starting the program are calls like any other, decided by policy and
//! on record. A call of one of its tools is a call of its own (`runners::mcp`).
//!
//! Invariants:
//! - a tool is offered only while its definition is exactly the one that was approved (`lifecycle`);
//! - the sandbox of a server belongs to no tenant: no client finds it or runs anything in it;
//! - the end of one server changes nothing for another.

mod inspection;
mod packages;
mod start;
mod supervise;
mod tools;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use ringfence_mcp_client::Connection;
use ringfence_types::{
    CallId, McpServer, Principal, Scope, Scopes, ServerName, ServerSpec, Timestamp, TraceContext,
    error_chain,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub use self::inspection::Finding;
use crate::{Engine, ToolState, engine::Inner};

/// Servers of one installation.
const MAX_SERVERS: usize = 64;

/// All sources, by name.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    all: RwLock<BTreeMap<ServerName, Arc<Source>>>,
}

/// One server and what is known of it.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) server: McpServer,
    known: Mutex<Known>,
    stop: CancellationToken,
    /// Ends the present life of the server, or the wait before the next one.
    restart: Notify,
}

#[derive(Debug)]
struct Known {
    health: Health,
    connection: Option<Arc<Connection>>,
    /// Tools that cannot be offered, with the reason.
    broken: Vec<BrokenTool>,
}

/// A tool of a server that cannot be offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenTool {
    /// Name at its server, shortened.
    pub name: String,
    /// Why.
    pub problem: String,
}

/// State of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It is being started.
    Starting,
    /// A call that starts it is held until a person decides.
    Held {
        /// The held call.
        call: CallId,
    },
    /// It answers.
    Connected {
        /// Revision of the protocol.
        revision: Option<String>,
        /// Since when.
        since: Timestamp,
    },
    /// It failed, and is tried again.
    Failing {
        /// Why.
        reason: String,
        /// Attempts that failed in a row.
        attempts: u32,
        /// When it is tried again.
        retry_at: Timestamp,
    },
}

/// A server, as it stands.
#[derive(Debug, Clone)]
pub struct SourceState {
    /// Its definition.
    pub server: McpServer,
    /// Its state in this process.
    pub health: Health,
    /// Its tools, with what a reader should look at before approving each.
    pub tools: Vec<(ToolState, Vec<Finding>)>,
    /// Tools that cannot be offered.
    pub broken: Vec<BrokenTool>,
}

/// Reason why a server was not added, or an action on it not done.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// There is one of this name.
    #[error("there is an MCP server `{0}` already; remove it first")]
    Exists(ServerName),
    /// There is none of this name.
    #[error("there is no MCP server `{0}`")]
    Unknown(ServerName),
    /// The definition is invalid.
    #[error("{}", .0.join("; "))]
    Invalid(Vec<String>),
    /// There are too many.
    #[error("there are {MAX_SERVERS} MCP servers; remove one first")]
    TooMany,
    /// It could not be stored.
    #[error("the store failed")]
    Store(#[from] ringfence_store::Error),
}

impl Sources {
    fn get(&self, name: &ServerName) -> Option<Arc<Source>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    fn all(&self) -> Vec<Arc<Source>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// The connection to a server, while there is one.
    pub(crate) fn connection(&self, name: &ServerName) -> Option<Arc<Connection>> {
        self.get(name)?.known().connection.clone()
    }

    /// Why a server cannot be called.
    pub(crate) fn problem(&self, name: &ServerName) -> String {
        match self.get(name).map(|source| source.known().health.clone()) {
            None => format!("MCP server `{name}` was removed"),
            Some(Health::Failing { reason, .. }) => {
                format!("MCP server `{name}` is not running: {reason}")
            }
            Some(Health::Held { call }) => {
                format!("MCP server `{name}` waits for a person to approve its start (call {call})")
            }
            Some(_) => format!("MCP server `{name}` is being started; try again"),
        }
    }
}

impl Source {
    fn new(server: McpServer) -> Self {
        let known = Known { health: Health::Starting, connection: None, broken: Vec::new() };
        Self {
            server,
            known: Mutex::new(known),
            stop: CancellationToken::new(),
            restart: Notify::new(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_health(&self, health: Health) {
        self.known().health = health;
    }

    /// Identity of the calls that start it.
    fn principal(&self) -> Principal {
        Principal {
            key: self.server.key,
            tenant: self.server.tenant.clone(),
            persona: None,
            scopes: Scopes::from(vec![Scope::Call]),
            label: format!("MCP server {}", self.server.name),
            person: None,
        }
    }
}

/// Interval at which servers that other processes added or removed are looked for.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(5);

/// Starts the servers that are on record, and follows the record where other processes share it.
pub(crate) async fn run(inner: Arc<Inner>) {
    loop {
        if let Err(error) = reconcile(&inner).await {
            tracing::warn!(error = error_chain(&error), "the MCP servers on record cannot be read");
        } else if !inner.parts.store.is_shared() {
            return;
        }
        tokio::select! {
            () = inner.stopping.cancelled() => return,
            () = tokio::time::sleep(FOLLOW_INTERVAL) => {}
        }
    }
}

async fn reconcile(inner: &Arc<Inner>) -> Result<(), ringfence_store::Error> {
    let servers = inner.parts.store.mcp_servers().await?;
    for source in inner.sources.all() {
        if !servers.contains(&source.server) {
            inner.end_source(&source.server.name);
        }
    }
    let known: BTreeSet<ServerName> =
        inner.sources.all().iter().map(|source| source.server.name.clone()).collect();
    for server in servers.into_iter().filter(|server| !known.contains(&server.name)) {
        inner.begin_source(server);
    }
    Ok(())
}

impl Inner {
    fn begin_source(self: &Arc<Self>, server: McpServer) {
        let source = Arc::new(Source::new(server));
        let mut all = self.sources.all.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(source.server.name.clone(), source.clone());
        drop(all);
        self.tasks.spawn(supervise::run(self.clone(), source));
    }

    fn end_source(&self, name: &ServerName) {
        let mut all = self.sources.all.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(source) = all.remove(name) {
            source.stop.cancel();
        }
    }
}

impl Engine {
    /// All MCP servers by name.
    pub fn mcp_servers(&self) -> Vec<SourceState> {
        self.inner.sources.all().iter().map(|source| self.source_state(source)).collect()
    }

    /// One MCP server.
    pub fn mcp_server(&self, name: &ServerName) -> Option<SourceState> {
        self.inner.sources.get(name).map(|source| self.source_state(&source))
    }

    fn source_state(&self, source: &Source) -> SourceState {
        let (health, broken) = {
            let known = source.known();
            (known.health.clone(), known.broken.clone())
        };
        let tools = tools::states(self, &source.server.name);
        SourceState { server: source.server.clone(), health, tools, broken }
    }

    /// Adds an MCP server and starts it. Its tools are proposed; a person approves each.
    pub async fn add_mcp_server(
        &self,
        who: &Principal,
        name: ServerName,
        spec: ServerSpec,
    ) -> Result<SourceState, SourceError> {
        let mut problems = spec.problems();
        problems.extend(start::problems(&spec));
        if !problems.is_empty() {
            return Err(SourceError::Invalid(problems));
        }
        if self.inner.sources.all().len() >= MAX_SERVERS {
            return Err(SourceError::TooMany);
        }
        let server = McpServer {
            name: name.clone(),
            spec,
            tenant: who.tenant.clone(),
            key: who.key,
            added_at: self.clock().now(),
        };
        if !self.inner.parts.store.add_mcp_server(server.clone()).await? {
            return Err(SourceError::Exists(name));
        }
        self.inner.begin_source(server);
        self.mcp_server(&name).ok_or(SourceError::Unknown(name))
    }

    /// Removes an MCP server and ends it. Its tools are withdrawn.
    pub async fn remove_mcp_server(
        &self,
        who: &Principal,
        trace: &TraceContext,
        name: &ServerName,
    ) -> Result<(), SourceError> {
        if !self.inner.parts.store.remove_mcp_server(name).await? {
            return Err(SourceError::Unknown(name.clone()));
        }
        self.inner.end_source(name);
        tools::withdraw(self, who, trace, name).await;
        Ok(())
    }

    /// Starts an MCP server anew, without waiting for the next attempt.
    pub fn restart_mcp_server(&self, name: &ServerName) -> Result<(), SourceError> {
        let source = self.inner.sources.get(name);
        let source = source.ok_or_else(|| SourceError::Unknown(name.clone()))?;
        source.restart.notify_one();
        Ok(())
    }
}

impl Health {
    /// Name on every wire.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Held { .. } => "held",
            Self::Connected { .. } => "connected",
            Self::Failing { .. } => "failing",
        }
    }
}
