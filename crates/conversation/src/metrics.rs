//! Counts and timers of conversations.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

/// Counts and timers. Clones share them.
#[derive(Debug, Clone)]
pub struct Metrics {
    requests: Family<ResultLabel, Counter>,
    latency: Histogram,
    first_token: Histogram,
    intent: Histogram,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            latency: Histogram::new(exponential_buckets(0.01, 2.0, 16)),
            first_token: Histogram::new(exponential_buckets(0.005, 2.0, 14)),
            intent: Histogram::new(exponential_buckets(0.001, 2.0, 12)),
        }
    }
}

impl Metrics {
    /// Shows them in a registry.
    pub fn register(&self, to: &mut Registry) {
        let about = "Turns of conversations by result";
        to.register("conversation_requests", about, self.requests.clone());
        let about = "Time from the message to the end of its turn";
        to.register("conversation_latency_seconds", about, self.latency.clone());
        let about = "Time from the message to the first part of the answer";
        to.register("conversation_first_token_seconds", about, self.first_token.clone());
        let about = "Time to analyse a message: intent, slots, safety tags";
        to.register("slm_intent_duration_seconds", about, self.intent.clone());
    }

    pub(crate) fn ended(&self, result: &'static str, took: Duration) {
        self.requests.get_or_create(&ResultLabel { result }).inc();
        self.latency.observe(took.as_secs_f64());
    }

    pub(crate) fn first_token(&self, took: Duration) {
        self.first_token.observe(took.as_secs_f64());
    }

    pub(crate) fn analysed(&self, took: Duration) {
        self.intent.observe(took.as_secs_f64());
    }
}
