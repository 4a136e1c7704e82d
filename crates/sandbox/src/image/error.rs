//! Errors of importing, listing and removing images.

use std::{error, fmt, io, path::PathBuf};

use crate::{archive, files::Refused};

/// Failed operation on one image; the store is unchanged.
#[derive(Debug)]
pub struct Error {
    /// The image, or the part of its source, that is at fault.
    pub what: String,
    /// Rule that was broken.
    pub problem: Problem,
}

impl Error {
    pub(crate) fn new(what: impl Into<String>, problem: impl Into<Problem>) -> Self {
        Self { what: what.into(), problem: problem.into() }
    }

    /// A stable name of the problem for clients.
    pub fn code(&self) -> &'static str {
        self.problem.code()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "image `{}`: {}", self.what, self.problem)
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        error::Error::source(&self.problem)
    }
}

/// Problem with an image.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The name is invalid.
    #[error("a name is 1 to 64 of a-z, 0-9, `.`, `_`, `-`, and starts with a letter or digit")]
    Name,
    /// The name is taken.
    #[error("an image of that name exists already")]
    Exists,
    /// The store has no image of that name.
    #[error("image not found")]
    NotFound,
    /// The source is neither a directory nor an archive.
    #[error("the source is neither a directory nor a regular file")]
    Source,
    /// The source does not exist or cannot be read.
    #[error("the source `{}` cannot be read", path.display())]
    Unread {
        /// Path of the source.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The source directory is empty, the host's own root, or overlaps the store.
    #[error("the directory {0}")]
    Directory(&'static str),
    /// A referenced directory is no longer the one that was imported.
    #[error("its directory was moved or replaced since the import")]
    Moved,
    /// A manifest, index or configuration has invalid content.
    #[error("malformed: {0}")]
    Malformed(&'static str),
    /// JSON that cannot be read.
    #[error("malformed JSON")]
    Json(#[source] serde_json::Error),
    /// Content does not have the declared digest.
    #[error("the content has digest sha256:{found}, not sha256:{expected}")]
    Digest {
        /// Declared digest.
        expected: String,
        /// Digest of the content.
        found: String,
    },
    /// Content does not have the declared size.
    #[error("the content has {found} bytes, not {expected}")]
    Size {
        /// Declared size.
        expected: u64,
        /// Size of the content.
        found: u64,
    },
    /// No manifest for this host.
    #[error("it has no linux/{0} variant")]
    Platform(&'static str),
    /// Several images in one archive.
    #[error("the archive holds several images; export one")]
    Ambiguous,
    /// An index that leads to itself, or too deep.
    #[error("the index leads to itself or too deep")]
    Cycle,
    /// A limit was exceeded.
    #[error("more than {limit} {what}")]
    Over {
        /// Name of the limit.
        what: &'static str,
        /// Largest allowed value.
        limit: u64,
    },
    /// A part of the archive was refused.
    #[error(transparent)]
    Archive(#[from] archive::Error),
    /// A file was refused.
    #[error(transparent)]
    Files(#[from] Refused),
    /// The store or the source could not be read or written.
    #[error("could not be read or written")]
    Io(#[from] io::Error),
}

impl Problem {
    /// A stable name for clients.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Name => "image_name",
            Self::Exists => "image_exists",
            Self::NotFound => "image_not_found",
            Self::Source => "image_source",
            Self::Directory(_) => "image_directory",
            Self::Moved => "image_moved",
            Self::Malformed(_) | Self::Json(_) => "image_malformed",
            Self::Digest { .. } => "image_digest_mismatch",
            Self::Size { .. } => "image_size_mismatch",
            Self::Platform(_) => "image_platform",
            Self::Ambiguous => "image_ambiguous",
            Self::Cycle => "image_cycle",
            Self::Over { .. } => "image_over_limit",
            Self::Archive(error) => error.code(),
            Self::Files(refused) => refused.code(),
            Self::Io(_) | Self::Unread { .. } => "image_io_failed",
        }
    }
}

impl From<rustix::io::Errno> for Problem {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Io(errno.into())
    }
}
