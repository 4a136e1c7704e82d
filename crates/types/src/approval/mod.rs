//! A person's yes, as a capability: to exactly what they were shown, for so long, so often.
//!
//! Invariant: [`Approval::changes`] is the one place that says whether it applies, and it names
//! everything that is not as it was.

mod change;
mod predicate;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use self::{
    change::{Change, Presented},
    predicate::{CONDITIONS, Condition, InvalidPredicate, Predicate, Test},
};
use crate::{
    ApprovalId, Call, CallId, Digest, Json, KeyId, PersonId, PersonaId, SessionId, TenantId,
    Timestamp, ToolRef,
};

/// What one or several people allowed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// Its name.
    pub id: ApprovalId,
    /// Whose calls it is about.
    pub tenant: TenantId,
    /// The held call that was shown.
    pub call: CallId,
    /// Who approved, in order; each once.
    pub votes: Vec<Vote>,
    /// Exactly this tool.
    pub tool: ToolRef,
    /// Made by this key.
    pub key: KeyId,
    /// On behalf of this persona.
    pub persona: Option<PersonaId>,
    /// While these rules are in force.
    pub policy: Digest,
    /// With which arguments, how far, how long, how often.
    pub terms: Terms,
    /// When it became whole.
    pub given_at: Timestamp,
}

/// One person's yes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    /// The key of the person.
    pub by: KeyId,
    /// What people call that key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// The person, if the key says who that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<PersonId>,
    /// When.
    pub at: Timestamp,
    /// Of what they were shown.
    pub shown: Digest,
    /// Why, in their words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The bounds of an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// With which arguments.
    pub args: Arguments,
    /// How far it reaches.
    pub reach: Reach,
    /// Not at this moment or later.
    pub expires_at: Timestamp,
    /// For so many calls.
    pub uses: u32,
}

/// With which arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arguments {
    /// Exactly those with this digest.
    Exactly(Digest),
    /// All that fulfil these conditions.
    Where(Predicate),
}

/// How far an approval reaches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// This call only.
    Once(CallId),
    /// All calls of this session.
    Session(SessionId),
    /// All calls within the other bounds.
    Rule,
}

impl Reach {
    /// Its name on every wire.
    pub const fn name(&self) -> &'static str {
        match self {
            Reach::Once(_) => "once",
            Reach::Session(_) => "session",
            Reach::Rule => "rule",
        }
    }
}

impl Arguments {
    /// Whether these are meant.
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

/// What a person decides about, as one document. Its fields stay in alphabetical order.
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

/// Of what is shown of a held call to whoever decides about it: who asks, for what exactly, under
/// which rules. Two calls, or one call before and after a change, never share it.
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
