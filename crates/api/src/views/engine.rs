//! Who decides, as operators see it.

use ringfence_engine::{
    Tried,
    data::{Counts, Difference, Side, Status},
};
use ringfence_types::{Digest, Reason, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

/// Who decides.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PolicyStatus)]
pub(crate) struct PolicyStatusView {
    /// Of the rules in force.
    #[schema(value_type = String)]
    pub(crate) revision: Digest,
    /// Each engine that is asked, and what else belongs to it.
    pub(crate) engines: Vec<EngineView>,
    /// Tenants whose calls run although nobody answers.
    pub(crate) fail_open: Vec<String>,
}

/// One engine.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PolicyEngine)]
pub(crate) struct EngineView {
    /// Which one.
    engine: String,
    /// `well`, `stale`, `troubled` or `down`.
    state: &'static str,
    /// Of its rules, as far as known.
    #[schema(value_type = String)]
    revision: Digest,
    /// What is wrong.
    problems: Vec<String>,
}

/// What was found about policies that are tried.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CanaryList)]
pub(crate) struct CanaryListView {
    /// One per policy that is tried.
    pub(crate) canaries: Vec<CanaryView>,
}

/// What was found about one.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Canary)]
pub(crate) struct CanaryView {
    name: String,
    /// The engine that is tried.
    candidate: String,
    /// Of its rules.
    #[schema(value_type = String)]
    revision: Digest,
    /// Whose calls it judges; everybody's if there is none.
    tenants: Vec<String>,
    /// Whether calls of these tenants run while nobody answers.
    fail_open: bool,
    /// Since when it is counted; none if nothing was found yet.
    #[schema(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    counts: CanaryCountsView,
    /// The newest first; the newest 10 000 are kept.
    differences: Vec<DifferenceView>,
    /// Send as `cursor` for older ones; none at the end.
    next_cursor: Option<u64>,
}

/// What came of its questions.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CanaryCounts)]
struct CanaryCountsView {
    same: u64,
    different: u64,
    /// It gave no answer.
    unavailable: u64,
    /// It was not asked, because too many waited.
    left_out: u64,
}

/// A call about which two policies differ.
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

/// What one of two policies says.
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

impl From<Tried> for CanaryView {
    fn from(Tried { report, since, next }: Tried) -> Self {
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
