//! Data of the lifecycle of tools, as doors see it.

use std::sync::Arc;

use ringfence_ledger::ToolTransition;
use ringfence_registry::{Definition, DefinitionChange};
use ringfence_store::{Error, ToolRow};
use ringfence_types::{
    Digest, IllegalTransition, Origin, Timestamp, ToolPermissions, ToolRef, ToolStatus,
};

use super::{MAX_VERSIONS, MAX_WHY_CHARS};
use crate::ActionRefused;

/// Reason why the state of a tool was not changed.
#[derive(Debug, thiserror::Error)]
pub enum LifecycleError {
    /// Policy did not allow it.
    #[error(transparent)]
    Policy(#[from] ActionRefused),
    /// There is no such tool or version.
    #[error("there is no tool `{name}`{}", version.as_ref().map(|v| format!(" of version or digest `{v}`")).unwrap_or_default())]
    Unknown {
        /// Requested name.
        name: String,
        /// Requested version or digest.
        version: Option<String>,
    },
    /// Several versions wait for a decision.
    #[error("several versions of `{name}` wait for a decision: {}; name one", versions.join(", "))]
    Ambiguous {
        /// Requested name.
        name: String,
        /// Versions with the beginning of their digests.
        versions: Vec<String>,
    },
    /// The status does not allow it.
    #[error(transparent)]
    Illegal(#[from] IllegalTransition),
    /// The grants go beyond what the tool asks for.
    #[error("the grants go beyond what the tool asks for: {}", parts.join("; "))]
    Beyond {
        /// Parts that do.
        parts: Vec<String>,
    },
    /// The tool has no definition that could be granted anything.
    #[error("`{name}` is defined by files of the server: what it may do is written there")]
    NotGranted {
        /// Requested name.
        name: String,
    },
    /// A definition has problems.
    #[error("`{name}` cannot be used: {}", problems.join("; "))]
    Broken {
        /// Name of the tool.
        name: String,
        /// All problems.
        problems: Vec<String>,
    },
    /// The name belongs to a tool of another source.
    #[error("the name `{name}` is already taken by {holder}")]
    Taken {
        /// Requested name.
        name: String,
        /// Tool that has the name.
        holder: String,
    },
    /// The number of versions is at its limit.
    #[error("there are already {MAX_VERSIONS} versions of tools")]
    Full,
    /// The reason is too long.
    #[error("a reason has at most {MAX_WHY_CHARS} characters")]
    LongReason,
    /// The change could not be put on record.
    #[error("record the change of the tool")]
    Store(#[from] Error),
}

/// Version of a tool, as a request names it.
#[derive(Debug, Clone, Default)]
pub struct VersionChoice {
    /// Version.
    pub version: Option<String>,
    /// Digest.
    pub digest: Option<Digest>,
}

/// Outcome of a proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProposedTool {
    /// The version.
    pub tool: ToolRef,
    /// Its status.
    pub status: ToolStatus,
    /// Whether it was unknown or withdrawn before.
    pub is_new: bool,
    /// The version that was quarantined or withdrawn because of it.
    pub replaces: Option<Digest>,
}

/// Terms of an approval.
#[derive(Debug, Clone, Default)]
pub struct ToolApproval {
    /// Permissions that are granted; all that the tool asks for without them.
    pub grants: Option<ToolPermissions>,
    /// Reason.
    pub why: String,
    /// Whether it stays switched off.
    pub stays_off: bool,
}

/// One change in the lifecycle of a tool, as the ledger has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolHistoryEntry {
    /// Index of its entry.
    pub index: u64,
    /// Time of the change.
    pub at: Timestamp,
    /// The change.
    pub transition: ToolTransition,
}

/// State of one tool version, for people.
#[derive(Debug, Clone)]
pub struct ToolState {
    /// The version.
    pub tool: ToolRef,
    /// Kind of source.
    pub origin: Origin,
    /// Its status.
    pub status: ToolStatus,
    /// Its row; none if files of the server define it and its state never changed.
    pub row: Option<Arc<ToolRow>>,
    /// Its definition, if it has one that can be read.
    pub definition: Option<Definition>,
}

/// Differences between two versions of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolDifference {
    /// The version that was known before.
    pub before: ToolRef,
    /// The version that is to take its place.
    pub after: ToolRef,
    /// Differences by place.
    pub changes: Vec<DefinitionChange>,
}
