//! The one error of this module: the failed file operation, and a hint for the operator.

use std::io;
use std::path::{Path, PathBuf};

/// Failed operation on a control group file.
#[derive(Debug, thiserror::Error)]
#[error("{action} `{}`", path.display())]
pub struct Error {
    /// Attempted operation, as a verb: `create`, `write`, `remove`.
    pub action: &'static str,
    /// File or directory of the operation.
    pub path: PathBuf,
    /// Error of the kernel.
    #[source]
    pub source: io::Error,
    /// Command to run or setting to change, if the cause is a known one.
    pub hint: Option<String>,
}

impl Error {
    pub(super) fn new(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Error {
        Error { action, path: path.to_owned(), source: source.into(), hint: None }
    }

    pub(super) fn with_hint(self, hint: Option<String>) -> Error {
        Error { hint, ..self }
    }

    /// Whether the file or directory does not exist.
    pub fn is_missing(&self) -> bool {
        self.is(libc::ENOENT)
    }

    pub(super) fn is(&self, errno: i32) -> bool {
        self.source.raw_os_error() == Some(errno)
    }
}
