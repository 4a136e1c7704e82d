//! Session sandboxes: their tenants, and the programs and interpreters in them, by number.
//!
//! What runs or changes something in one is a call of a built-in tool (`runners::builtin::sandbox`)
//! and so decided, recorded and receipted like any other. Here is what needs no call: finding,
//! listing, looking, and the tables through which clients come back to programs and interpreters.

mod attachments;
mod table;
pub mod types;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ringfence_sandbox::session::{Interpreter, Session, SessionId, SessionInfo};
use ringfence_types::{Layer, Principal, Stopper, TenantId};

pub use self::{attachments::Attachment, table::Program};
pub(crate) use self::{
    attachments::{Attachments, TooMuch},
    table::Table,
};
use crate::{Engine, engine::Inner, runners::builtin};

/// Bytes kept of each output stream of a program.
pub const KEPT_OUTPUT: ringfence_types::Bytes = ringfence_types::Bytes::mib(1);

/// The tenant of a sandbox, in its metadata; names that clients chose have the other prefix.
const TENANT: &str = "tenant";
pub(crate) const OF_CLIENT: &str = "client.";

/// How many sandboxes are kept at one time.
#[derive(Debug, Clone, Copy)]
pub struct SandboxLimits {
    /// Of all tenants.
    pub max: usize,
    /// Of one tenant.
    pub max_per_tenant: usize,
}

impl Default for SandboxLimits {
    fn default() -> Self {
        Self { max: 64, max_per_tenant: 16 }
    }
}

/// State of all session sandboxes beside the sandboxes themselves.
#[derive(Debug, Default)]
pub(crate) struct Sandboxes {
    tables: Mutex<HashMap<SessionId, Arc<Table>>>,
    /// Held while one is made, so that the number that was checked is the number that holds.
    pub(crate) making: tokio::sync::Mutex<()>,
    /// Bytes that came with a call beside its arguments.
    pub(crate) attachments: Attachments,
}

impl Inner {
    /// The tenant's sandbox of this id.
    pub(crate) fn sandbox_of(&self, tenant: &TenantId, id: &SessionId) -> Option<Session> {
        let session = self.parts.sandbox.session_by_id(id);
        session.filter(|session| is_of(&session.info(), tenant))
    }

    /// All sandboxes, and how many of them are the tenant's.
    pub(crate) fn count_sandboxes(&self, tenant: &TenantId) -> (usize, usize) {
        let all = self.parts.sandbox.sessions();
        (all.len(), all.iter().filter(|info| is_of(info, tenant)).count())
    }

    /// Asks for the end of everything that runs in session sandboxes.
    pub(crate) fn end_session_calls(&self, by: Stopper) {
        for in_flight in self.in_flight.all() {
            let call = in_flight.now().call;
            if builtin::is_of_session(&call.asked.tool.name) {
                in_flight.cancel(by);
            }
        }
    }

    /// The sandbox's table; the first to ask makes it, and it goes with the sandbox.
    pub(crate) fn sandbox_table(self: &Arc<Self>, session: &Session) -> Arc<Table> {
        let mut tables = lock(&self.sandboxes.tables);
        if let Some(table) = tables.get(session.id()) {
            return table.clone();
        }
        let table = Arc::<Table>::default();
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

/// Metadata that names the tenant of a sandbox.
pub(crate) fn owner(tenant: &TenantId) -> (String, String) {
    (TENANT.to_owned(), tenant.to_string())
}

fn is_of(info: &SessionInfo, tenant: &TenantId) -> bool {
    info.metadata.get(TENANT).is_some_and(|owner| owner == tenant.as_str())
}

/// A tenant's sandbox, as doors use it. Running something in it takes a permit, which only a call has.
#[derive(Debug, Clone)]
pub struct Sandbox {
    /// The sandbox itself: looked at, paused, resumed, ended.
    pub session: Session,
    table: Arc<Table>,
}

impl Engine {
    /// The tenant's sandboxes, oldest first.
    pub fn sandboxes(&self, who: &Principal) -> Vec<SessionInfo> {
        let all = self.inner.parts.sandbox.sessions().into_iter();
        all.filter(|info| is_of(info, &who.tenant)).collect()
    }

    /// The tenant's sandbox of this id.
    pub fn sandbox(&self, who: &Principal, id: &SessionId) -> Option<Sandbox> {
        let session = self.inner.sandbox_of(&who.tenant, id)?;
        let table = self.inner.sandbox_table(&session);
        Some(Sandbox { session, table })
    }

    /// Layers that this host lacks and the operator allows its sandboxes to miss.
    pub fn missing_layers(&self) -> &[Layer] {
        self.inner.parts.sandbox.missing_layers()
    }

    /// Ends every sandbox, for the owner of an engine that has stopped.
    pub async fn close_sandboxes(&self) {
        self.inner.parts.sandbox.close().await;
    }

    /// Refuses with the reason while sandboxes cannot be made, or could not be lately.
    pub fn sandbox_readiness(&self) -> Result<(), ringfence_sandbox::Unavailable> {
        self.inner.parts.sandbox.readiness()
    }
}

impl Sandbox {
    /// Its programs, oldest first: those that run, and the last of those that ended.
    pub fn programs(&self) -> Vec<Program> {
        self.table.programs()
    }

    /// The program of this number.
    pub fn program(&self, number: u32) -> Option<Program> {
        self.table.program(number)
    }

    /// Forgets a program that has ended.
    pub fn forget_program(&self, number: u32) {
        self.table.remove_program(number);
    }

    /// Its interpreters by number.
    pub fn interpreters(&self) -> Vec<(u32, Interpreter)> {
        self.table.interpreters()
    }

    /// The interpreter of this number.
    pub fn interpreter(&self, number: u32) -> Option<Interpreter> {
        self.table.interpreter(number)
    }

    /// Takes an interpreter out of the table; dropping it ends it.
    pub fn remove_interpreter(&self, number: u32) -> Option<Interpreter> {
        self.table.remove_interpreter(number)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
