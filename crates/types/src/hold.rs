//! Hold of a call.

use serde::{Deserialize, Serialize};

use crate::{Arguments, Digest, Json, Reach, Reason, Terms, Timestamp, Vote};

/// Hold by policy: reasons, expiry, and the approvals so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hold {
    /// Reasons by rule.
    pub reasons: Vec<Reason>,
    /// Time of the first hold.
    pub since: Timestamp,
    /// Time at which the call expires undecided.
    pub expires_at: Timestamp,
    /// Number of different people who must approve.
    pub needed: u32,
    /// Terms that the approvers so far agreed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<Proposal>,
    /// Approvals so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub votes: Vec<Vote>,
    /// Reasons why an existing approval does not apply, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
}

/// Terms that one person approved and others may agree to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// Terms of the approval.
    pub terms: Terms,
    /// Digest of the call as shown.
    pub shown: Digest,
}

/// Arguments that a person put in place of the requested ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Edited {
    /// New arguments.
    pub args: Json,
    /// Digest of the new arguments.
    pub args_digest: Digest,
    /// Digest of the new arguments in the form of the skills API.
    pub inputs_hash: String,
    /// Labels of the artifacts that they name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taint: Vec<String>,
    /// Key of the person.
    pub by: crate::KeyId,
    /// Time of the edit.
    pub at: Timestamp,
}

impl Hold {
    /// Hold without approvals.
    pub fn new(reasons: Vec<Reason>, since: Timestamp, expires_at: Timestamp, needed: u32) -> Self {
        let (proposal, votes, changed) = (None, Vec::new(), Vec::new());
        Self { reasons, since, expires_at, needed, proposal, votes, changed }
    }
}

impl Terms {
    /// Terms for exactly this call, once.
    pub fn once(call: crate::CallId, args: Digest, expires_at: Timestamp) -> Self {
        let (args, reach) = (Arguments::Exactly(args), Reach::Once(call));
        Self { args, reach, expires_at, uses: 1 }
    }
}
