//! One request to run one tool, from acceptance to recorded result.

mod cause;
mod code;
mod finished;
mod state;

use serde::{Deserialize, Serialize};

pub use self::{
    cause::{Cause, MAX_DEPTH, PlanStep, TurnRef},
    code::ErrorCode,
    finished::{CallError, Finished, Memoised, Produced, Stream, Tokens},
    state::{Event, Illegal, State, Stopper},
};
use crate::{
    CallId, Decision, Digest, Edited, Json, KeyId, PersonaId, Scopes, SessionId, SpanId, TenantId,
    Timestamp, ToolRef, TraceParent, TraceState,
};

/// The request. It does not change after acceptance, except that masked arguments are removed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Id of the call.
    pub id: CallId,
    /// Tenant of the call.
    pub tenant: TenantId,
    /// The key that made it.
    pub key: KeyId,
    /// Scopes of that key at acceptance.
    pub scopes: Scopes,
    /// Persona that the call is made for.
    pub persona: Option<PersonaId>,
    /// Session of the call.
    pub session: Option<SessionId>,
    /// Exact version of the tool.
    pub tool: ToolRef,
    /// Whether the tool has no effect outside its sandbox, as known at acceptance.
    pub pure: bool,
    /// The arguments of the request; masked once policy allows the call, if policy requires that.
    pub args: Json,
    /// Digest of the unmasked arguments.
    pub args_digest: Digest,
    /// Digest of the arguments in the form of the skills API.
    pub inputs_hash: String,
    /// Data of the client; the server does not act on it.
    pub metadata: Json,
    /// The client's idempotency key.
    pub idempotency: Option<Idempotency>,
    /// Whether it must run even if the result of an equal call is remembered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fresh: bool,
    /// Trace id: 32 hexadecimal digits.
    pub trace_id: String,
    /// Parent span of the call. None for calls of older versions, which did not store it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_parent: Option<TraceParent>,
    /// State passed on by other tracing systems.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_state: Option<TraceState>,
    /// Cause of the call, if no client asked for it directly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Box<Cause>>,
    /// Labels of the artifacts that it is given, and of the call that made it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taint: Vec<String>,
    /// Time of acceptance.
    pub accepted_at: Timestamp,
}

impl Asked {
    /// Trace context of the call, for consumers that continue its trace.
    pub fn trace_context(&self) -> Option<TraceParent> {
        self.trace_parent.map(|parent| parent.with_span(SpanId::of_call(self.id)))
    }
}

/// Idempotency: equal keys mean the same request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idempotency {
    /// The key; unique per API key.
    pub key: String,
    /// Digest of the request: the same key with another fingerprint is refused.
    pub fingerprint: Digest,
}

/// A call with its current state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The request.
    pub asked: Asked,
    /// Arguments that an approver put in place of the requested ones.
    pub edited: Option<Edited>,
    /// The last decision of policy.
    pub decision: Option<Decision>,
    /// The current state.
    pub state: State,
    /// Time of the last change of state.
    pub changed_at: Timestamp,
}

impl Call {
    /// The arguments that it runs with: edited or requested.
    pub fn args(&self) -> &Json {
        self.edited.as_ref().map_or(&self.asked.args, |edited| &edited.args)
    }

    /// Digest of the arguments that it runs with.
    pub fn args_digest(&self) -> Digest {
        self.edited.as_ref().map_or(self.asked.args_digest, |edited| edited.args_digest)
    }

    /// Digest of the arguments that it runs with, in the form of the skills API.
    pub fn inputs_hash(&self) -> &str {
        self.edited.as_ref().map_or(&self.asked.inputs_hash, |edited| &edited.inputs_hash)
    }

    /// Labels of the sources of the arguments that it runs with.
    pub fn taint(&self) -> Vec<String> {
        let edited = self.edited.as_ref().map_or(&[][..], |edited| &edited.taint);
        crate::artifact_label::union(&self.asked.taint, edited)
    }

    /// The hold, if the call is held.
    pub fn hold(&self) -> Option<&crate::Hold> {
        match &self.state {
            State::Held(hold) => Some(hold),
            _ => None,
        }
    }
}
