//! Why the store did not do it.

use ringfence_types::CallId;

use crate::NoRoom;

/// Why the store did not do it. Each variant is one that callers treat differently.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Somebody else was faster, or the call is at its end.
    #[error("the call has changed since it was read")]
    Stale,
    /// The idempotency key was used before.
    #[error("the idempotency key belongs to call {0}")]
    Repeated(CallId),
    /// The approval cannot be used, or not any more.
    #[error("the approval is over, revoked or used up")]
    Spent,
    /// More is waiting to be written than may wait.
    #[error("the store has more to write than it can take")]
    Busy,
    /// Files of the store were deleted or replaced under it. Nothing is written until a restart.
    #[error(
        "the server's database was deleted or replaced while it was in use; calls are refused until \
         the operator restores it and restarts the server"
    )]
    Gone(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Nothing new is taken in.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
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
