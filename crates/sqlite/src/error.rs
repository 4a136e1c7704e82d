//! Why the database did not do it.

use std::{io, path::PathBuf, sync::Arc};

/// Why the database did not do it. Each variant is one that callers treat differently.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Another process holds the lock file.
    #[error("another server uses this data directory (`{0}` is locked)")]
    InUse(PathBuf),
    /// The file is a database of something else.
    #[error("`{0}` is not a database of this program")]
    Foreign(PathBuf),
    /// A newer version of this program wrote the file.
    #[error(
        "the database has {found} schema changes of `{component}` and this version knows {known}: \
         use the version that wrote it, or a newer one"
    )]
    Newer {
        /// Component whose schema it is.
        component: String,
        /// Number of changes that the file has seen.
        found: usize,
        /// Number of changes that this program knows.
        known: usize,
    },
    /// A schema change that the file has seen is not the one this program knows by its number.
    #[error(
        "schema change {number} of `{component}` is not the one the database was made with: use the build that made it, or another data directory"
    )]
    Changed {
        /// Component whose schema it is.
        component: String,
        /// Number of the change, from 1.
        number: usize,
    },
    /// As much is waiting as may wait.
    #[error("more is waiting for the database than may wait")]
    Busy,
    /// The database was closed.
    #[error("the database is closed")]
    Closed,
    /// A file of the database was deleted or replaced while it was open: nothing is written any more.
    #[error("`{path}` was {what} while the server was using it")]
    Gone {
        /// The database, its log, its index, or the lock file.
        path: PathBuf,
        /// Whether it was deleted, replaced or made inaccessible.
        what: &'static str,
    },
    /// SQLite gave up on the whole transaction, as it does when the disk is full.
    #[error("the database gave up on the transaction")]
    Abandoned,
    /// The transaction could not be begun or committed: nothing of it was acknowledged.
    #[error("commit")]
    Commit(#[source] Arc<rusqlite::Error>),
    /// The transaction hook refused the transaction: nothing of it was kept.
    #[error("the transaction was refused")]
    Refused(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// A statement failed.
    #[error("query the database")]
    Query(#[source] Arc<rusqlite::Error>),
    /// The file system failed.
    #[error("{doing} `{path}`")]
    Files {
        /// The operation.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: Arc<io::Error>,
    },
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        Error::Query(Arc::new(error))
    }
}

impl Error {
    /// For `map_err` on what the file system says.
    pub(crate) fn files(
        doing: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Error::Files { doing, path, source: Arc::new(source) }
    }
}
