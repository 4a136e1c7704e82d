//! Obligations of an allowed call. Each of them can only restrict.

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

/// Obligations of an allowed call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Obligations {
    /// Caps on the tool's own limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitCaps>,
    /// Minimum isolation: tier and required layers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_isolation: Option<MinIsolation>,
    /// Parts of arguments and results that are masked in records and answers.
    #[serde(skip_serializing_if = "Redact::is_empty")]
    pub redact: Redact,
    /// Permitted hosts, among those that the tool could reach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Whether the call must run even if the result of an equal call is remembered.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fresh: bool,
}

impl Obligations {
    /// Both together: whatever satisfies the result satisfies each of the two.
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
