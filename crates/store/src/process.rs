//! Processes that share a store, as they describe themselves.

use std::{fmt, str::FromStr};

use ringfence_types::{CallId, Digest, TenantId, Timestamp};

use crate::Version;

/// Part of the work that a process does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProcessRole {
    /// It accepts calls and runs them.
    #[default]
    All,
    /// It accepts calls and leaves running them to others.
    Api,
    /// It runs calls that others accepted.
    Worker,
}

impl ProcessRole {
    /// Every role.
    pub const ALL: [Self; 3] = [Self::All, Self::Api, Self::Worker];

    /// Name of the role.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Api => "api",
            Self::Worker => "worker",
        }
    }

    /// Whether a process of this role runs calls.
    pub const fn runs_calls(self) -> bool {
        !matches!(self, Self::Api)
    }
}

impl fmt::Display for ProcessRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that is not a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a role: all, api or worker")]
pub struct InvalidRole;

impl FromStr for ProcessRole {
    type Err = InvalidRole;

    fn from_str(text: &str) -> Result<Self, InvalidRole> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or(InvalidRole)
    }
}

/// Description that a process gives of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessInfo {
    /// URL at which other processes reach it.
    pub address: Option<String>,
    /// Part of the work that it does.
    pub role: ProcessRole,
    /// Version of the program.
    pub version: String,
    /// Digest of the rules in force.
    pub policy: Option<Digest>,
}

/// A living process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its number, which no other process ever has.
    pub id: u64,
    /// Whether it is this process.
    pub is_own: bool,
    /// Time at which it was registered, by the clock of the database.
    pub started_at: Timestamp,
    /// Its description of itself.
    pub info: ProcessInfo,
}

/// Call that is left to the workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedCall {
    /// Its tenant.
    pub tenant: TenantId,
    /// Its id.
    pub id: CallId,
    /// Version of its newest record.
    pub seen: Version,
    /// Number of the one process that may take it; any worker may without one.
    pub to: Option<u64>,
}
