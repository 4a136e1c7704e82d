//! State of tools that is kept in the store: definitions with their grants, and statuses.

use std::{collections::HashMap, sync::Arc};

use ringfence_types::{Digest, Origin, Timestamp, ToolName, ToolPermissions, ToolRef, ToolStatus};

use crate::{definition::Definition, entry::Entry};

/// State of tools, as the store has it.
#[derive(Debug, Default)]
pub struct Standing {
    /// Versions with a definition.
    pub defined: Vec<Arc<DefinedTool>>,
    /// Statuses of versions that files of the server define; one that is not here is active.
    pub statuses: HashMap<Digest, ToolStatus>,
    /// Tools of the server's files that were switched off. A changed file does not switch one on again.
    pub withdrawn: HashMap<ToolName, ToolStatus>,
}

/// One version with a definition.
#[derive(Debug, PartialEq)]
pub struct DefinedTool {
    /// The version.
    pub tool: ToolRef,
    /// Kind of source.
    pub origin: Origin,
    /// Its definition; none of one that cannot be read.
    pub definition: Option<Definition>,
    /// Its status.
    pub status: ToolStatus,
    /// Permissions that were granted.
    pub grants: ToolPermissions,
    /// Time of its first row.
    pub created_at: Timestamp,
}

/// Version that exists and cannot be called.
#[derive(Debug, Clone)]
pub struct Inactive {
    /// The version.
    pub tool: ToolRef,
    /// Kind of source.
    pub origin: Origin,
    /// Its status.
    pub status: ToolStatus,
    /// Its entry, if files of the server define it.
    pub entry: Option<Arc<Entry>>,
}

impl PartialEq for Inactive {
    fn eq(&self, other: &Self) -> bool {
        self.tool == other.tool && self.status == other.status
    }
}

impl Standing {
    /// Status of a version that files of the server define.
    pub(crate) fn status_of(&self, entry: &Entry) -> ToolStatus {
        let known = self.statuses.get(&entry.tool.digest);
        known
            .or_else(|| self.withdrawn.get(&entry.tool.name))
            .copied()
            .unwrap_or(ToolStatus::Active)
    }
}
