//! Usage as clients see it.

use std::time::Duration;

use ringfence_engine::data::{UsageRow, Used, start_of_hour};
use ringfence_types::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::budget::BudgetView;

/// Sums of a range of time.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = UsageList)]
pub(crate) struct UsageListView {
    /// Begin of the range.
    #[schema(value_type = String, format = DateTime)]
    pub(crate) from: Timestamp,
    /// End of the range, not included.
    #[schema(value_type = String, format = DateTime)]
    pub(crate) until: Timestamp,
    /// `day` or `hour`.
    pub(crate) per: &'static str,
    pub(crate) rows: Vec<UsageRowView>,
    /// Sum of the rows.
    pub(crate) total: UsedView,
    /// Whether there are more rows: ask for a shorter range.
    pub(crate) has_more: bool,
    /// Budgets of the tenant, and how much of each is gone.
    pub(crate) budgets: Vec<BudgetView>,
}

/// One sum. Periods without calls have no row.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = UsageRow)]
pub(crate) struct UsageRowView {
    /// Begin of the period.
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    tenant: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    #[serde(flatten)]
    used: UsedView,
}

/// Usage of several calls together.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = Used)]
pub(crate) struct UsedView {
    /// Calls that ended, however they did.
    calls: u64,
    /// Calls with an error or of unknown outcome.
    failures: u64,
    /// CPU time of their sandboxes.
    cpu_seconds: f64,
    /// Time that they ran.
    wall_seconds: f64,
    /// Bytes that their programs printed, and of their results.
    output_bytes: u64,
    /// Tokens that models read.
    input_tokens: u64,
    /// Tokens that models wrote.
    output_tokens: u64,
}

impl UsageRowView {
    pub(crate) fn of(row: &UsageRow) -> Self {
        Self {
            at: start_of_hour(row.hour),
            tenant: row.tenant.to_string(),
            key_id: row.key.map(|key| key.to_string()),
            tool: row.tool.clone(),
            used: UsedView::sum([&row.used]),
        }
    }
}

impl UsedView {
    pub(crate) fn sum<'a>(all: impl IntoIterator<Item = &'a Used>) -> Self {
        let (mut sum, mut cpu, mut wall) = (Self::default(), Duration::ZERO, Duration::ZERO);
        for used in all {
            sum.calls = sum.calls.saturating_add(used.calls);
            sum.failures = sum.failures.saturating_add(used.failures);
            sum.output_bytes = sum.output_bytes.saturating_add(used.output_bytes);
            sum.input_tokens = sum.input_tokens.saturating_add(used.tokens.input);
            sum.output_tokens = sum.output_tokens.saturating_add(used.tokens.output);
            cpu = cpu.saturating_add(used.cpu);
            wall = wall.saturating_add(used.wall);
        }
        (sum.cpu_seconds, sum.wall_seconds) = (cpu.as_secs_f64(), wall.as_secs_f64());
        sum
    }
}
