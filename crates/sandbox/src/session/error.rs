//! Errors of operations on a session. A program that failed is never here.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::SnapshotProblem;
use crate::{archive, files};

/// Failed or refused operation. Nothing was changed unless a variant says so.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The session has ended.
    #[error("the session has ended: {0}")]
    Ended(Ending),
    /// The session is paused, and the operation would change it.
    #[error("the session is paused")]
    Paused,
    /// This session cannot be paused.
    #[error("sessions cannot be paused here: {reason}")]
    PauseUnavailable {
        /// Missing feature of the host.
        reason: String,
    },
    /// The kernel did not stop every process in time; the session runs on.
    #[error("pause the session")]
    PauseFailed(#[source] ringfence_jail::cgroup::Error),
    /// The program could not be started.
    #[error("cannot start `{program}`: {reason}")]
    NotStarted {
        /// Name of the program.
        program: String,
        /// Error text of the kernel.
        reason: String,
    },
    /// A bound of the service is reached.
    #[error("more than {limit} {what}")]
    TooMany {
        /// Name of the bound.
        what: &'static str,
        /// Largest allowed number.
        limit: usize,
    },
    /// The program has ended, or closed what was asked for.
    #[error("the program has ended")]
    ProcessEnded,
    /// Only a program with a terminal can be resized.
    #[error("the program has no terminal")]
    NoTerminal,
    /// The interpreter ended during the operation; the next execution starts a new one.
    #[error("the interpreter has ended: {0}")]
    InterpreterGone(String),
    /// The interpreter refused the operation.
    #[error("the interpreter refused: {0}")]
    InterpreterRefused(String),
    /// A file operation was refused.
    #[error(transparent)]
    File(#[from] files::Refused),
    /// An archive was refused; entries before the refused one have been unpacked.
    #[error(transparent)]
    Archive(#[from] archive::Error),
    /// A snapshot was refused before any part of it was used.
    #[error(transparent)]
    Snapshot(#[from] SnapshotProblem),
    /// The sandbox could not be made.
    #[error(transparent)]
    Sandbox(#[from] crate::Error),
}

impl Error {
    /// A stable name for clients.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "invalid_request",
            Self::Ended(_) => "session_ended",
            Self::Paused => "session_paused",
            Self::PauseUnavailable { .. } => "pause_unavailable",
            Self::PauseFailed(_) => "pause_failed",
            Self::NotStarted { .. } => "not_started",
            Self::TooMany { .. } => "too_many",
            Self::ProcessEnded => "process_ended",
            Self::NoTerminal => "no_terminal",
            Self::InterpreterGone(_) => "interpreter_gone",
            Self::InterpreterRefused(_) => "interpreter_refused",
            Self::File(refused) => refused.code(),
            Self::Archive(error) => error.code(),
            Self::Snapshot(problem) => problem.code(),
            Self::Sandbox(error) => error.code().as_str(),
        }
    }

    pub(super) fn io(doing: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Sandbox(crate::Error::Io { doing, source })
    }
}

/// Cause of a session's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// A caller stopped it.
    Stopped,
    /// Nothing used it for its idle time.
    Idle,
    /// Its lifetime was over.
    Lifetime,
    /// The cpu time of its programs was used up.
    CpuTime,
    /// Its init was killed because memory ran out.
    OutOfMemory,
    /// A resource of the host was nearly exhausted while its programs were the busiest in the
    /// kernel.
    Host,
    /// Its init died.
    Crashed,
    /// The service closed.
    Closed,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stopped => "it was stopped",
            Self::Idle => "it was idle for too long",
            Self::Lifetime => "its lifetime is over",
            Self::CpuTime => "its cpu time is used up",
            Self::OutOfMemory => "its first process was killed because memory ran out",
            Self::Host => "memory or files of the host were nearly exhausted while its programs were the busiest",
            Self::Crashed => "its first process died",
            Self::Closed => "the service closed",
        })
    }
}
