//! Counts of the door.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

/// Counts of the door. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    messages: Family<Labels, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    result: &'static str,
}

impl Metrics {
    /// Shows the counts in a registry.
    pub fn register(&self, to: &mut Registry) {
        let about = "Messages read from the topic of requests";
        to.register("intake_messages", about, self.messages.clone());
    }

    pub(crate) fn count(&self, result: &'static str) {
        self.messages.get_or_create(&Labels { result }).inc();
    }
}
