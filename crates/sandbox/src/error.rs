//! Why a sandbox could not be had. A program that ran and failed is never here.

use ringfence_jail::{SetupError, Stage, cgroup, socket};
use ringfence_types::ErrorCode;
use rustix::io::Errno;

/// We failed. The caller's program did not run, or was ended because we could not watch over it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request cannot be honoured as it stands.
    #[error("{0}")]
    Invalid(String),
    /// A step of building the sandbox failed.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// A wall that the request demands is missing on this host.
    #[error("this host cannot give the sandbox {layer}: {reason}")]
    Missing {
        /// The wall, in words.
        layer: &'static str,
        /// Why it is missing.
        reason: String,
        /// What the user can do about it.
        hint: String,
    },
    /// The cgroup could not be made.
    #[error("cgroup")]
    Cgroup(#[from] cgroup::Error),
    /// This root's interpreter cannot be a zygote.
    #[error("this root's python cannot be forked from: {0}")]
    Unforkable(String),
    /// A helper process is gone; the next attempt starts a new one.
    #[error("the {0} is gone")]
    Gone(&'static str),
    /// A helper process did not answer in time; it is killed, and the next attempt starts a new one.
    #[error("the {0} does not answer")]
    Unresponsive(&'static str),
    /// The sandbox was not locked in within the time that setting up may take; it was killed.
    #[error("the sandbox was not ready after {0:?}")]
    SetupTimeout(std::time::Duration),
    /// No sandboxes are made at the moment, because the host cannot make any.
    #[error(transparent)]
    Unavailable(#[from] crate::Unavailable),
    /// A helper process or the kernel answered with something else than expected.
    #[error("{doing}")]
    Io {
        /// What we were about to do.
        doing: &'static str,
        /// What happened.
        #[source]
        source: std::io::Error,
    },
    /// The program could not be started at all.
    #[error("cannot start `{program}`: {reason}")]
    NotStarted {
        /// Its name.
        program: String,
        /// What the kernel said.
        reason: String,
        /// The same as a number.
        errno: i32,
    },
    /// A file could not be put into or taken out of the sandbox.
    #[error("file `{path}`")]
    File {
        /// The path inside.
        path: String,
        /// Why.
        #[source]
        source: crate::files::Refused,
    },
}

impl Error {
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }

    /// A stable name for clients.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Unavailable(_) => ErrorCode::SandboxUnavailable,
            Self::SetupTimeout(_) | Self::Unresponsive(_) => ErrorCode::SandboxTimeout,
            _ => ErrorCode::SandboxFailed,
        }
    }

    /// What clients of a service are told: nothing of the host's paths. The whole is for the log.
    pub fn public_message(&self) -> String {
        match self {
            Self::Missing { layer, .. } => format!("the host cannot give the sandbox {layer}"),
            Self::Cgroup(_) => "the control group of the sandbox could not be made".to_owned(),
            Self::Io { doing, .. } => format!("cannot {doing}"),
            other => other.to_string(),
        }
    }

    /// The step at which building the sandbox failed, if one did.
    pub fn stage(&self) -> Option<Stage> {
        match self {
            Self::Setup(error) => Some(error.stage),
            _ => None,
        }
    }

    /// Whether it says something of the service or its host, and nothing of what was asked for.
    pub(crate) fn is_of_the_service(&self) -> bool {
        self.is_lost_helper() || matches!(self, Self::Cgroup(_) | Self::Io { .. })
    }

    /// Logs a failure of the service or its host; one of the request is the caller's to read.
    pub(crate) fn log(&self) {
        let is_of_the_host = matches!(
            self,
            Self::SetupTimeout(_) | Self::Setup(_) | Self::Unavailable(_) | Self::Missing { .. }
        );
        if is_of_the_host || self.is_of_the_service() {
            let cause = std::error::Error::source(self).map(ToString::to_string);
            let stage = self.stage().map(tracing::field::display);
            tracing::error!(code = %self.code(), stage, error = %self, cause, "no sandbox was made");
        }
    }

    /// Whether a helper process has to be replaced; nothing of a user's has run.
    pub(crate) fn is_lost_helper(&self) -> bool {
        matches!(self, Self::Gone(_) | Self::Unresponsive(_))
    }

    /// The exact next thing a user can try, if we know one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unavailable(why) => Some(why.hint()),
            Self::SetupTimeout(_) | Self::Unresponsive(_) => {
                Some("`ringfence doctor` tells whether this host still makes sandboxes".to_owned())
            }
            Self::Missing { hint, .. } => Some(hint.clone()),
            Self::Setup(error) => Some(format!(
                "`ringfence doctor` shows what this host offers and how to mend `{}`",
                error.stage
            )),
            Self::NotStarted { errno, .. } => start_hint(*errno).map(str::to_owned),
            _ => None,
        }
    }
}

/// What keeps a file from being a program, by what the kernel said.
fn start_hint(errno: i32) -> Option<&'static str> {
    match Errno::from_raw_os_error(errno) {
        Errno::NOENT => Some(
            "the program, or the interpreter in its first line, must exist inside the sandbox's \
             root; see `--root`",
        ),
        Errno::ACCESS => Some("it must be a file that everybody may execute: `chmod a+rx`"),
        Errno::NOEXEC => {
            Some("it is neither a program for this machine nor a script whose first line is `#!…`")
        }
        Errno::TOOBIG => Some("the arguments and the environment are too long; put them in a file"),
        _ => None,
    }
}

/// Why a program could not be started, in words.
pub(crate) fn not_started(error: SetupError, cwd: &[u8]) -> String {
    let errno = error.errno();
    match error.stage {
        Stage::Exec => errno.to_string(),
        Stage::WorkingDirectory => {
            format!("directory `{}`: {errno}", String::from_utf8_lossy(cwd))
        }
        stage => format!("{stage}: {errno}"),
    }
}

impl From<socket::Error> for Error {
    fn from(error: socket::Error) -> Self {
        match error {
            socket::Error::Closed => Self::Gone("helper process"),
            socket::Error::Io(errno) => {
                Self::Io { doing: "speak to a helper process", source: errno.into() }
            }
            socket::Error::Malformed(_) => Self::Io {
                doing: "understand a helper process",
                source: std::io::ErrorKind::InvalidData.into(),
            },
        }
    }
}
