//! Errors of making and running sandboxes. A program that ran and failed is never here.

use ringfence_jail::{SetupError, Stage, cgroup, socket};
use ringfence_types::ErrorCode;
use rustix::io::Errno;

/// Failure of the service. The program did not run, or was ended because it could not be
/// supervised.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// A step of building the sandbox failed.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// A layer that the request requires is missing on this host.
    #[error("this host lacks {layer} for sandboxes: {reason}")]
    Missing {
        /// Description of the layer.
        layer: &'static str,
        /// Reason why it is missing.
        reason: String,
        /// Suggestion for the user.
        hint: String,
    },
    /// The cgroup could not be made.
    #[error("cgroup")]
    Cgroup(#[from] cgroup::Error),
    /// This root's interpreter cannot be a zygote.
    #[error("this root's python cannot be forked from: {0}")]
    Unforkable(String),
    /// A helper process is gone; the next attempt starts a new one.
    #[error("ended unexpectedly: {0}")]
    Gone(&'static str),
    /// A helper process did not answer in time; it is killed, and the next attempt starts a new one.
    #[error("the {0} does not answer")]
    Unresponsive(&'static str),
    /// The lock-down of the sandbox exceeded its time limit; the sandbox was killed.
    #[error("the sandbox was not ready after {0:?}")]
    SetupTimeout(std::time::Duration),
    /// No sandboxes are made at the moment, because the host cannot make any.
    #[error(transparent)]
    Unavailable(#[from] crate::Unavailable),
    /// The container engine refused or did not answer.
    #[error("cannot {doing}")]
    Engine {
        /// Attempted action.
        doing: &'static str,
        /// Cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A helper process or the kernel gave an unexpected answer.
    #[error("{doing}")]
    Io {
        /// Attempted action.
        doing: &'static str,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// The program could not be started.
    #[error("cannot start `{program}`: {reason}")]
    NotStarted {
        /// Name of the program.
        program: String,
        /// Error text of the kernel.
        reason: String,
        /// Errno of the kernel.
        errno: i32,
    },
    /// A file could not be put into or taken out of the sandbox.
    #[error("file `{path}`")]
    File {
        /// Path inside the sandbox.
        path: String,
        /// Cause.
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

    /// Text for clients of a service, without paths of the host. The full error goes to the log.
    pub fn public_message(&self) -> String {
        match self {
            Self::Missing { layer, .. } => format!("the host lacks {layer} for sandboxes"),
            Self::Cgroup(_) => "the control group of the sandbox could not be made".to_owned(),
            Self::Io { doing, .. } => format!("cannot {doing}"),
            other => other.to_string(),
        }
    }

    /// Step at which building the sandbox failed, if it was such a step.
    pub fn stage(&self) -> Option<Stage> {
        match self {
            Self::Setup(error) => Some(error.stage),
            _ => None,
        }
    }

    /// Whether the service or its host is the cause, not the request.
    pub(crate) fn is_service_failure(&self) -> bool {
        self.is_lost_helper()
            || matches!(self, Self::Cgroup(_) | Self::Io { .. } | Self::Engine { .. })
    }

    /// Logs a failure of the service or its host; errors of the request are only returned.
    pub(crate) fn log(&self) {
        let is_of_the_host = matches!(
            self,
            Self::SetupTimeout(_) | Self::Setup(_) | Self::Unavailable(_) | Self::Missing { .. }
        );
        if is_of_the_host || self.is_service_failure() {
            let cause = std::error::Error::source(self).map(ToString::to_string);
            let stage = self.stage().map(tracing::field::display);
            tracing::error!(code = %self.code(), stage, error = %self, cause, "no sandbox was made");
        }
    }

    /// Whether a helper process has to be replaced; no user code has run.
    pub(crate) fn is_lost_helper(&self) -> bool {
        matches!(self, Self::Gone(_) | Self::Unresponsive(_))
    }

    /// Next step for the user, if one is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unavailable(why) => Some(why.hint()),
            Self::SetupTimeout(_) | Self::Unresponsive(_) => Some(
                "run `ringfence doctor` to check whether this host can make sandboxes".to_owned(),
            ),
            Self::Missing { hint, .. } => Some(hint.clone()),
            Self::Engine { .. } => Some(
                "check that the container engine runs and that the server may use its socket; \
                 `ringfence doctor` shows what it answers"
                    .to_owned(),
            ),
            Self::Setup(error) => Some(format!(
                "run `ringfence doctor` to check this host; it suggests fixes for `{}`",
                error.stage
            )),
            Self::NotStarted { errno, .. } => start_hint(*errno).map(str::to_owned),
            _ => None,
        }
    }
}

/// Hint for a program that could not be started, by its errno.
fn start_hint(errno: i32) -> Option<&'static str> {
    match Errno::from_raw_os_error(errno) {
        Errno::NOENT => Some(
            "the program, or the interpreter in its first line, must exist inside the sandbox's \
             root; see `--root`",
        ),
        Errno::ACCESS => Some("make the file executable for all users: `chmod a+rx`"),
        Errno::NOEXEC => {
            Some("it is neither a program for this machine nor a script whose first line is `#!…`")
        }
        Errno::TOOBIG => Some("the arguments and the environment are too long; put them in a file"),
        _ => None,
    }
}

/// Text why a program could not be started.
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
