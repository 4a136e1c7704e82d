//! Metrics of requests. No path, key or tenant is ever a label: only areas that doors name.

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

/// Metrics of the edge.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) registry: Registry,
    requests: Family<Labels, Counter>,
    seconds: Family<OfArea, Histogram, fn() -> Histogram>,
    pub(crate) connections: Gauge<i64, AtomicI64>,
    pub(crate) connections_evicted: Counter,
    pub(crate) handshakes_failed: Counter,
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
            connections_evicted: Counter::default(),
            handshakes_failed: Counter::default(),
            streams: Gauge::default(),
        };
        let to = &mut metrics.registry;
        to.register("http_requests", "Requests by area, method, status", metrics.requests.clone());
        to.register("http_request_duration_seconds", "Time to answer", metrics.seconds.clone());
        to.register("http_connections", "Connections now", metrics.connections.clone());
        let about = "Connections without a key that were closed to make room";
        to.register("http_connections_evicted", about, metrics.connections_evicted.clone());
        let about = "Connections that ended before TLS was agreed on";
        to.register("http_tls_handshakes_failed", about, metrics.handshakes_failed.clone());
        to.register("http_event_streams", "Event streams now", metrics.streams.clone());
        metrics
    }

    pub(crate) fn answered(
        &self,
        area: &'static str,
        method: &Method,
        status: StatusCode,
        took: Duration,
    ) {
        let labels = Labels { area, method: method_name(method), status: status.as_u16() };
        self.requests.get_or_create(&labels).inc();
        self.seconds.get_or_create(&OfArea { area }).observe(took.as_secs_f64());
    }
}

/// Metrics in the text format of OpenMetrics, with those of a registry after them.
pub fn append_metrics(text: &str, registry: &Registry) -> String {
    let mut text = text.trim_end().trim_end_matches("# EOF").to_owned();
    // Writing to a string cannot fail.
    let _ = encode(&mut text, registry);
    text
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
