//! Limits of the REST door, chosen by the operator.

/// Limits of the REST door.
#[derive(Debug, Clone)]
pub struct ApiConfig {
    /// Session sandboxes at one time.
    pub max_sandboxes: usize,
    /// Session sandboxes of one tenant at one time.
    pub max_sandboxes_per_tenant: usize,
    /// Whether `/metrics` needs no key.
    pub open_metrics: bool,
}

impl Default for ApiConfig {
    fn default() -> Self {
        Self { max_sandboxes: 64, max_sandboxes_per_tenant: 16, open_metrics: false }
    }
}
