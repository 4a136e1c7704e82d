//! One request to run one tool, from acceptance to recorded result.

mod cause;
mod code;
mod finished;
mod state;

use serde::{Deserialize, Serialize};

pub use self::{
    cause::{Cause, MAX_DEPTH, PlanStep, TurnRef},
    code::ErrorCode,
    finished::{CallError, Finished, Memoised, Produced, Stream},
    state::{Effect, Event, Illegal, State, Stopper},
};
use crate::{
    CallId, Decision, Digest, Edited, Json, KeyId, PersonaId, Scopes, SessionId, SpanId, TenantId,
    Timestamp, ToolRef, TraceParent, TraceState,
};

/// What was asked. Nothing of it changes after acceptance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// The call's name.
    pub id: CallId,
    /// Whose call it is.
    pub tenant: TenantId,
    /// The key that made it.
    pub key: KeyId,
    /// What that key could do then.
    pub scopes: Scopes,
    /// On whose behalf.
    pub persona: Option<PersonaId>,
    /// What it belongs to.
    pub session: Option<SessionId>,
    /// The exact tool.
    pub tool: ToolRef,
    /// Whether the tool has no effect outside its sandbox, as known at acceptance.
    pub pure: bool,
    /// The arguments, as they came; from the moment that policy allows the call, without what it
    /// wants masked.
    pub args: Json,
    /// Of the arguments as they came.
    pub args_digest: Digest,
    /// Of the arguments, in the form of the skills API.
    pub inputs_hash: String,
    /// Data of the client's; nobody here acts on it.
    pub metadata: Json,
    /// The client's key for doing this once.
    pub idempotency: Option<Idempotency>,
    /// Whether it must run even if the result of an equal call is remembered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fresh: bool,
    /// For finding it in traces: 32 hexadecimal digits.
    pub trace_id: String,
    /// The work in that trace that asked for it. None of calls before this was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_parent: Option<TraceParent>,
    /// What other tracing systems passed on with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_state: Option<TraceState>,
    /// Cause of the call, if no client asked for it directly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Box<Cause>>,
    /// When it was accepted.
    pub accepted_at: Timestamp,
}

impl Asked {
    /// The call as part of its trace, for whoever is told of it.
    pub fn trace_context(&self) -> Option<TraceParent> {
        self.trace_parent.map(|parent| parent.with_span(SpanId::of_call(self.id)))
    }
}

/// The client's promise that equal keys mean the same request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idempotency {
    /// The key; its space is the key that made the call.
    pub key: String,
    /// Of tool and arguments: the same key with another fingerprint is refused.
    pub fingerprint: Digest,
}

/// A call as it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// What was asked.
    pub asked: Asked,
    /// What a person put in place of the arguments that were asked for.
    pub edited: Option<Edited>,
    /// What policy said last.
    pub decision: Option<Decision>,
    /// What became of it so far.
    pub state: State,
    /// When its state last changed.
    pub changed_at: Timestamp,
}

impl Call {
    /// The arguments that it runs with.
    pub fn args(&self) -> &Json {
        self.edited.as_ref().map_or(&self.asked.args, |edited| &edited.args)
    }

    /// Of the arguments that it runs with.
    pub fn args_digest(&self) -> Digest {
        self.edited.as_ref().map_or(self.asked.args_digest, |edited| edited.args_digest)
    }

    /// Of the arguments that it runs with, in the form of the skills API.
    pub fn inputs_hash(&self) -> &str {
        self.edited.as_ref().map_or(&self.asked.inputs_hash, |edited| &edited.inputs_hash)
    }

    /// What it waits for, if it is held.
    pub fn hold(&self) -> Option<&crate::Hold> {
        match &self.state {
            State::Held(hold) => Some(hold),
            _ => None,
        }
    }
}
