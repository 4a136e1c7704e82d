//! What policy said about a call.

use serde::{Deserialize, Serialize};

use crate::{ApprovalId, Digest, Obligations};

/// One of three answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It may run.
    Allow,
    /// It waits for a person, or for policy to change.
    Hold,
    /// It may not run.
    Deny,
}

impl Verdict {
    /// Its name on every wire.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Allow => "allow",
            Verdict::Hold => "hold",
            Verdict::Deny => "deny",
        }
    }
}

/// Why, by rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// The rule's name.
    pub rule: String,
    /// For a person.
    pub message: String,
}

/// A decision as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The answer.
    pub verdict: Verdict,
    /// Why.
    pub reasons: Vec<Reason>,
    /// What an allowed call must keep to.
    #[serde(default)]
    pub obligations: Obligations,
    /// How many different people must approve a held call; one if it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvals: Option<u32>,
    /// The approval that it was allowed by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalId>,
    /// Which engine answered.
    pub engine: String,
    /// Of the rules that were in force.
    pub policy: Digest,
    /// Of the document that was judged.
    pub input: Digest,
    /// Nobody answered, and the call was allowed because an operator set its tenant to fail open.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fail_open: bool,
}
