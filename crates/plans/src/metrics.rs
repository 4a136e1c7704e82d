//! Counts of plans.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// Counts. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    events: Family<KindLabel, Counter>,
    driven: Gauge,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: String,
}

impl Metrics {
    /// Shows them in a registry.
    pub fn register(&self, to: &mut Registry) {
        let about = "Events of plans by kind, such as planning:step:complete";
        to.register("plan_events", about, self.events.clone());
        to.register("plans_driven", "Plans that this process drives", self.driven.clone());
    }

    /// Counts events; their kinds are a closed list of ours.
    pub(crate) fn events(&self, kinds: &[String]) {
        for kind in kinds {
            self.events.get_or_create(&KindLabel { kind: kind.clone() }).inc();
        }
    }

    pub(crate) fn driven(&self, count: usize) {
        self.driven.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}
