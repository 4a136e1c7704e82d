//! Views of policy engines and canaries, for operators.

use ringfence_engine::{
    CanaryFindings,
    data::{Counts, Difference, Side, Status},
};
use ringfence_types::{Digest, Reason, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

/// State of policy.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PolicyStatus)]
pub(crate) struct PolicyStatusView {
    /// Revision of the rules in force.
    #[schema(value_type = String)]
    pub(crate) revision: Digest,
    /// All engines.
    pub(crate) engines: Vec<EngineView>,
    /// Tenants whose calls run while no engine answers.
    pub(crate) fail_open: Vec<String>,
}

/// One engine.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PolicyEngine)]
pub(crate) struct EngineView {
    /// Name of the engine.
    engine: String,
    /// `well`, `stale`, `troubled` or `down`.
    state: &'static str,
    /// Revision of its rules, as far as known.
    #[schema(value_type = String)]
    revision: Digest,
    /// Problems.
    problems: Vec<String>,
}

/// Findings about canary policies.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CanaryList)]
pub(crate) struct CanaryListView {
    /// Canaries.
    pub(crate) canaries: Vec<CanaryView>,
}

/// Findings about one canary policy.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Canary)]
pub(crate) struct CanaryView {
    name: String,
    /// The engine of the canary.
    candidate: String,
    /// Revision of its rules.
    #[schema(value_type = String)]
    revision: Digest,
    /// Tenants whose calls it evaluates; empty for all.
    tenants: Vec<String>,
    /// Whether calls of these tenants run while no engine answers.
    fail_open: bool,
    /// Time of the first finding; none without findings.
    #[schema(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    counts: CanaryCountsView,
    /// Differences, newest first; the newest 10 000 are stored.
    differences: Vec<DifferenceView>,
    /// Cursor of older differences; none at the end.
    next_cursor: Option<u64>,
}

/// Counts of its answers.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CanaryCounts)]
struct CanaryCountsView {
    same: u64,
    different: u64,
    /// No answer.
    unavailable: u64,
    /// Not asked, because too many were waiting.
    left_out: u64,
}

/// A call about which the two policies differ.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CanaryDifference)]
struct DifferenceView {
    at: String,
    call_id: String,
    tenant: String,
    tool: String,
    enforced: SideView,
    candidate: SideView,
}

/// Answer of one of the two policies.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CanarySide)]
struct SideView {
    /// `allow`, `hold` or `deny`.
    verdict: &'static str,
    #[schema(value_type = Vec<Object>)]
    reasons: Vec<Reason>,
    #[schema(value_type = String)]
    policy: Digest,
}

impl From<Status> for EngineView {
    fn from(status: Status) -> Self {
        let Status { engine, revision, state, problems } = status;
        Self { engine, state: state.name(), revision, problems }
    }
}

impl From<CanaryFindings> for CanaryView {
    fn from(CanaryFindings { report, since, next }: CanaryFindings) -> Self {
        let Counts { same, different, unavailable, left_out } = report.counts;
        Self {
            name: report.name,
            candidate: report.candidate,
            revision: report.revision,
            tenants: report.tenants.iter().map(ToString::to_string).collect(),
            fail_open: report.fail_open,
            since,
            counts: CanaryCountsView { same, different, unavailable, left_out },
            differences: report.differences.into_iter().map(DifferenceView::from).collect(),
            next_cursor: next,
        }
    }
}

impl From<Difference> for DifferenceView {
    fn from(difference: Difference) -> Self {
        Self {
            at: difference.at.to_string(),
            call_id: difference.call_id.to_string(),
            tenant: difference.tenant.to_string(),
            tool: difference.tool.to_string(),
            enforced: difference.enforced.into(),
            candidate: difference.candidate.into(),
        }
    }
}

impl From<Side> for SideView {
    fn from(side: Side) -> Self {
        let Side { verdict, reasons, policy } = side;
        Self { verdict: verdict.name(), reasons, policy }
    }
}
