//! Uploaded skills.

use ringfence_types::{Timestamp, ToolRef};

/// Uploaded skill, without its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadRow {
    /// Name, version and digest.
    pub tool: ToolRef,
    /// Time at which it was uploaded.
    pub at: Timestamp,
    /// Whether it was removed. The row stays, so that every process learns of it.
    pub is_removed: bool,
}
