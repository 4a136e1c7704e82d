//! Metrics of exported and dropped spans.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

/// Reason why a span was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The queue was full.
    QueueFull,
    /// The receiver was unreachable, or did not answer in time.
    Unreachable,
    /// The receiver rejected it.
    Rejected,
}

impl Reason {
    const fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Unreachable => "unreachable",
            Self::Rejected => "rejected",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfReason {
    reason: &'static str,
}

/// Number of delivered and dropped spans. Cheap to clone; clones share the counters.
#[derive(Debug, Clone)]
pub struct Counts {
    delivered: Counter,
    dropped: Family<OfReason, Counter>,
}

impl Default for Counts {
    fn default() -> Self {
        let counts = Self { delivered: Counter::default(), dropped: Family::default() };
        // Created at zero, so that a first drop is an increase and not a new series.
        for reason in [Reason::QueueFull, Reason::Unreachable, Reason::Rejected] {
            counts.dropped(reason, 0);
        }
        counts
    }
}

impl Counts {
    /// Registers the metrics.
    pub fn register(&self, to: &mut Registry) {
        to.register("otlp_spans_delivered", "Spans that were received", self.delivered.clone());
        to.register("otlp_spans_dropped", "Spans that were not, by reason", self.dropped.clone());
    }

    /// Number of delivered spans.
    pub fn total_delivered(&self) -> u64 {
        self.delivered.get()
    }

    /// Number of dropped spans, for any reason.
    pub fn total_dropped(&self) -> u64 {
        let reasons = [Reason::QueueFull, Reason::Unreachable, Reason::Rejected];
        reasons.map(|reason| self.of(reason).get()).iter().sum()
    }

    pub(crate) fn delivered(&self, spans: u64) {
        self.delivered.inc_by(spans);
    }

    pub(crate) fn dropped(&self, reason: Reason, spans: u64) {
        self.of(reason).inc_by(spans);
    }

    fn of(&self, reason: Reason) -> Counter {
        self.dropped.get_or_create_owned(&OfReason { reason: reason.name() })
    }
}
