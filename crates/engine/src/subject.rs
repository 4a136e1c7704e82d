//! Whom the work at hand is for, so that every line of the log can say so.
//!
//! Carried by the task instead of by spans of the log: entering and leaving costs a swap of one
//! thread-local value, nothing is formatted before somebody writes a line, and a line has it at
//! any level of the log.

use ringfence_types::{Asked, CallId, Digest, PersonaId, TenantId, TraceId};

tokio::task_local! {
    static SUBJECT: Subject;
}

/// Whom the work at hand is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The trace it is part of.
    pub trace: TraceId,
    /// Whose it is, once that is known.
    pub tenant: Option<TenantId>,
    /// On whose behalf.
    pub persona: Option<PersonaId>,
    /// Which call, if it is one.
    pub call: Option<CallId>,
    /// Of the rules in force when the work began.
    pub policy: Option<Digest>,
}

impl Subject {
    /// Work for nobody in particular yet.
    pub const fn of_trace(trace: TraceId) -> Self {
        Self { trace, tenant: None, persona: None, call: None, policy: None }
    }

    /// Work on a call.
    pub fn of_call(asked: &Asked, policy: Digest) -> Option<Self> {
        let trace = asked.trace_parent.map(|parent| parent.trace)?;
        let (tenant, persona) = (Some(asked.tenant.clone()), asked.persona.clone());
        Some(Self { trace, tenant, persona, call: Some(asked.id), policy: Some(policy) })
    }

    /// Does work for this subject.
    pub async fn scope<F: Future>(self, work: F) -> F::Output {
        SUBJECT.scope(self, work).await
    }

    /// Says a word for this subject.
    pub fn say<R>(self, word: impl FnOnce() -> R) -> R {
        SUBJECT.sync_scope(self, word)
    }

    /// Looks at whom the work at hand is for, if it is for somebody.
    pub fn look<R>(look: impl FnOnce(&Self) -> R) -> Option<R> {
        SUBJECT.try_with(look).ok()
    }
}
