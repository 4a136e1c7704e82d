//! State of tool versions: status, request, grants, and who changed it when and why.

use ringfence_types::{
    Digest, Json, KeyId, Origin, Timestamp, ToolPermissions, ToolRef, ToolStatus,
};
use serde::{Deserialize, Serialize};

/// State of one version of a tool. It is known by its digest.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolRow {
    /// The version.
    pub tool: ToolRef,
    /// Its status.
    pub status: ToolStatus,
    /// Everything that makes the tool, as text under its digest; none if files of the server define it.
    /// It never changes.
    pub definition: Option<Json>,
    /// All else.
    pub about: ToolRowDetails,
}

/// Details of a [`ToolRow`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolRowDetails {
    /// Kind of source.
    pub origin: Origin,
    /// The source: a file, a URL, a server.
    pub source: String,
    /// Permissions that the tool asks for.
    pub asks: ToolPermissions,
    /// Permissions that were granted with the approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grants: Option<ToolPermissions>,
    /// The version whose place it is to take, because their source changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<Digest>,
    /// Key that made the last change; none if the server made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<KeyId>,
    /// Reason of the last change.
    #[serde(default)]
    pub why: String,
    /// Time of the last change.
    pub changed_at: Timestamp,
    /// Time of the first row.
    pub created_at: Timestamp,
    /// Whether calls that were running at the last change are to be stopped.
    #[serde(default)]
    pub stops_running: bool,
}

/// New state of a tool version.
#[derive(Debug, Clone, PartialEq)]
pub struct NewToolRow {
    /// Revision of the row that it takes the place of; none if there must be no row yet.
    pub seen: Option<u64>,
    /// The state.
    pub row: ToolRow,
}
