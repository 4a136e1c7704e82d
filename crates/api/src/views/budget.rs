//! Budgets as clients see them.

use ringfence_engine::{BudgetState, data::Period};
use ringfence_types::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

/// Budgets of a tenant.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BudgetList)]
pub(crate) struct BudgetListView {
    pub(crate) budgets: Vec<BudgetView>,
}

/// A budget and how much of it is gone in the present period.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Budget)]
pub(crate) struct BudgetView {
    tenant: String,
    /// The key whose calls it is for; all calls of the tenant without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    key_id: Option<String>,
    /// `day` or `hour`, in UTC.
    per: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    calls: Option<AmountView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_seconds: Option<AmountView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_bytes: Option<AmountView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<AmountView>,
    /// When the period is over and the budget whole again.
    #[schema(value_type = String, format = DateTime)]
    renewed_at: Timestamp,
}

/// One bound of a budget.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BudgetAmount)]
struct AmountView {
    limit: f64,
    /// By calls that ended.
    used: f64,
    /// For calls that run.
    reserved: f64,
}

impl BudgetView {
    pub(crate) fn of(state: &BudgetState) -> Self {
        let BudgetState { budget, used, reserved, renewed_at } = state;
        let (of, bounds) = (&budget.of, &budget.bounds);
        let count = |limit: Option<u64>, used: u64, reserved: u64| {
            limit.map(|limit| AmountView {
                limit: limit as f64,
                used: used as f64,
                reserved: reserved as f64,
            })
        };
        Self {
            tenant: of.tenant.to_string(),
            key_id: of.key.map(|key| key.to_string()),
            per: match of.per {
                Period::Hour => "hour",
                Period::Day => "day",
            },
            calls: count(bounds.calls, used.calls, reserved.calls),
            cpu_seconds: bounds.cpu.map(|limit| AmountView {
                limit: limit.as_secs_f64(),
                used: used.cpu.as_secs_f64(),
                reserved: reserved.cpu.as_secs_f64(),
            }),
            output_bytes: count(bounds.output_bytes, used.output_bytes, reserved.output_bytes),
            tokens: count(bounds.tokens, used.tokens.total(), reserved.tokens.total()),
            renewed_at: *renewed_at,
        }
    }
}
