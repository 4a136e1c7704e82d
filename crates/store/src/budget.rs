//! Budgets: how much calls of a tenant or of one key may take in a period.

use std::time::Duration;

use ringfence_types::{KeyId, TenantId};

use crate::Period;

/// Subject of a budget. There is one budget for each.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BudgetFor {
    /// The tenant.
    pub tenant: TenantId,
    /// One key of the tenant; all its calls without one.
    pub key: Option<KeyId>,
    /// The period in which it is used up, and after which it is whole again.
    pub per: Period,
}

/// Bounds of the resources that calls may take in a period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// Subject of the budget.
    pub of: BudgetFor,
    /// Bounds of it.
    pub bounds: BudgetBounds,
}

/// Bounds of a budget; what has none is not bounded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BudgetBounds {
    /// Calls.
    pub calls: Option<u64>,
    /// CPU time of sandboxes.
    pub cpu: Option<Duration>,
    /// Bytes printed by programs, and of results.
    pub output_bytes: Option<u64>,
    /// Tokens that models read and write.
    pub tokens: Option<u64>,
}

impl BudgetBounds {
    /// Whether nothing is bounded.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
