//! Telemetry: the receiver of spans and the registry of metrics.

use std::sync::Arc;

use prometheus_client::registry::Registry;
use ringfence_types::Spans;

/// Receiver of spans and registry of metrics; by default there is no receiver.
#[derive(Debug, Default)]
pub struct Telemetry {
    /// Metrics of parts that the engine does not know; its own are added to them.
    pub registry: Registry,
    /// Receiver of spans.
    pub spans: Option<Arc<dyn Spans>>,
}
