//! Metrics of one tool, looked up once per call.

use std::time::Duration;

use prometheus_client::metrics::{
    counter::Counter, family::Family, gauge::Gauge, histogram::Histogram,
};

use super::{
    Metrics,
    labels::{ToolDecision, ToolLabel, ToolOutcome},
};

pub(super) type Timing = Family<ToolLabel, Histogram, fn() -> Histogram>;

/// Buckets from a tool that only reads its arguments to one that runs for minutes.
pub(super) fn buckets() -> Histogram {
    Histogram::new([
        0.000_1, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
        10.0, 30.0, 60.0, 300.0,
    ])
}

/// Metrics of one tool.
#[derive(Debug)]
pub(crate) struct ToolMetrics {
    /// Name of the tool as a label.
    pub(super) name: String,
    pub(super) allowed: Counter,
    pub(super) succeeded: Counter,
    seconds: Histogram,
    seconds_as_promised: Histogram,
    inflight: Gauge,
}

/// A running tool; counted as in flight until dropped.
#[derive(Debug)]
pub(crate) struct RunningTool(Gauge);

impl ToolMetrics {
    pub(super) fn new(metrics: &Metrics, name: &str) -> Self {
        let tool = || name.to_owned();
        let allowed = ToolDecision { tool: tool(), decision: "allowed" };
        let success = ToolOutcome { tool: tool(), outcome: "success".to_owned() };
        let labels = ToolLabel { tool: tool() };
        Self {
            name: tool(),
            allowed: metrics.decisions.get_or_create_owned(&allowed),
            succeeded: metrics.requests.get_or_create_owned(&success),
            seconds: metrics.seconds.get_or_create_owned(&labels),
            seconds_as_promised: metrics.seconds_as_promised.get_or_create_owned(&labels),
            inflight: metrics.inflight.get_or_create_owned(&labels),
        }
    }

    pub(super) fn took(&self, duration: Duration) {
        self.seconds.observe(duration.as_secs_f64());
        self.seconds_as_promised.observe(duration.as_secs_f64());
    }

    /// Counts the tool as running until the value is dropped.
    pub(crate) fn runs(&self) -> RunningTool {
        self.inflight.inc();
        RunningTool(self.inflight.clone())
    }
}

impl Drop for RunningTool {
    fn drop(&mut self) {
        self.0.dec();
    }
}
