//! Subject of the current work (trace, tenant, call), which every log line includes.
//!
//! The task carries it instead of log spans: entering and leaving costs a swap of one thread-local
//! value, nothing is formatted before a line is written, and a line has it at any log level.

use ringfence_types::{Asked, CallId, Digest, PersonaId, TenantId, TraceId};

tokio::task_local! {
    static SUBJECT: Subject;
}

/// Subject of the current work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// Trace of the work.
    pub trace: TraceId,
    /// Tenant, once it is known.
    pub tenant: Option<TenantId>,
    /// Persona that the work is done for.
    pub persona: Option<PersonaId>,
    /// The call, if the work is one.
    pub call: Option<CallId>,
    /// Revision of the rules in force when the work began.
    pub policy: Option<Digest>,
}

impl Subject {
    /// Work without a known tenant yet.
    pub const fn of_trace(trace: TraceId) -> Self {
        Self { trace, tenant: None, persona: None, call: None, policy: None }
    }

    /// Work on a call.
    pub fn of_call(asked: &Asked, policy: Digest) -> Option<Self> {
        let trace = asked.trace_parent.map(|parent| parent.trace)?;
        let (tenant, persona) = (Some(asked.tenant.clone()), asked.persona.clone());
        Some(Self { trace, tenant, persona, call: Some(asked.id), policy: Some(policy) })
    }

    /// Runs a future with this subject.
    pub async fn scope<F: Future>(self, work: F) -> F::Output {
        SUBJECT.scope(self, work).await
    }

    /// Runs a function with this subject.
    pub fn say<R>(self, word: impl FnOnce() -> R) -> R {
        SUBJECT.sync_scope(self, word)
    }

    /// Reads the subject of the current work, if there is one.
    pub fn look<R>(look: impl FnOnce(&Self) -> R) -> Option<R> {
        SUBJECT.try_with(look).ok()
    }
}
