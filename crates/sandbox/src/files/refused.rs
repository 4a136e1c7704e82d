//! Errors of operations on a sandbox's files.

use std::{error, fmt, io};

use rustix::io::Errno;

use super::{BoxPath, InvalidPath, Kind};

/// An operation on one path was refused or failed; nothing outside the workspace was touched.
#[derive(Debug)]
pub struct Refused {
    /// The path as it was asked for.
    pub path: BoxPath,
    /// Reason of the refusal.
    pub reason: Reason,
}

/// Reason of a refused operation.
#[derive(Debug, thiserror::Error)]
pub enum Reason {
    /// Nothing exists at the path.
    #[error("does not exist")]
    NotFound,
    /// The path is, or leads through, a symbolic link.
    #[error("is or leads through a symbolic link, which is never followed")]
    Symlink,
    /// The path leaves the workspace or enters another file system.
    #[error("leads out of the workspace's file system")]
    Outside,
    /// It is a directory, FIFO, socket or device, where a regular file was needed.
    #[error("is a {0}, not a regular file")]
    NotRegular(Kind),
    /// A directory was needed.
    #[error("is not a directory")]
    NotDirectory,
    /// The name is taken by something that cannot be replaced.
    #[error("already exists")]
    Exists,
    /// The file is larger than allowed, by its apparent size.
    #[error("has {size} bytes; at most {limit} are allowed")]
    TooLarge {
        /// Apparent size, or the bytes written when the limit was reached.
        size: u64,
        /// Largest allowed size.
        limit: u64,
    },
    /// There are more entries than one operation may touch.
    #[error("holds more than the {limit} entries one operation may touch")]
    TooMany {
        /// Largest allowed number.
        limit: usize,
    },
    /// It lies deeper than one operation goes.
    #[error("lies deeper than the {limit} levels of directories one operation may touch")]
    TooDeep {
        /// Largest allowed depth.
        limit: usize,
    },
    /// Permission bits beyond `rwxrwxrwx` were asked for.
    #[error("would get mode {mode:o}; set-user-id, set-group-id and sticky bits are refused")]
    PrivilegedMode {
        /// The mode.
        mode: u32,
    },
    /// The sandbox's user lacks the permission.
    #[error("may not be accessed by the sandbox's user")]
    Denied,
    /// The workspace has no space or no inode left.
    #[error("does not fit into the workspace")]
    NoSpace,
    /// The workspace itself cannot be replaced, renamed or removed.
    #[error("is the workspace itself")]
    Root,
    /// The tree changed during the operation.
    #[error("changed while it was being handled")]
    Changed,
    /// A name that follows from this one breaks a rule for paths.
    #[error("leads to a name that is refused ({})", .0.code())]
    Name(InvalidPath),
    /// A system error that says nothing about the file.
    #[error("could not be accessed")]
    Io(#[source] io::Error),
}

impl Refused {
    /// Explains a system error on `path`.
    pub(crate) fn errno(path: &BoxPath, errno: Errno) -> Self {
        Self { path: path.clone(), reason: Reason::from(errno) }
    }

    /// Explains an error of reading or writing content of `path`.
    pub(crate) fn io(path: &BoxPath, error: io::Error) -> Self {
        let reason = match error.raw_os_error() {
            Some(code) => Reason::from(Errno::from_raw_os_error(code)),
            None => Reason::Io(error),
        };
        Self { path: path.clone(), reason }
    }

    /// A stable name of the reason for clients.
    pub fn code(&self) -> &'static str {
        self.reason.code()
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.path, self.reason)
    }
}

impl error::Error for Refused {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        // The reason is part of our own message, so the source is the reason's own cause.
        error::Error::source(&self.reason)
    }
}

impl Reason {
    /// A stable name for clients.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Symlink => "symlink",
            Self::Outside => "outside_workspace",
            Self::NotRegular(_) => "not_a_regular_file",
            Self::NotDirectory => "not_a_directory",
            Self::Exists => "already_exists",
            Self::TooLarge { .. } => "file_too_large",
            Self::TooMany { .. } => "too_many_entries",
            Self::TooDeep { .. } => "too_deep",
            Self::PrivilegedMode { .. } => "privileged_mode",
            Self::Denied => "permission_denied",
            Self::NoSpace => "no_space",
            Self::Root => "is_workspace",
            Self::Changed => "changed_meanwhile",
            Self::Name(invalid) => invalid.code(),
            Self::Io(_) => "io_failed",
        }
    }
}

impl From<Errno> for Reason {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT => Self::NotFound,
            Errno::LOOP => Self::Symlink,
            Errno::XDEV | Errno::BUSY => Self::Outside,
            Errno::NOTDIR => Self::NotDirectory,
            Errno::ISDIR => Self::NotRegular(Kind::Directory),
            Errno::EXIST | Errno::NOTEMPTY => Self::Exists,
            Errno::ACCESS | Errno::PERM => Self::Denied,
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG => Self::NoSpace,
            Errno::AGAIN | Errno::STALE => Self::Changed,
            other => Self::Io(other.into()),
        }
    }
}
