//! Why the store did not do it.

use ringfence_types::CallId;

/// Why the store did not do it. Each variant is one that callers treat differently.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Somebody else was faster, or the call is at its end.
    #[error("the call has changed since it was read")]
    Stale,
    /// The idempotency key was used before.
    #[error("the idempotency key belongs to call {0}")]
    Repeated(CallId),
    /// More is waiting to be written than may wait.
    #[error("the store has more to write than it can take")]
    Busy,
    /// The backend failed.
    #[error("{doing}")]
    Backend {
        /// What was being done.
        doing: &'static str,
        /// Why it failed.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
