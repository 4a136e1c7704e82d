//! What is counted of requests. No path, key or tenant is ever a label: only areas we name.

use std::{sync::atomic::AtomicI64, time::Duration};

use http::{Method, StatusCode};
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

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

/// The door's own metrics.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Labels, Counter>,
    seconds: Family<OfArea, Histogram, fn() -> Histogram>,
    pub(crate) connections: Gauge<i64, AtomicI64>,
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
            connections: Gauge::default(),
            streams: Gauge::default(),
        };
        let to = &mut metrics.registry;
        to.register("http_requests", "Requests by area, method, status", metrics.requests.clone());
        to.register("http_request_duration_seconds", "Time to answer", metrics.seconds.clone());
        to.register("http_connections", "Connections now", metrics.connections.clone());
        to.register("http_event_streams", "Event streams now", metrics.streams.clone());
        metrics
    }

    pub(crate) fn answered(&self, path: &str, method: &Method, status: StatusCode, took: Duration) {
        let area = area(path);
        let labels = Labels { area, method: method_name(method), status: status.as_u16() };
        self.requests.get_or_create(&labels).inc();
        self.seconds.get_or_create(&OfArea { area }).observe(took.as_secs_f64());
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
const AREAS: [&str; 12] = [
    "/v1/calls",
    "/v1/tools",
    "/v1/keys",
    "/v1/events",
    "/v1/canvas",
    "/v1/sandboxes",
    "/skills",
    "/health",
    "/livez",
    "/readyz",
    "/metrics",
    "/docs",
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
        Method::DELETE => "DELETE",
        _ => "other",
    }
}
