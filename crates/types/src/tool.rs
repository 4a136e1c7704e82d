//! Tool definition.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Digest, Json, Limits, SecretName, Timestamp, ToolName};

/// Tool that an agent may call: name, schemas, capabilities, limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// Name of the tool.
    pub name: ToolName,
    /// Version: three numbers separated by dots.
    pub version: String,
    /// One or two sentences for agents and people.
    pub description: String,
    /// Source of the tool.
    pub origin: Origin,
    /// Digest of definition, schemas and code.
    pub digest: Digest,
    /// Schema of the arguments.
    pub input_schema: Json,
    /// Schema of the result.
    pub output_schema: Json,
    /// Declared capabilities, as policy knows them.
    pub safety_flags: Vec<String>,
    /// Whether every call needs an approval.
    pub requires_approval: bool,
    /// Tags for search.
    pub tags: Vec<String>,
    /// Hosts that every call asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<String>,
    /// Environment variables of its programs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Secrets that every call asks for, by the variable that has the placeholder.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, SecretName>,
    /// Patterns of the files in its workspace that are stored as artifacts when a call ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
    /// Tools that its programs may call; `*` for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Python packages that its code imports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<String>,
    /// Imported image whose files it has, instead of the host's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Limits of one call.
    pub limits: Limits,
    /// Registration time of this version.
    pub created_at: Timestamp,
}

/// Source of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Part of the binary.
    Builtin,
    /// A skill folder beside the server.
    Folder,
    /// An uploaded skill folder.
    Upload,
    /// An imported manifest.
    Manifest,
    /// An operation of an imported OpenAPI document.
    Openapi,
    /// A tool of an MCP server.
    Mcp,
}

impl Origin {
    /// Name on every wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::Folder => "folder",
            Self::Upload => "upload",
            Self::Manifest => "manifest",
            Self::Openapi => "openapi",
            Self::Mcp => "mcp",
        }
    }

    /// Whether its tools are active without an approval: the operator put them there.
    pub const fn is_born_active(self) -> bool {
        matches!(self, Self::Builtin | Self::Folder | Self::Upload)
    }
}

/// Flags of tools without effects outside their own sandbox.
const HARMLESS: &[&str] = &["none", "pii_risk", "file_system"];

impl Tool {
    /// Whether a second run does no harm, because the tool has no effect outside its sandbox. A
    /// tool with an unknown flag or without any flag is not pure.
    pub fn is_pure(&self) -> bool {
        !self.safety_flags.is_empty()
            && self.safety_flags.iter().all(|flag| HARMLESS.contains(&flag.as_str()))
    }

    /// Reference that a call keeps.
    pub fn reference(&self) -> ToolRef {
        ToolRef { name: self.name.clone(), version: self.version.clone(), digest: self.digest }
    }
}

/// Reference to exactly one version of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolRef {
    /// Name of the tool.
    pub name: ToolName,
    /// Version of the tool.
    pub version: String,
    /// Digest of the tool.
    pub digest: Digest,
}
