//! What a held call waits for.

use serde::{Deserialize, Serialize};

use crate::{Arguments, Digest, Json, Reach, Reason, Terms, Timestamp, Vote};

/// A call parked by policy: why, until when, and how far people have come with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hold {
    /// Why, by rule.
    pub reasons: Vec<Reason>,
    /// When it was first held.
    pub since: Timestamp,
    /// When it ends by itself, undecided.
    pub expires_at: Timestamp,
    /// How many different people must approve.
    pub needed: u32,
    /// What those who approved so far agreed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<Proposal>,
    /// Who they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub votes: Vec<Vote>,
    /// Why an approval that was given does not apply, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
}

/// What one person approved and others may agree to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// The bounds.
    pub terms: Terms,
    /// Of the call as it was shown.
    pub shown: Digest,
}

/// Arguments that a person put in place of those that were asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Edited {
    /// The arguments.
    pub args: Json,
    /// Of them.
    pub args_digest: Digest,
    /// Of them, in the form of the skills API.
    pub inputs_hash: String,
    /// Who did it.
    pub by: crate::KeyId,
    /// When.
    pub at: Timestamp,
}

impl Hold {
    /// A hold that nobody has looked at.
    pub fn new(reasons: Vec<Reason>, since: Timestamp, expires_at: Timestamp, needed: u32) -> Self {
        let (proposal, votes, changed) = (None, Vec::new(), Vec::new());
        Self { reasons, since, expires_at, needed, proposal, votes, changed }
    }
}

impl Terms {
    /// This call, exactly as shown, once.
    pub fn once(call: crate::CallId, args: Digest, expires_at: Timestamp) -> Self {
        let (args, reach) = (Arguments::Exactly(args), Reach::Once(call));
        Self { args, reach, expires_at, uses: 1 }
    }
}
