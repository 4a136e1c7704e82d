//! Labels, and names that are kept few.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use prometheus_client::encoding::EncodeLabelSet;

use super::{MOST_NAMES, OTHER};

/// Tool and outcome.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ToolOutcome {
    pub(super) tool: String,
    pub(super) outcome: String,
}

/// Tool and decision.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ToolDecision {
    pub(super) tool: String,
    pub(super) decision: &'static str,
}

/// Tool.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfTool {
    pub(super) tool: String,
}

/// Tool and reason.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ToolReason {
    pub(super) tool: String,
    pub(super) reason: String,
}

/// Tool and result.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ToolResult {
    pub(super) tool: String,
    pub(super) result: &'static str,
}

/// Result.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfResult {
    pub(super) result: &'static str,
}

/// State.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfState {
    pub(super) state: &'static str,
}

/// Language and how its sandboxes come about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfPool {
    pub(super) language: &'static str,
    pub(super) isolation: &'static str,
}

/// Names that others make up; those beyond a number are one.
#[derive(Debug, Default)]
pub(super) struct Names(Mutex<HashSet<String>>);

impl Names {
    pub(super) fn name(&self, name: &str) -> String {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = known.contains(name);
        if !is_known && known.len() >= MOST_NAMES {
            return OTHER.to_owned();
        }
        if !is_known {
            known.insert(name.to_owned());
        }
        name.to_owned()
    }
}
