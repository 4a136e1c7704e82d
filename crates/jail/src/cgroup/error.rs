//! The one error of this module: which file operation failed, and what the operator can do.

use std::io;
use std::path::{Path, PathBuf};

/// A control group file could not be used.
#[derive(Debug, thiserror::Error)]
#[error("{action} `{}`", path.display())]
pub struct Error {
    /// What we tried, as a verb: `create`, `write`, `remove`.
    pub action: &'static str,
    /// The file or directory we tried it on.
    pub path: PathBuf,
    /// Why the kernel refused.
    #[source]
    pub source: io::Error,
    /// What to run or change, where the cause is a known one.
    pub hint: Option<String>,
}

impl Error {
    pub(super) fn new(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Error {
        Error { action, path: path.to_owned(), source: source.into(), hint: None }
    }

    pub(super) fn with_hint(self, hint: Option<String>) -> Error {
        Error { hint, ..self }
    }

    /// Whether a file or directory was not there.
    pub fn is_missing(&self) -> bool {
        self.is(libc::ENOENT)
    }

    pub(super) fn is(&self, errno: i32) -> bool {
        self.source.raw_os_error() == Some(errno)
    }
}
