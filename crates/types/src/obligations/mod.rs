//! What an allowed call must keep to. Every part of it can only take away.

mod isolation;
mod limits;
mod network;
mod redact;

use serde::{Deserialize, Serialize};

pub use self::{
    isolation::MinIsolation,
    limits::LimitCaps,
    network::{InvalidNetwork, Network},
    redact::{InvalidPointer, Pointer, REDACTED, Redact, Root},
};

/// What an allowed call must keep to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Obligations {
    /// Limits that may only lower the tool's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitCaps>,
    /// How the sandbox must come about at least, and which walls must stand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_isolation: Option<MinIsolation>,
    /// What is not kept, shown or told of the arguments and of what came of them.
    #[serde(skip_serializing_if = "Redact::is_empty")]
    pub redact: Redact,
    /// The hosts that may be spoken to, of those that the tool could reach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// It must run: no remembered result of an equal call will do.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fresh: bool,
}

impl Obligations {
    /// Both: whatever keeps to the result keeps to each of the two.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            limits: both(self.limits, other.limits, |one, other| one.and(&other)),
            min_isolation: both(self.min_isolation, other.min_isolation, MinIsolation::and),
            redact: self.redact.and(other.redact),
            network: both(self.network, other.network, |one, other| one.and(&other)),
            fresh: self.fresh || other.fresh,
        }
    }
}

fn both<T>(one: Option<T>, other: Option<T>, join: impl FnOnce(T, T) -> T) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(join(one, other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests;
