//! What policy said about a call.

use serde::{Deserialize, Serialize};

use crate::{ApprovalId, Bytes, Cpus, Digest, Isolation, Limits};

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

/// What an allowed call must keep to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Obligations {
    /// Limits that may only lower the tool's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitCaps>,
    /// How the sandbox must come about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
}

/// Caps on some limits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitCaps {
    /// Seconds of wall time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_secs: Option<u64>,
    /// Bytes of memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Processors, in thousandths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_millis: Option<u32>,
    /// Processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<u32>,
}

impl LimitCaps {
    /// The lower of each pair.
    #[must_use]
    pub fn apply(&self, mut limits: Limits) -> Limits {
        if let Some(secs) = self.wall_secs {
            limits.wall = limits.wall.min(std::time::Duration::from_secs(secs));
        }
        if let Some(bytes) = self.memory_bytes {
            limits.memory = limits.memory.min(Bytes(bytes));
        }
        if let Some(millis) = self.cpu_millis {
            limits.cpus = limits.cpus.min(Cpus(millis));
        }
        if let Some(processes) = self.processes {
            limits.processes = limits.processes.min(processes);
        }
        limits
    }
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
}
