//! Permitted hosts.

use serde::{Deserialize, Serialize, Serializer};

/// Entries in a list of hosts.
const MAX_ENTRIES: usize = 256;
/// Length limit of an entry: `*.` and the longest name.
const MAX_ENTRY_BYTES: usize = 255;

/// Permitted hosts: `"none"`, or a list of names, addresses and `*.` names. The `egress` crate
/// interprets the entries; an invalid entry permits nothing.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub struct Network(
    /// Entries; empty permits no host. Bounded by the constructor.
    Vec<String>,
);

/// Invalid value: neither `none` nor a list of hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected \"none\" or a list of at most {MAX_ENTRIES} hosts of 1 to {MAX_ENTRY_BYTES} characters"
)]
pub struct InvalidNetwork;

impl Network {
    /// No host.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// Only these hosts.
    pub fn only(hosts: Vec<String>) -> Result<Self, InvalidNetwork> {
        // Methods may stand before the host.
        let fits = |entry: &String| {
            let (methods, host) = entry.split_once(' ').unwrap_or(("GET", entry));
            (1..=MAX_ENTRY_BYTES).contains(&entry.len())
                && methods.chars().all(|c| c.is_ascii_uppercase() || c == ',')
                && !host.chars().any(|c| c.is_whitespace() || c.is_control())
        };
        if hosts.len() <= MAX_ENTRIES && hosts.iter().all(fits) {
            Ok(Self(hosts))
        } else {
            Err(InvalidNetwork)
        }
    }

    /// Entries; an empty list permits no host.
    pub fn hosts(&self) -> &[String] {
        &self.0
    }

    /// Entries in both lists. An entry of one that lies within an entry of the other is dropped unless
    /// it is spelled the same: too strict rather than too lax.
    pub(super) fn and(&self, other: &Self) -> Self {
        Self(self.0.iter().filter(|host| other.0.contains(host)).cloned().collect())
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Word(String),
    Hosts(Vec<String>),
}

impl TryFrom<Written> for Network {
    type Error = InvalidNetwork;

    fn try_from(written: Written) -> Result<Self, InvalidNetwork> {
        match written {
            Written::Word(word) if word == "none" => Ok(Self::none()),
            Written::Word(_) => Err(InvalidNetwork),
            Written::Hosts(hosts) => Self::only(hosts),
        }
    }
}

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.is_empty() {
            true => serializer.serialize_str("none"),
            false => self.0.serialize(serializer),
        }
    }
}
