//! Errors of models.

use std::{io, path::PathBuf};

/// Failure to store, load or use a model.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// No model has this name.
    #[error("model `{name}` is not known; known models: {}", known.join(", "))]
    Unknown {
        /// The requested name.
        name: String,
        /// Names of all known models.
        known: Vec<String>,
    },
    /// The architecture of the model is not implemented.
    #[error("model `{name}` is not supported by this version: {why}")]
    Unsupported {
        /// The model.
        name: String,
        /// The missing part.
        why: &'static str,
    },
    /// The weights are not on this machine.
    #[error("the weights of `{name}` are missing; get them with: ringfence models fetch {name}")]
    Missing {
        /// The model.
        name: String,
    },
    /// A file is not what it should be.
    #[error("file `{file}` of the model is damaged: {why}")]
    Damaged {
        /// The file.
        file: String,
        /// The difference.
        why: String,
    },
    /// A source lacks a file of the model.
    #[error("no file `{file}` in {source_name}")]
    Absent {
        /// The file.
        file: String,
        /// The folder or archive.
        source_name: String,
    },
    /// The digest of a file is neither built in nor given.
    #[error(
        "the digest of `{file}` of `{name}` is not built in; give the one that its publisher states \
         with --sha256"
    )]
    Unpinned {
        /// The model.
        name: String,
        /// The file.
        file: String,
    },
    /// A file cannot be read or written.
    #[error("{what} `{}`: {kind}", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Kind of the error.
        kind: io::ErrorKind,
    },
    /// Too many texts wait to be encoded.
    #[error("too many texts wait for the model; try again later")]
    Busy,
    /// The embedder was stopped.
    #[error("the model has been stopped")]
    Stopped,
}

impl Error {
    pub(crate) fn damaged(file: &str, why: String) -> Self {
        Self::Damaged { file: file.to_owned(), why }
    }

    pub(crate) fn io(what: &'static str, path: impl Into<PathBuf>, error: &io::Error) -> Self {
        Self::Io { what, path: path.into(), kind: error.kind() }
    }
}
