//! Approval by people, as a capability: for exactly what they were shown, limited in time and uses.
//!
//! Invariant: [`Approval::changes`] is the only check whether it applies, and it names every
//! difference.

mod change;
mod predicate;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use self::{
    change::{Change, Presented},
    predicate::{Condition, InvalidPredicate, MAX_CONDITIONS, Predicate, Test},
};
use crate::{
    ApprovalId, Call, CallId, Digest, Json, KeyId, PersonId, PersonaId, SessionId, TenantId,
    Timestamp, ToolRef,
};

/// Approval by one or several people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// Id of the approval.
    pub id: ApprovalId,
    /// Tenant whose calls it covers.
    pub tenant: TenantId,
    /// Held call that was shown.
    pub call: CallId,
    /// Approvers in order; each once.
    pub votes: Vec<Vote>,
    /// Exact version of the tool.
    pub tool: ToolRef,
    /// Key that makes the calls.
    pub key: KeyId,
    /// Persona of the calls.
    pub persona: Option<PersonaId>,
    /// Rules under which it applies.
    pub policy: Digest,
    /// Arguments, scope, expiry and uses.
    pub terms: Terms,
    /// Time of the last required vote.
    pub given_at: Timestamp,
}

/// Approval by one person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    /// Key of the person.
    pub by: KeyId,
    /// Label of that key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// Person, if the key names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<PersonId>,
    /// Time of the vote.
    pub at: Timestamp,
    /// Digest of what the person was shown.
    pub shown: Digest,
    /// Reason in the person's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Terms of an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// Permitted arguments.
    pub args: Arguments,
    /// Scope of the approval.
    pub reach: Reach,
    /// Expiry; the approval no longer applies at this moment.
    pub expires_at: Timestamp,
    /// Number of calls.
    pub uses: u32,
}

/// Permitted arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arguments {
    /// Exactly the arguments with this digest.
    Exactly(Digest),
    /// All arguments that fulfil these conditions.
    Where(Predicate),
}

/// Scope of an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// This call only.
    Once(CallId),
    /// All calls of this session.
    Session(SessionId),
    /// All calls within the other terms.
    Rule,
}

impl Reach {
    /// Name on every wire.
    pub const fn name(&self) -> &'static str {
        match self {
            Reach::Once(_) => "once",
            Reach::Session(_) => "session",
            Reach::Rule => "rule",
        }
    }
}

impl Arguments {
    /// Whether these arguments are permitted.
    pub fn include(&self, args: &Json, digest: Digest) -> bool {
        match self {
            Arguments::Exactly(wanted) => *wanted == digest,
            Arguments::Where(predicate) => predicate.holds(args),
        }
    }
}

impl fmt::Display for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arguments::Exactly(_) => f.write_str("exactly the arguments shown"),
            Arguments::Where(predicate) => predicate.fmt(f),
        }
    }
}

/// Document shown to an approver. Its fields stay in alphabetical order.
#[derive(Serialize)]
struct Shown<'a> {
    args: Digest,
    call: CallId,
    key: KeyId,
    persona: Option<&'a PersonaId>,
    policy: Option<Digest>,
    session: Option<&'a SessionId>,
    tenant: &'a TenantId,
    tool: Digest,
}

/// Digest of what an approver is shown of a held call: caller, request and rules. Two calls, or one
/// call before and after a change, never share it.
pub fn shown(call: &Call) -> Digest {
    let asked = &call.asked;
    Digest::of_json(&Json::plain(&Shown {
        args: call.args_digest(),
        call: asked.id,
        key: asked.key,
        persona: asked.persona.as_ref(),
        policy: call.decision.as_ref().map(|decision| decision.policy),
        session: asked.session.as_ref(),
        tenant: &asked.tenant,
        tool: asked.tool.digest,
    }))
}
