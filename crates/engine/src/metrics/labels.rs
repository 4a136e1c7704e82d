//! Metric labels, and bounded sets of label values.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use prometheus_client::encoding::EncodeLabelSet;

use super::{MAX_LABEL_NAMES, OTHER_LABEL};

/// Labels of calls: tool and outcome.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ToolOutcome {
    pub(super) tool: String,
    pub(super) outcome: String,
}

/// Labels of decisions: tool and decision.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ToolDecision {
    pub(super) tool: String,
    pub(super) decision: &'static str,
}

/// Label: tool.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ToolLabel {
    pub(super) tool: String,
}

/// Labels of holds: tool and rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ToolReason {
    pub(super) tool: String,
    pub(super) reason: String,
}

/// Labels of memo lookups: tool and result.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ToolLookup {
    pub(super) tool: String,
    pub(super) result: &'static str,
}

/// Label: result.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ResultLabel {
    pub(super) result: &'static str,
}

/// Label: name of a service.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct DependencyLabel {
    pub(super) name: &'static str,
}

/// Label: state.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct StateLabel {
    pub(super) state: &'static str,
}

/// Label: kind of record.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RecordLabel {
    pub(super) kind: &'static str,
}

/// Labels of a pool: language and start tier.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct PoolLabels {
    pub(super) language: &'static str,
    pub(super) isolation: &'static str,
}

/// Label values chosen by clients and authors; those beyond the bound share one.
#[derive(Debug, Default)]
pub(super) struct Names(Mutex<HashSet<String>>);

impl Names {
    pub(super) fn name(&self, name: &str) -> String {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = known.contains(name);
        if !is_known && known.len() >= MAX_LABEL_NAMES {
            return OTHER_LABEL.to_owned();
        }
        if !is_known {
            known.insert(name.to_owned());
        }
        name.to_owned()
    }
}
