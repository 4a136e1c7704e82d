//! Metrics of questions to policy.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};
use ringfence_types::Verdict;

use crate::routes::policy::scores::{score, severity};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfDecision {
    decision: &'static str,
    severity: &'static str,
}

/// An answer to a question to policy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Evaluated {
    pub(crate) verdict: Verdict,
    pub(crate) took: Duration,
}

/// The door's own metrics.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) registry: Registry,
    evaluations: Family<OfDecision, Counter>,
    evaluation_seconds: Histogram,
    evaluation_score: Histogram,
}

fn buckets() -> Histogram {
    Histogram::new([0.000_25, 0.001, 0.004, 0.016, 0.064, 0.25, 1.0, 4.0, 16.0, 64.0, 256.0])
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            evaluations: Family::default(),
            evaluation_seconds: buckets(),
            evaluation_score: Histogram::new([0.0, 0.2, 0.5, 0.8, 1.0]),
        };
        let to = &mut metrics.registry;
        let about = "Questions to policy by decision and severity";
        to.register("policy_evaluations", about, metrics.evaluations.clone());
        let about = "Time to answer a question to policy";
        to.register("policy_evaluation_latency_seconds", about, metrics.evaluation_seconds.clone());
        let about = "Score of what was asked: 1 allowed, 0.5 held, 0 denied";
        to.register("policy_evaluation_score", about, metrics.evaluation_score.clone());
        metrics
    }

    /// Counts a question to policy about an action that is done elsewhere.
    pub(crate) fn evaluated(&self, evaluated: &Evaluated) {
        let Evaluated { verdict, took } = *evaluated;
        let labels = OfDecision { decision: verdict.name(), severity: severity(verdict) };
        self.evaluations.get_or_create(&labels).inc();
        self.evaluation_seconds.observe(took.as_secs_f64());
        self.evaluation_score.observe(score(verdict));
    }
}
