//! Limits of the REST door, chosen by the operator.

/// Limits of the REST door.
#[derive(Debug, Clone, Default)]
pub struct ApiConfig {
    /// Whether `/metrics` needs no key.
    pub open_metrics: bool,
}
