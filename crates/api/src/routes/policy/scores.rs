//! A decision in the words of policy engines that score.

use ringfence_types::{Decision, Verdict};
use serde::Serialize;
use utoipa::ToSchema;

/// A reason, in the form of a rule that was violated.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Violation)]
pub(super) struct ViolationView<'a> {
    /// The rule.
    name: &'a str,
    /// Empty: our rules are not patterns.
    pattern: &'static str,
    /// Its share of what is missing from a score of 1.
    weight: f64,
    /// As that of the whole.
    severity: &'static str,
    /// Why.
    description: &'a str,
    /// Empty: our rules quote nothing.
    excerpt: &'static str,
}

/// 1 for what is allowed, 0.5 for what waits for a person, 0 for what is denied.
pub(crate) const fn score(verdict: Verdict) -> f64 {
    match verdict {
        Verdict::Allow => 1.0,
        Verdict::Hold => 0.5,
        Verdict::Deny => 0.0,
    }
}

/// By score: from 0.8 low, from 0.5 medium, from 0.2 high, below critical.
pub(crate) const fn severity(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "low",
        Verdict::Hold => "medium",
        Verdict::Deny => "critical",
    }
}

/// The reasons of what is not allowed; what is allowed violates nothing.
pub(super) fn violations(decision: &Decision) -> Vec<ViolationView<'_>> {
    if decision.verdict == Verdict::Allow {
        return Vec::new();
    }
    let share = (1.0 - score(decision.verdict)) / decision.reasons.len().max(1) as f64;
    let weight = (share * 1e6).round() / 1e6;
    let severity = severity(decision.verdict);
    decision
        .reasons
        .iter()
        .map(|reason| ViolationView {
            name: &reason.rule,
            pattern: "",
            weight,
            severity,
            description: &reason.message,
            excerpt: "",
        })
        .collect()
}
