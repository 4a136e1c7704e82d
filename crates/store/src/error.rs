//! Why the store did not do it.

use std::{error::Error as StdError, io, sync::Arc};

use ringfence_types::CallId;

use crate::{NoRoom, Unreadable, packed::Damaged};

/// Why the store did not do it. Each variant is one that callers treat differently.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another writer was faster, or the call is at its end.
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
    /// The call is under way in another process, which alone can tell or do it.
    #[error("the call is under way in another server process")]
    Elsewhere,
    /// The tables are of another version than this program needs.
    #[error("the database has schema version {found}, and this program needs version {needed}")]
    Schema {
        /// Version of the tables; 0 if there are none.
        found: u32,
        /// Version that this program needs.
        needed: u32,
    },
    /// Nothing new is taken in.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// The backend failed.
    #[error("{doing}")]
    Backend {
        /// The operation.
        doing: &'static str,
        /// Why it failed.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    /// Whether it failed because the disk is full.
    pub fn is_disk_full(&self) -> bool {
        let mut cause: Option<&(dyn StdError + 'static)> = Some(self);
        while let Some(error) = cause {
            if is_of_a_full_disk(error) {
                return true;
            }
            cause = error.source();
        }
        false
    }

    /// For `map_err` on a failure of the backend.
    pub(crate) fn backend<E>(doing: &'static str) -> impl Fn(E) -> Self
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        move |source| Error::Backend { doing, source: Box::new(source) }
    }
}

impl From<Damaged> for Error {
    fn from(error: Damaged) -> Self {
        Error::Backend { doing: "pack or unpack a record", source: Box::new(error) }
    }
}

impl From<Unreadable> for Error {
    fn from(error: Unreadable) -> Self {
        Error::Backend { doing: "read a row", source: Box::new(error) }
    }
}

fn is_of_a_full_disk(error: &(dyn StdError + 'static)) -> bool {
    let shared = || error.downcast_ref::<Arc<rusqlite::Error>>().map(|shared| &**shared);
    let sqlite = error.downcast_ref::<rusqlite::Error>().or_else(shared);
    let code = sqlite.and_then(rusqlite::Error::sqlite_error_code);
    let file = error.downcast_ref::<io::Error>().map(io::Error::kind);
    code == Some(rusqlite::ErrorCode::DiskFull) || file == Some(io::ErrorKind::StorageFull)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backend(source: impl StdError + Send + Sync + 'static) -> Error {
        Error::Backend { doing: "write", source: Box::new(source) }
    }

    #[test]
    fn a_full_disk_is_known_wherever_it_stands_among_the_causes() {
        let of_code = |code| {
            let failure = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
            backend(ringfence_sqlite::Error::Commit(Arc::new(failure)))
        };
        assert!(of_code(rusqlite::ffi::SQLITE_FULL).is_disk_full());
        assert!(!of_code(rusqlite::ffi::SQLITE_IOERR).is_disk_full(), "the control");
        assert!(backend(io::Error::from(io::ErrorKind::StorageFull)).is_disk_full());
        assert!(!Error::Busy.is_disk_full());
    }
}
