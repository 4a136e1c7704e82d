//! Reasons why an approval does not apply.

use std::fmt;

use super::{Approval, Reach};
use crate::{CallId, Digest, Json, KeyId, PersonaId, SessionId, TenantId, Timestamp};

/// Call that an approval is checked against.
#[derive(Debug, Clone, Copy)]
pub struct Presented<'a> {
    /// Tenant of the call.
    pub tenant: &'a TenantId,
    /// The call.
    pub call: CallId,
    /// Session of the call.
    pub session: Option<&'a SessionId>,
    /// Digest of the tool that would run.
    pub tool: Digest,
    /// Arguments of the call.
    pub args: &'a Json,
    /// Digest of the arguments.
    pub args_digest: Digest,
    /// Key that made the call.
    pub key: KeyId,
    /// Persona on whose behalf it was made.
    pub persona: Option<&'a PersonaId>,
    /// Digest of the rules in force.
    pub policy: Digest,
    /// Current time.
    pub now: Timestamp,
    /// Number of other calls that used the approval.
    pub used: u32,
    /// Whether the approval was revoked.
    pub is_revoked: bool,
    /// Whether a key that gave it was revoked since.
    pub is_withdrawn: bool,
}

/// Difference between the call and the terms of the approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Other tenant.
    Tenant,
    /// Other call, or other session.
    Reach(&'static str),
    /// Other version of the tool.
    Tool {
        /// Approved version.
        was: Digest,
        /// Present version.
        is: Digest,
    },
    /// Other arguments, with the expected ones.
    Args(String),
    /// Other caller.
    Key,
    /// Other persona.
    Persona,
    /// Other rules.
    Policy {
        /// Rules at the time of approval.
        was: Digest,
        /// Rules now.
        is: Digest,
    },
    /// The approval has expired.
    Expired(Timestamp),
    /// All uses of the approval are spent.
    UsedUp(u32),
    /// The approval was revoked.
    Revoked,
    /// A key that gave it was revoked, so the identity of the approver is in doubt.
    Withdrawn,
}

impl Approval {
    /// Differences that keep the approval from applying; empty if it applies.
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
