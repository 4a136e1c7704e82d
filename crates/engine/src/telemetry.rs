//! Who watches: where spans go and where numbers are registered.

use std::sync::Arc;

use prometheus_client::registry::Registry;
use ringfence_types::Spans;

/// Who watches. Nobody by default.
#[derive(Debug, Default)]
pub struct Telemetry {
    /// Numbers of parts that the engine does not know; its own are put beside them.
    pub registry: Registry,
    /// Takes spans.
    pub spans: Option<Arc<dyn Spans>>,
}
