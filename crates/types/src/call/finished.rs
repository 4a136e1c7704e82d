//! What a call that ran, or tried to, left behind.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    CallId, Digest, ErrorCode, Isolation, Json, Layers, Outcome, Timestamp, Truncated, Usage,
};

/// The end of a call that was dispatched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// The result, or why there is none.
    pub produced: Produced,
    /// Of the true result, where the one that is kept is redacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub true_result: Option<Digest>,
    /// In the form of the skills API; empty without a result.
    pub outputs_hash: String,
    /// How its program ended, if one ran.
    pub outcome: Option<Outcome>,
    /// What it printed.
    pub stdout: Stream,
    /// What it complained.
    pub stderr: Stream,
    /// What it used, if a sandbox ran it.
    pub usage: Option<Usage>,
    /// How its sandbox came about, if there was one.
    pub isolation: Option<Isolation>,
    /// The walls that stood, if there was a sandbox.
    pub layers: Option<Layers>,
    /// When it began to run.
    pub started_at: Timestamp,
    /// How long it ran.
    pub duration: Duration,
    /// Where the result comes from, if nothing ran for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memoised: Option<Memoised>,
}

/// The earlier call whose result was given once more, and the entry that is its receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memoised {
    /// The call that ran.
    pub call: CallId,
    /// Where its entry stands in the ledger.
    pub entry: u64,
    /// Of that entry, as a leaf of the ledger's tree.
    pub leaf: Digest,
    /// When it ended.
    pub ended_at: Timestamp,
}

/// A result, or an error of the tool's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Produced {
    /// A result that fits the tool's output schema.
    Result(Json),
    /// Why there is none.
    Error(CallError),
}

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallError {
    /// Stable, for programs: `timeout`, `handler_failed`, `output_invalid` and so on.
    pub code: ErrorCode,
    /// For a person.
    pub message: String,
    /// What else is known, for example a traceback or what to change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Json>,
}

/// What is kept of an output stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {
    /// Bytes written by the program.
    pub length: u64,
    /// Of the bytes kept; none if nothing was written.
    pub digest: Option<Digest>,
    /// The middle that was not kept.
    pub truncated: Option<Truncated>,
}

impl Finished {
    /// Whether there is a result.
    pub const fn is_success(&self) -> bool {
        matches!(self.produced, Produced::Result(_))
    }
}
