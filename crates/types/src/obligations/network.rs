//! Which hosts may be spoken to.

use serde::{Deserialize, Serialize, Serializer};

/// Most entries of a list of hosts.
const ENTRIES: usize = 256;
/// Most bytes of one: `*.` and the longest name.
const BYTES: usize = 255;

/// The hosts that may be spoken to: `"none"`, or a list of names, addresses and `*.` names. What
/// an entry means is known where hosts are spoken to; one that means nothing there permits nothing.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub struct Network(
    /// None of it at all if this is empty. Bounded by the constructor.
    Vec<String>,
);

/// Neither `none` nor a list of hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected \"none\" or a list of at most {ENTRIES} hosts of 1 to {BYTES} characters")]
pub struct InvalidNetwork;

impl Network {
    /// No host.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// These hosts.
    pub fn only(hosts: Vec<String>) -> Result<Self, InvalidNetwork> {
        let fits = |host: &String| {
            (1..=BYTES).contains(&host.len())
                && !host.chars().any(|c| c.is_whitespace() || c.is_control())
        };
        if hosts.len() <= ENTRIES && hosts.iter().all(fits) {
            Ok(Self(hosts))
        } else {
            Err(InvalidNetwork)
        }
    }

    /// The entries; none at all permit nothing.
    pub fn hosts(&self) -> &[String] {
        &self.0
    }

    /// What stands in both lists. An entry of one that lies within an entry of the other is dropped
    /// unless it is spelled the same: too little rather than too much.
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
