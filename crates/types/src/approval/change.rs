//! Why an approval does not apply.

use std::fmt;

use super::{Approval, Reach};
use crate::{CallId, Digest, Json, KeyId, PersonaId, SessionId, TenantId, Timestamp};

/// What an approval is held against: a call that is about to run.
#[derive(Debug, Clone, Copy)]
pub struct Presented<'a> {
    /// Whose.
    pub tenant: &'a TenantId,
    /// The call.
    pub call: CallId,
    /// What it belongs to.
    pub session: Option<&'a SessionId>,
    /// Of the tool that would run.
    pub tool: Digest,
    /// The arguments.
    pub args: &'a Json,
    /// Of the arguments.
    pub args_digest: Digest,
    /// Who made it.
    pub key: KeyId,
    /// On whose behalf.
    pub persona: Option<&'a PersonaId>,
    /// Of the rules in force.
    pub policy: Digest,
    /// What time it is.
    pub now: Timestamp,
    /// How many other calls have used the approval.
    pub used: u32,
    /// Whether somebody took it back.
    pub is_revoked: bool,
    /// Whether a key that gave it was revoked since.
    pub is_withdrawn: bool,
}

/// One thing that is not as it was when the approval was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Another tenant's.
    Tenant,
    /// Another call, or another session.
    Reach(&'static str),
    /// The tool.
    Tool {
        /// That was approved.
        was: Digest,
        /// That would run.
        is: Digest,
    },
    /// The arguments, and what they had to be.
    Args(String),
    /// Who is asking.
    Key,
    /// On whose behalf.
    Persona,
    /// The rules.
    Policy {
        /// When it was given.
        was: Digest,
        /// Now.
        is: Digest,
    },
    /// Its time is over.
    Expired(Timestamp),
    /// So many calls used it.
    UsedUp(u32),
    /// Somebody took it back.
    Revoked,
    /// A key that gave it was revoked: nobody knows in whose hands it was.
    Withdrawn,
}

impl Approval {
    /// Everything that keeps it from applying; nothing if it applies.
    pub fn changes(&self, to: &Presented<'_>) -> Vec<Change> {
        let terms = &self.terms;
        let within = match &terms.reach {
            Reach::Once(call) => *call == to.call,
            Reach::Session(session) => Some(session) == to.session,
            Reach::Rule => true,
        };
        let differs = [
            (self.tenant != *to.tenant).then_some(Change::Tenant),
            (!within).then_some(Change::Reach(terms.reach.name())),
            (self.tool.digest != to.tool)
                .then_some(Change::Tool { was: self.tool.digest, is: to.tool }),
            (!terms.args.include(to.args, to.args_digest))
                .then(|| Change::Args(terms.args.to_string())),
            (self.key != to.key).then_some(Change::Key),
            (self.persona.as_ref() != to.persona).then_some(Change::Persona),
            (self.policy != to.policy)
                .then_some(Change::Policy { was: self.policy, is: to.policy }),
            (to.now >= terms.expires_at).then_some(Change::Expired(terms.expires_at)),
            (to.used >= terms.uses).then_some(Change::UsedUp(terms.uses)),
            to.is_revoked.then_some(Change::Revoked),
            to.is_withdrawn.then_some(Change::Withdrawn),
        ];
        differs.into_iter().flatten().collect()
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Tenant => f.write_str("the approval is of another tenant"),
            Change::Reach("once") => f.write_str("the approval is for another call"),
            Change::Reach(_) => f.write_str("the approval is for another session"),
            Change::Tool { was, is } => write!(f, "the tool is {is}, and {was} was approved"),
            Change::Args(bounds) => write!(f, "the arguments differ: approved was {bounds}"),
            Change::Key => f.write_str("another key makes the call"),
            Change::Persona => f.write_str("the call is on behalf of another persona"),
            Change::Policy { was, is } => {
                write!(f, "the policy is {is}, and under {was} it was approved")
            }
            Change::Expired(at) => write!(f, "the approval ended at {at}"),
            Change::UsedUp(uses) => write!(f, "the approval was for {uses} calls, which were made"),
            Change::Revoked => f.write_str("the approval was revoked"),
            Change::Withdrawn => f.write_str("a key that gave the approval was revoked"),
        }
    }
}
