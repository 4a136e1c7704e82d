//! Errors about archives, with the name of the refused entry.

use std::{error, fmt, io};

use crate::files::{InvalidPath, PathRule, Refused, shown};

/// Refusal of an archive at one of its entries; entries before it may have been written.
#[derive(Debug)]
pub struct Error {
    /// The name of the entry, escaped for display; `None` if the archive itself is the problem.
    pub entry: Option<String>,
    /// Rule that was broken.
    pub problem: Problem,
}

impl Error {
    /// A stable name of the problem for clients.
    pub fn code(&self) -> &'static str {
        self.problem.code()
    }

    pub(crate) fn at(name: &[u8], problem: impl Into<Problem>) -> Self {
        Self { entry: Some(shown(name)), problem: problem.into() }
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self { entry: None, problem }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.entry {
            Some(entry) => write!(f, "archive entry `{entry}`: {}", self.problem),
            None => write!(f, "archive: {}", self.problem),
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        error::Error::source(&self.problem)
    }
}

/// Problem with an archive or one of its entries.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// Neither tar, tar.gz, tar.zst nor zip.
    #[error("not a tar, tar.gz, tar.zst or zip archive")]
    UnknownFormat,
    /// A zip archive where only a stream can be read; its directory is at its end.
    #[error("a zip archive cannot be read from a stream")]
    NeedsSeek,
    /// The name breaks a rule for paths.
    #[error("the name is refused ({})", .0.code())]
    Path(PathRule),
    /// A symbolic link where links are not allowed.
    #[error("symbolic links are refused here")]
    Symlink,
    /// A hard link where links are not allowed.
    #[error("hard links are refused here")]
    HardLink,
    /// A hard link whose target is not a regular file that has been unpacked already.
    #[error("the hard link's target is not a file unpacked before it")]
    HardLinkTarget,
    /// The entry would be written through an earlier entry that is not a directory.
    #[error("it would be written through an earlier entry that is not a directory")]
    Through,
    /// A device, FIFO or socket.
    #[error("devices and FIFOs are refused")]
    Special,
    /// A set-user-id or set-group-id bit.
    #[error("mode {mode:o} has a set-user-id or set-group-id bit")]
    Privileged {
        /// The mode.
        mode: u32,
    },
    /// The same name twice.
    #[error("the name appears twice")]
    Duplicate,
    /// A sparse file, whose size on disk and in the archive differ.
    #[error("sparse entries are refused")]
    Sparse,
    /// The two places where a zip archive names an entry disagree.
    #[error("the local and the central header disagree about the {0}")]
    Mismatch(&'static str),
    /// An encrypted entry.
    #[error("encrypted entries are refused")]
    Encrypted,
    /// A feature of the format that is not supported.
    #[error("{0} is not supported")]
    Unsupported(&'static str),
    /// Bytes that the format does not allow.
    #[error("malformed: {0}")]
    Malformed(&'static str),
    /// The archive ends before it is complete.
    #[error("the archive ends too early")]
    Truncated,
    /// A limit was exceeded.
    #[error("more than {limit} {what}")]
    Over {
        /// Name of the limit: `bytes`, `entries`, `levels of directories`, …
        what: &'static str,
        /// Largest allowed value.
        limit: u64,
    },
    /// Expansion beyond the allowed ratio.
    #[error("the archive expands more than {limit} times")]
    Ratio {
        /// Largest allowed ratio.
        limit: u64,
    },
    /// An operation in the workspace, as the source or the target of the archive, was refused.
    #[error(transparent)]
    Files(Refused),
    /// Reading or writing the archive itself failed.
    #[error("could not be read or written")]
    Io(#[source] io::Error),
}

impl Problem {
    /// A stable name for clients.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownFormat => "archive_unknown_format",
            Self::NeedsSeek => "archive_needs_seek",
            Self::Path(rule) => rule.code(),
            Self::Symlink => "archive_symlink",
            Self::HardLink => "archive_hard_link",
            Self::HardLinkTarget => "archive_hard_link_target",
            Self::Through => "archive_through_link",
            Self::Special => "archive_special_file",
            Self::Privileged { .. } => "archive_privileged_mode",
            Self::Duplicate => "archive_duplicate",
            Self::Sparse => "archive_sparse",
            Self::Mismatch(_) => "archive_mismatch",
            Self::Encrypted => "archive_encrypted",
            Self::Unsupported(_) => "archive_unsupported",
            Self::Malformed(_) => "archive_malformed",
            Self::Truncated => "archive_truncated",
            Self::Over { .. } => "archive_over_limit",
            Self::Ratio { .. } => "archive_ratio",
            Self::Files(refused) => refused.code(),
            Self::Io(_) => "archive_io_failed",
        }
    }
}

impl From<InvalidPath> for Problem {
    fn from(error: InvalidPath) -> Self {
        Self::Path(error.rule)
    }
}

impl From<Refused> for Problem {
    /// Takes our own problem out of the error of a sink that failed while reading from us.
    fn from(refused: Refused) -> Self {
        match refused.reason {
            crate::files::Reason::Io(error) if is_ours(&error) => error.into(),
            _ => Self::Files(refused),
        }
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            _ if is_problem(&error) => error.downcast().unwrap_or_else(Self::Io),
            io::ErrorKind::UnexpectedEof => Self::Truncated,
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
                Self::Malformed("corrupt compressed data")
            }
            _ => Self::Io(error),
        }
    }
}

impl From<Problem> for io::Error {
    fn from(problem: Problem) -> Self {
        io::Error::other(problem)
    }
}

fn is_problem(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Problem>())
}

/// Whether a decoder made the error: errors of the system have an errno, those of decoders do not.
fn is_ours(error: &io::Error) -> bool {
    error.raw_os_error().is_none()
        && (is_problem(error)
            || matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::InvalidData
                    | io::ErrorKind::InvalidInput
            ))
}
