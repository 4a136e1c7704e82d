//! Cause of a call that the server makes by itself.

use serde::{Deserialize, Serialize};

use crate::CallId;

/// Maximum number of calls above a call. A call at this depth cannot make calls.
pub const MAX_DEPTH: u8 = 8;

/// Cause of a call. A call that a client asked for has none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cause {
    /// The call that made this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<CallId>,
    /// The step of a plan that the call is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<PlanStep>,
    /// The place in a conversation that the call belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnRef>,
    /// The MCP server that the call starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Calls above this one: 1 for a child of a call that a client asked for.
    pub depth: u8,
}

/// A step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanStep {
    /// The plan.
    pub plan: String,
    /// The step's name within it.
    pub step: String,
}

/// A place in a conversation: a call that a model asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnRef {
    /// The event that began the turn.
    pub event: String,
    /// The answer of the model within the turn, from 0.
    pub round: u32,
    /// The call within that answer, from 0.
    pub index: u32,
}
