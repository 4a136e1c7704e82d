//! What is counted of requests. No path, key or tenant is ever a label: only areas we name.

use std::{sync::atomic::AtomicI64, time::Duration};

use http::{Method, StatusCode};
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use ringfence_types::Verdict;

use crate::routes::policy::scores::{score, severity};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    area: &'static str,
    method: &'static str,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfArea {
    area: &'static str,
}

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
    registry: Registry,
    requests: Family<Labels, Counter>,
    seconds: Family<OfArea, Histogram, fn() -> Histogram>,
    evaluations: Family<OfDecision, Counter>,
    evaluation_seconds: Histogram,
    evaluation_score: Histogram,
    pub(crate) connections: Gauge<i64, AtomicI64>,
    pub(crate) connections_evicted: Counter,
    pub(crate) streams: Gauge<i64, AtomicI64>,
}

fn buckets() -> Histogram {
    Histogram::new([0.000_25, 0.001, 0.004, 0.016, 0.064, 0.25, 1.0, 4.0, 16.0, 64.0, 256.0])
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            requests: Family::default(),
            seconds: Family::new_with_constructor(buckets as fn() -> Histogram),
            evaluations: Family::default(),
            evaluation_seconds: buckets(),
            evaluation_score: Histogram::new([0.0, 0.2, 0.5, 0.8, 1.0]),
            connections: Gauge::default(),
            connections_evicted: Counter::default(),
            streams: Gauge::default(),
        };
        let to = &mut metrics.registry;
        to.register("http_requests", "Requests by area, method, status", metrics.requests.clone());
        to.register("http_request_duration_seconds", "Time to answer", metrics.seconds.clone());
        let about = "Questions to policy by decision and severity";
        to.register("policy_evaluations", about, metrics.evaluations.clone());
        let about = "Time to answer a question to policy";
        to.register("policy_evaluation_latency_seconds", about, metrics.evaluation_seconds.clone());
        let about = "Score of what was asked: 1 allowed, 0.5 held, 0 denied";
        to.register("policy_evaluation_score", about, metrics.evaluation_score.clone());
        to.register("http_connections", "Connections now", metrics.connections.clone());
        let about = "Connections without a key that were closed to make room";
        to.register("http_connections_evicted", about, metrics.connections_evicted.clone());
        to.register("http_event_streams", "Event streams now", metrics.streams.clone());
        metrics
    }

    pub(crate) fn answered(&self, path: &str, method: &Method, status: StatusCode, took: Duration) {
        let area = area(path);
        let labels = Labels { area, method: method_name(method), status: status.as_u16() };
        self.requests.get_or_create(&labels).inc();
        self.seconds.get_or_create(&OfArea { area }).observe(took.as_secs_f64());
    }

    /// Somebody asked policy about what they do themselves.
    pub(crate) fn evaluated(&self, evaluated: &Evaluated) {
        let Evaluated { verdict, took } = *evaluated;
        let labels = OfDecision { decision: verdict.name(), severity: severity(verdict) };
        self.evaluations.get_or_create(&labels).inc();
        self.evaluation_seconds.observe(took.as_secs_f64());
        self.evaluation_score.observe(score(verdict));
    }

    /// In the text format of OpenMetrics, after what the engine counts.
    pub(crate) fn text(&self, engine: &str) -> String {
        let mut text = engine.trim_end().trim_end_matches("# EOF").to_owned();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// The first of these that a path begins with.
const AREAS: [&str; 25] = [
    "/v1/calls",
    "/v1/tools",
    "/v1/keys",
    "/v1/events",
    "/v1/canvas",
    "/v1/sandboxes",
    "/v1/holds",
    "/v1/requeue",
    "/v1/approvals",
    "/v1/audit",
    "/v1/ledger",
    "/v1/sessions",
    "/v1/evaluate",
    "/v1/policies",
    "/v1/policy",
    "/v1/decisions",
    "/access",
    "/.well-known",
    "/skills",
    "/health",
    "/livez",
    "/readyz",
    "/metrics",
    "/docs",
    "/openapi.json",
];

fn area(path: &str) -> &'static str {
    AREAS.into_iter().find(|area| path.starts_with(area)).unwrap_or("other")
}

/// Clients make methods up; we count those we know.
pub(crate) fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_of_ours_but_the_root_has_an_area() {
        for path in crate::openapi::paths().iter().filter(|path| *path != "/") {
            assert_ne!(area(path), "other", "{path}");
        }
        assert_eq!(area("/made/up"), "other");
    }
}
