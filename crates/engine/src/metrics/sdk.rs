//! Metrics of the SDK inside sandboxes.

use std::sync::atomic::AtomicI64;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// Counters of requests and connections.
#[derive(Debug, Default)]
pub(crate) struct SdkMetrics {
    requests: Family<SdkLabel, Counter>,
    connections: Gauge<i64, AtomicI64>,
}

/// Labels of requests: operation and outcome.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SdkLabel {
    operation: &'static str,
    outcome: &'static str,
}

/// An open connection; counted until it is dropped.
pub(crate) struct OpenConnection(Gauge<i64, AtomicI64>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl SdkMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let about = "Requests of programs in sandboxes by operation and outcome";
        registry.register("sdk_requests", about, metrics.requests.clone());
        let about = "Open connections of programs in sandboxes";
        registry.register("sdk_connections", about, metrics.connections.clone());
        metrics
    }

    pub(crate) fn connected(&self) -> OpenConnection {
        self.connections.inc();
        OpenConnection(self.connections.clone())
    }

    pub(crate) fn answered(&self, operation: &'static str, outcome: &'static str) {
        self.requests.get_or_create(&SdkLabel { operation, outcome }).inc();
    }
}
