//! What an agent may call.

use serde::{Deserialize, Serialize};

use crate::{Digest, Json, Limits, Timestamp, ToolName};

/// Anything an agent may call: how it is named, what it takes and gives, what it may do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// Its name.
    pub name: ToolName,
    /// Three numbers with dots.
    pub version: String,
    /// One or two sentences for agents and people.
    pub description: String,
    /// Where it comes from.
    pub origin: Origin,
    /// Of everything that makes it what it is: definition, schemas, code.
    pub digest: Digest,
    /// What its arguments must look like.
    pub input_schema: Json,
    /// What its result looks like.
    pub output_schema: Json,
    /// What it may do, in the words of policy.
    pub safety_flags: Vec<String>,
    /// Whether a person decides about every call of it.
    pub requires_approval: bool,
    /// For finding it.
    pub tags: Vec<String>,
    /// What one call may use.
    pub limits: Limits,
    /// When this version became known.
    pub created_at: Timestamp,
}

/// Where a tool comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Part of the binary.
    Builtin,
    /// A skill folder beside the server.
    Folder,
    /// A skill folder that somebody sent.
    Upload,
}

/// Flags of tools that cannot change anything outside their own sandbox.
const HARMLESS: &[&str] = &["none", "pii_risk", "file_system"];

impl Tool {
    /// Whether running it a second time can do no harm: it has no effect outside its sandbox.
    /// An unknown flag may mean anything, and so may no flag at all: such a tool is not pure.
    pub fn is_pure(&self) -> bool {
        !self.safety_flags.is_empty()
            && self.safety_flags.iter().all(|flag| HARMLESS.contains(&flag.as_str()))
    }

    /// What a call keeps of it.
    pub fn reference(&self) -> ToolRef {
        ToolRef { name: self.name.clone(), version: self.version.clone(), digest: self.digest }
    }
}

/// Exactly one version of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolRef {
    /// Its name.
    pub name: ToolName,
    /// Its version.
    pub version: String,
    /// Its digest.
    pub digest: Digest,
}
