//! View of a tool.

use ringfence_engine::{
    CircuitState,
    data::{Broken, ToolEntry},
};
use ringfence_types::{Digest, Json, Limits, Origin, SandboxNetwork, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

/// A tool. The first three fields are those that agents need.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Tool)]
pub(crate) struct ToolView<'a> {
    name: &'a str,
    description: &'a str,
    /// The schema of its arguments.
    #[schema(value_type = Object)]
    parameters: &'a Json,
    /// The schema of its result.
    #[schema(value_type = Object)]
    output_schema: &'a Json,
    version: &'a str,
    /// All versions, oldest first.
    versions: Vec<&'a str>,
    /// Digest of definition, schemas and code.
    #[schema(value_type = String)]
    digest: Digest,
    /// `builtin`, `folder` or `upload`.
    #[schema(value_type = String)]
    origin: Origin,
    /// Declared capabilities, as policy knows them.
    safety_flags: &'a [String],
    /// Whether it has no effect outside its sandbox, so that a second run does no harm.
    pure: bool,
    /// Whether its results are remembered and reused for equal arguments.
    memoised: bool,
    requires_approval: bool,
    tags: &'a [String],
    limits: LimitsView,
    /// Its circuit breaker for this tenant, if it failed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    circuit: Option<CircuitView>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

/// Circuit breaker of a tool for one tenant.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Circuit)]
pub(crate) struct CircuitView {
    /// `closed`: calls run; `open`: calls are refused until `retry_at`; `half_open`: one call may try.
    state: &'static str,
    /// Failures of the server, and timeouts of a skill, in a row.
    failures: u32,
    /// Time at which one call may try.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    retry_at: Option<Timestamp>,
}

impl CircuitView {
    pub(crate) fn of(circuit: &CircuitState, now: Timestamp) -> Self {
        let state = match circuit.retry_at {
            None => "closed",
            Some(at) if at > now => "open",
            Some(_) => "half_open",
        };
        Self { state, failures: circuit.failures, retry_at: circuit.retry_at }
    }
}

/// Limits of one call.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ToolLimits)]
struct LimitsView {
    wall_ms: u64,
    cpu_millis: u32,
    memory_bytes: u64,
    processes: u32,
    disk_bytes: u64,
    output_bytes: u64,
    /// `none` or `loopback`.
    #[schema(value_type = String)]
    network: SandboxNetwork,
    terminals: u32,
}

impl<'a> ToolView<'a> {
    pub(crate) fn of(
        entry: &'a ToolEntry,
        versions: Vec<&'a str>,
        memoised: bool,
        circuit: Option<CircuitView>,
    ) -> Self {
        let tool = &entry.tool;
        Self {
            name: tool.name.as_str(),
            description: &tool.description,
            parameters: &tool.input_schema,
            output_schema: &tool.output_schema,
            version: &tool.version,
            versions,
            digest: tool.digest,
            origin: tool.origin,
            safety_flags: &tool.safety_flags,
            pure: tool.is_pure(),
            memoised,
            requires_approval: tool.requires_approval,
            tags: &tool.tags,
            limits: LimitsView::of(&tool.limits),
            circuit,
            created_at: tool.created_at,
        }
    }
}

impl LimitsView {
    fn of(limits: &Limits) -> Self {
        Self {
            wall_ms: u64::try_from(limits.wall.as_millis()).unwrap_or(u64::MAX),
            cpu_millis: limits.cpus.0,
            memory_bytes: limits.memory.0,
            processes: limits.processes,
            disk_bytes: limits.disk.0,
            output_bytes: limits.output.0,
            network: limits.network,
            terminals: limits.terminals,
        }
    }
}

/// All tools, the newest version of each.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ToolList)]
pub(crate) struct ToolListView<'a> {
    pub(crate) tools: Vec<ToolView<'a>>,
    pub(crate) count: usize,
    /// Broken skills with their problems.
    pub(crate) broken: Vec<BrokenView<'a>>,
}

/// A broken skill.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrokenTool)]
pub(crate) struct BrokenView<'a> {
    name: &'a str,
    problems: &'a [String],
}

impl<'a> BrokenView<'a> {
    /// The view; the path on the host is not shown.
    pub(crate) fn of(broken: &'a Broken) -> Self {
        Self { name: &broken.name, problems: &broken.problems }
    }
}
