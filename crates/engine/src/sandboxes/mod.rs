//! Session sandboxes: their tenants, and the programs and interpreters in them, by number.
//!
//! Running or changing something in a sandbox is a call of a built-in tool
//! (`runners::builtin::sandbox`), decided and recorded like any other. Here is what needs no call:
//! finding, listing, and the tables through which clients come back to programs and interpreters.

mod attachments;
mod table;
pub mod types;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ringfence_sandbox::session::{Interpreter, Session, SessionId, SessionInfo};
use ringfence_types::{Asked, Layer, Principal, Stopper, TenantId};

pub use self::{attachments::Attachment, table::Program};
pub(crate) use self::{
    attachments::{Attachments, TooMuch},
    table::SandboxTable,
};
use crate::{Engine, engine::Inner, runners::builtin};

/// Bytes kept of each output stream of a program.
pub const KEPT_OUTPUT: ringfence_types::Bytes = ringfence_types::Bytes::mib(1);

/// Metadata key of a sandbox's tenant; keys chosen by clients have the prefix below.
const TENANT_KEY: &str = "tenant";
pub(crate) const CLIENT_PREFIX: &str = "client.";

/// Limits on session sandboxes.
#[derive(Debug, Clone, Copy)]
pub struct SandboxLimits {
    /// Sandboxes of all tenants.
    pub max: usize,
    /// Sandboxes per tenant.
    pub max_per_tenant: usize,
}

impl Default for SandboxLimits {
    fn default() -> Self {
        Self { max: 64, max_per_tenant: 16 }
    }
}

/// State of the session sandboxes beside the sandboxes themselves.
#[derive(Debug, Default)]
pub(crate) struct Sandboxes {
    tables: Mutex<HashMap<SessionId, Arc<SandboxTable>>>,
    /// Held while a sandbox is created, so that the checked number stays true.
    pub(crate) making: tokio::sync::Mutex<()>,
    /// Bytes of calls beside their arguments.
    pub(crate) attachments: Attachments,
}

impl Inner {
    /// The tenant's sandbox with this id.
    pub(crate) fn sandbox_of(&self, tenant: &TenantId, id: &SessionId) -> Option<Session> {
        let session = self.parts.sandbox.session_by_id(id);
        session.filter(|session| is_of(&session.info(), tenant))
    }

    /// The sandbox with this id that a call may use: one of its tenant, or that of the MCP server which the
    /// call starts.
    pub(crate) fn sandbox_for(&self, asked: &Asked, id: &SessionId) -> Option<Session> {
        let session = self.parts.sandbox.session_by_id(id)?;
        let owner = session.info().metadata.get(TENANT_KEY).cloned();
        (owner == Some(owner_of(asked).1)).then_some(session)
    }

    /// Tools granted to a sandbox of the tenant.
    pub(crate) fn granted_tools(&self, tenant: &TenantId, id: &SessionId) -> Vec<String> {
        if self.sandbox_of(tenant, id).is_none() {
            return Vec::new();
        }
        let table = lock(&self.sandboxes.tables).get(id).cloned();
        let grant = table.and_then(|table| table.tool_grant());
        grant.map(|grant| grant.names().to_vec()).unwrap_or_default()
    }

    /// Numbers of all sandboxes and of the tenant's.
    pub(crate) fn count_sandboxes(&self, tenant: &TenantId) -> (usize, usize) {
        let all = self.parts.sandbox.sessions();
        (all.len(), all.iter().filter(|info| is_of(info, tenant)).count())
    }

    /// Cancels every call that runs in a session sandbox.
    pub(crate) fn end_session_calls(&self, by: Stopper) {
        for in_flight in self.in_flight.all() {
            let call = in_flight.now().call;
            if builtin::is_of_session(&call.asked.tool.name) {
                in_flight.cancel(by);
            }
        }
    }

    /// The sandbox's table; made on first use and dropped with the sandbox.
    pub(crate) fn sandbox_table(self: &Arc<Self>, session: &Session) -> Arc<SandboxTable> {
        let mut tables = lock(&self.sandboxes.tables);
        if let Some(table) = tables.get(session.id()) {
            return table.clone();
        }
        let table = Arc::<SandboxTable>::default();
        tables.insert(session.id().clone(), table.clone());
        let (inner, session) = (self.clone(), session.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                _ = session.ended() => {}
                () = inner.stopping.cancelled() => {}
            }
            lock(&inner.sandboxes.tables).remove(session.id());
        });
        table
    }
}

/// Metadata that names the owner of a call's sandbox: its tenant. The sandbox of an MCP server belongs to
/// no tenant, so that no client runs anything in it.
pub(crate) fn owner_of(asked: &Asked) -> (String, String) {
    let source = asked.cause.as_ref().and_then(|cause| cause.source.as_ref());
    let owner = match source {
        // No tenant has such a name.
        Some(server) => format!("\u{1}mcp/{server}"),
        None => asked.tenant.to_string(),
    };
    (TENANT_KEY.to_owned(), owner)
}

fn is_of(info: &SessionInfo, tenant: &TenantId) -> bool {
    info.metadata.get(TENANT_KEY).is_some_and(|owner| owner == tenant.as_str())
}

/// A tenant's sandbox for doors. Running something in it takes a permit, which only a call has.
#[derive(Debug, Clone)]
pub struct Sandbox {
    /// The sandbox itself: to inspect, pause, resume and end.
    pub session: Session,
    table: Arc<SandboxTable>,
}

impl Engine {
    /// The tenant's sandboxes, oldest first.
    pub fn sandboxes(&self, who: &Principal) -> Vec<SessionInfo> {
        let all = self.inner.parts.sandbox.sessions().into_iter();
        all.filter(|info| is_of(info, &who.tenant)).collect()
    }

    /// The tenant's sandbox with this id.
    pub fn sandbox(&self, who: &Principal, id: &SessionId) -> Option<Sandbox> {
        let session = self.inner.sandbox_of(&who.tenant, id)?;
        let table = self.inner.sandbox_table(&session);
        Some(Sandbox { session, table })
    }

    /// Layers that this host lacks and the operator allows to be missing.
    pub fn missing_layers(&self) -> Vec<Layer> {
        self.inner.parts.sandbox.missing_layers()
    }

    /// Ends every sandbox; for the owner of a stopped engine.
    pub async fn close_sandboxes(&self) {
        if let Some(containers) = &self.inner.parts.containers {
            containers.close().await;
        }
        self.inner.parts.sandbox.close().await;
    }

    /// Fails with the reason while sandboxes cannot be made.
    pub fn sandbox_readiness(&self) -> Result<(), ringfence_sandbox::Unavailable> {
        self.inner.parts.sandbox.readiness()
    }
}

impl Sandbox {
    /// Its programs, oldest first: the running ones, and the last of those that ended.
    pub fn programs(&self) -> Vec<Program> {
        self.table.programs()
    }

    /// The program with this number.
    pub fn program(&self, number: u32) -> Option<Program> {
        self.table.program(number)
    }

    /// Removes a program that has ended.
    pub fn forget_program(&self, number: u32) {
        self.table.remove_program(number);
    }

    /// Its interpreters by number.
    pub fn interpreters(&self) -> Vec<(u32, Interpreter)> {
        self.table.interpreters()
    }

    /// The interpreter with this number.
    pub fn interpreter(&self, number: u32) -> Option<Interpreter> {
        self.table.interpreter(number)
    }

    /// Removes an interpreter from the table; dropping it ends it.
    pub fn remove_interpreter(&self, number: u32) -> Option<Interpreter> {
        self.table.remove_interpreter(number)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
