//! Policy decision about a call.

use serde::{Deserialize, Serialize};

use crate::{ApprovalId, Digest, Obligations};

/// Verdict of policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The call may run.
    Allow,
    /// The call waits for a person, or for policy to change.
    Hold,
    /// The call may not run.
    Deny,
}

impl Verdict {
    /// Name on every wire.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Allow => "allow",
            Verdict::Hold => "hold",
            Verdict::Deny => "deny",
        }
    }
}

/// Reason of a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// Name of the rule.
    pub rule: String,
    /// Message for a person.
    pub message: String,
}

/// Recorded decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The verdict.
    pub verdict: Verdict,
    /// Reasons for the verdict.
    pub reasons: Vec<Reason>,
    /// Obligations of an allowed call.
    #[serde(default)]
    pub obligations: Obligations,
    /// Number of different people who must approve a held call; one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvals: Option<u32>,
    /// Approval by which the call was allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalId>,
    /// Name of the engine that answered.
    pub engine: String,
    /// Digest of the rules in force.
    pub policy: Digest,
    /// Digest of the judged document.
    pub input: Digest,
    /// Whether the call was allowed without an answer, because an operator set its tenant to fail open.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fail_open: bool,
}
