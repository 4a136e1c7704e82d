//! End of a call that ran, or failed to start.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    CallFiles, CallId, Digest, ErrorCode, Isolation, Json, Layers, Outcome, Timestamp, Truncated,
    Usage,
};

/// The end of a call that was dispatched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// The result, or the error.
    pub produced: Produced,
    /// Digest of the unmasked result, where the stored one is redacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub true_result: Option<Digest>,
    /// Digest of the result in the form of the skills API; empty without a result.
    pub outputs_hash: String,
    /// Outcome of its program, if one ran.
    pub outcome: Option<Outcome>,
    /// Standard output.
    pub stdout: Stream,
    /// Standard error.
    pub stderr: Stream,
    /// Resources used, if it ran in a sandbox.
    pub usage: Option<Usage>,
    /// Way in which the sandbox was started, if there was one.
    pub isolation: Option<Isolation>,
    /// Isolation layers, if there was a sandbox.
    pub layers: Option<Layers>,
    /// Files that its program left in the workspace, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Box<CallFiles>>,
    /// Start time.
    pub started_at: Timestamp,
    /// Duration of the run.
    pub duration: Duration,
    /// Source of the result, if nothing ran for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memoised: Option<Memoised>,
    /// Tokens of a model server, if one was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
}

/// Tokens of requests to model servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Tokens that the model read.
    pub input: u64,
    /// Tokens that the model wrote.
    pub output: u64,
}

impl Tokens {
    /// Both together.
    pub const fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// The sum of two requests.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
        }
    }
}

/// The earlier call whose result was reused, and the entry of its receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memoised {
    /// The call that ran.
    pub call: CallId,
    /// Index of its entry in the ledger.
    pub entry: u64,
    /// Leaf of that entry in the ledger's tree.
    pub leaf: Digest,
    /// Time of its end.
    pub ended_at: Timestamp,
}

/// A result, or an error of the tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Produced {
    /// A result that fits the tool's output schema.
    Result(Json),
    /// The error.
    Error(CallError),
}

/// Error of a call without a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallError {
    /// Stable code: `timeout`, `handler_failed`, `output_invalid` and so on.
    pub code: ErrorCode,
    /// Message for a person.
    pub message: String,
    /// Details, for example a traceback or the setting to change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Json>,
}

/// Stored part of an output stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {
    /// Bytes written by the program.
    pub length: u64,
    /// Digest of the stored bytes; none if nothing was written.
    pub digest: Option<Digest>,
    /// The gap in the middle, if bytes were dropped.
    pub truncated: Option<Truncated>,
}

impl Finished {
    /// Whether there is a result.
    pub const fn is_success(&self) -> bool {
        matches!(self.produced, Produced::Result(_))
    }
}
