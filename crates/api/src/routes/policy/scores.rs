//! A decision in the form of policy engines that score.

use ringfence_types::{Decision, Verdict};
use serde::Serialize;
use utoipa::ToSchema;

/// A reason as a violated rule.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Violation)]
pub(super) struct ViolationView<'a> {
    /// The rule.
    name: &'a str,
    /// Always empty: rules here are not patterns.
    pattern: &'static str,
    /// Its share of what is missing from a score of 1.
    weight: f64,
    /// Severity of the whole decision.
    severity: &'static str,
    /// The reason.
    description: &'a str,
    /// Always empty: rules here quote nothing.
    excerpt: &'static str,
}

/// Score: 1 for allow, 0.5 for hold, 0 for deny.
pub(crate) const fn score(verdict: Verdict) -> f64 {
    match verdict {
        Verdict::Allow => 1.0,
        Verdict::Hold => 0.5,
        Verdict::Deny => 0.0,
    }
}

/// Severity by score: low from 0.8, medium from 0.5, high from 0.2, else critical.
pub(crate) const fn severity(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "low",
        Verdict::Hold => "medium",
        Verdict::Deny => "critical",
    }
}

/// Reasons of a decision other than allow.
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
