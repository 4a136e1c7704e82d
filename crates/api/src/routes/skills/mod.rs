//! Skills API of the Code Executor Service, field by field.
//!
//! Differences, all of them additions: instants end in `Z`, a failed execution also has `error`
//! with a stable code, failures have versions too, and errors of the request itself are problems of
//! RFC 9457 with that service's `detail`.

pub(crate) mod execute;
pub(crate) mod read;
pub(crate) mod register;
pub(crate) mod remove;

use ringfence_engine::data::ToolEntry;
use ringfence_types::{Digest, Json, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

/// A skill.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SkillMetadata)]
pub(crate) struct SkillView<'a> {
    name: &'a str,
    version: &'a str,
    description: &'a str,
    safety_flags: &'a [String],
    requires_approval: bool,
    #[schema(value_type = Object)]
    input_schema: &'a Json,
    #[schema(value_type = Object)]
    output_schema: &'a Json,
    /// File and function, such as `handler.summarize`.
    handler_path: String,
    tags: &'a [String],
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Digest of definition, schemas and code.
    #[schema(value_type = String)]
    digest: Digest,
}

impl<'a> SkillView<'a> {
    pub(crate) fn of(entry: &'a ToolEntry) -> Self {
        let tool = &entry.tool;
        Self {
            name: tool.name.as_str(),
            version: &tool.version,
            description: &tool.description,
            safety_flags: &tool.safety_flags,
            requires_approval: tool.requires_approval,
            input_schema: &tool.input_schema,
            output_schema: &tool.output_schema,
            handler_path: entry.runs.handler(tool),
            tags: &tool.tags,
            created_at: tool.created_at,
            digest: tool.digest,
        }
    }
}
