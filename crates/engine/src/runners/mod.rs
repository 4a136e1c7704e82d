//! Runners: one per kind of tool.
//!
//! A [`Runner`] turns a permit into [`Work`]; the engine owns the order of a call and knows no kind by
//! name. A new kind of tool is its data in `registry::Runs`, a file here, and a row in [`runner`].

pub(crate) mod builtin;
mod command;
mod http;
mod mcp;
mod program;
mod skill;
mod work;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use ringfence_policy::{Action, Permit};
use ringfence_registry::{Entry, Kind, Violation};
use ringfence_types::{Asked, CallError, Json, SecretName, TenantId, Timestamp};

pub(crate) use self::work::{Started, Work, ended, failure, without_program};
use crate::{
    active_call::ActiveCall,
    engine::Inner,
    given::Takes,
    in_flight::InFlight,
    network::{self, NetworkGrant},
    queue::{Full, Place},
    sdk::ToolGrant,
    secrets::{self, SecretGrant},
};

/// Starts tools of one kind.
#[async_trait]
pub(crate) trait Runner: fmt::Debug + Send + Sync {
    /// Starts the work that the permit allows, and consumes the permit.
    async fn start(&self, permit: Permit, job: Job<'_>) -> Started;

    /// Action that policy is asked about for this tool.
    fn action(&self, _entry: &Entry) -> Action {
        Action::ToolExecute
    }

    /// Whether the tool runs in a sandbox.
    fn needs_sandbox(&self, _entry: &Entry) -> bool {
        true
    }

    /// Whether that sandbox is made for the call.
    fn makes_sandbox(&self, _entry: &Entry) -> bool {
        true
    }

    /// Whether a call of the tool takes one of the places for running calls.
    fn takes_place(&self, _entry: &Entry) -> bool {
        true
    }

    /// Whether a call that was running when its process ended is run again if the tool is pure.
    fn runs_again(&self, _entry: &Entry) -> bool {
        true
    }

    /// Things that calls of the tool may be given beside their arguments.
    fn takes(&self, _entry: &Entry) -> Takes {
        Takes::Nothing
    }

    /// Hosts that a call with these arguments asks for.
    fn network(&self, entry: &Entry, _args: &Json) -> Vec<String> {
        entry.tool.network.clone()
    }

    /// Secrets that a call with these arguments asks for, by the variable that has the placeholder.
    fn secrets(&self, entry: &Entry, _args: &Json) -> BTreeMap<String, SecretName> {
        entry.tool.secrets.clone()
    }

    /// Tools that the programs of a call with these arguments may call.
    fn tools(&self, entry: &Entry, _args: &Json) -> Vec<String> {
        entry.tool.tools.clone()
    }

    /// Tools that a call with these arguments gives to programs which its caller chose. A program that
    /// makes such a call must have been granted all of them.
    fn passes_on(
        &self,
        _inner: &Inner,
        _tenant: &TenantId,
        _entry: &Entry,
        _args: &Json,
    ) -> Vec<String> {
        Vec::new()
    }

    /// Image that a call with these arguments runs in; the host's files without one.
    fn image(&self, entry: &Entry, _args: &Json) -> Option<String> {
        entry.tool.image.clone()
    }

    /// Tokens of a model server that a call with these arguments may take, by estimate.
    fn tokens(&self, _entry: &Entry, _args: &Json) -> u64 {
        0
    }

    /// The tool's own message about invalid arguments, if it has one.
    fn argument_error(&self, _entry: &Entry, _violations: &[Violation]) -> Option<&'static str> {
        None
    }
}

/// The runner of a tool.
pub(crate) fn of(entry: &Entry) -> &'static dyn Runner {
    runner(entry.runs.kind())
}

impl Inner {
    /// A place for a call of this tool: among the running calls, or beside them if it takes none.
    pub(crate) fn place(&self, entry: &Entry, tenant: &TenantId) -> Result<Place, Full> {
        match of(entry).takes_place(entry) {
            true => self.queue.join(tenant),
            false => Ok(Place::beside()),
        }
    }

    /// A place for a call that was accepted before and cannot be refused any more.
    pub(crate) fn place_again(&self, entry: &Entry, tenant: &TenantId) -> Place {
        match of(entry).takes_place(entry) {
            true => self.queue.rejoin(tenant),
            false => Place::beside(),
        }
    }
}

/// Runners by kind of tool.
const fn runner(kind: Kind) -> &'static dyn Runner {
    match kind {
        Kind::Builtin => &builtin::Builtins,
        Kind::Python => &skill::Skills,
        Kind::Command => &command::Commands,
        Kind::Mcp => &mcp::McpTools,
        Kind::Http => &http::HttpTools,
    }
}

/// One call, as its runner sees it.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    active: &'a ActiveCall,
    /// The tool.
    pub(crate) entry: &'a Arc<Entry>,
    /// Start time of the call.
    pub(crate) started_at: Timestamp,
}

impl<'a> Job<'a> {
    pub(crate) fn new(
        active: &'a ActiveCall,
        entry: &'a Arc<Entry>,
        started_at: Timestamp,
    ) -> Self {
        Self { active, entry, started_at }
    }

    pub(crate) fn inner(&self) -> &'a Arc<Inner> {
        &self.active.inner
    }

    pub(crate) fn asked(&self) -> &'a Asked {
        self.active.asked()
    }

    /// The unmasked arguments, which may differ from those shown and recorded.
    pub(crate) fn args(&self) -> &'a Json {
        self.active.args()
    }

    pub(crate) fn in_flight(&self) -> Arc<InFlight> {
        self.active.in_flight()
    }

    /// Hosts granted to the sandbox of this call; none if it asks for none or policy allows none.
    pub(crate) async fn network_grant(
        &self,
        permit: &Permit,
    ) -> Result<Option<NetworkGrant>, CallError> {
        let asked = of(self.entry).network(self.entry, self.args());
        let Some(granted) = network::grant(&asked, permit.obligations())? else { return Ok(None) };
        granted.check(self.inner())?;
        Ok(Some(match self.secret_grant().await? {
            Some(secrets) => granted.with_secrets(secrets),
            None => granted,
        }))
    }

    /// Tools that the programs of this call may call; none if it asks for none.
    pub(crate) fn tool_grant(&self) -> Option<ToolGrant> {
        ToolGrant::of(of(self.entry).tools(self.entry, self.args()))
    }

    /// Secrets that the call asks for; none if it asks for none.
    pub(crate) async fn secret_grant(&self) -> Result<Option<Arc<SecretGrant>>, CallError> {
        let asked: Vec<_> = self.secrets().into_values().collect();
        if asked.is_empty() {
            return Ok(None);
        }
        let (tenant, tool) = (&self.asked().tenant, &self.entry.tool.name);
        secrets::grant(self.inner(), tenant, tool, &asked).await.map(Arc::new).map(Some)
    }

    /// Environment variables of the call's programs: those of the tool, and placeholders of secrets.
    pub(crate) fn environment(&self) -> BTreeMap<String, String> {
        let mut variables = self.entry.tool.env.clone();
        variables.extend(SecretGrant::placeholders(&self.secrets()));
        variables
    }

    /// Image that the call runs in.
    pub(crate) fn image(&self) -> Option<String> {
        of(self.entry).image(self.entry, self.args())
    }

    fn secrets(&self) -> BTreeMap<String, SecretName> {
        of(self.entry).secrets(self.entry, self.args())
    }

    /// Time since the start of the call.
    pub(crate) fn took(&self) -> Duration {
        self.inner().parts.clock.now().since(self.started_at)
    }
}
