//! Secrets that are added to requests of tools: their names, values and rules.

use std::fmt;

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::{SecretName, ToolName};

/// Value of a secret. It shows itself only when asked by name, and is overwritten when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(Zeroizing<String>);

impl SecretText {
    /// Takes a value.
    pub fn new(value: String) -> Self {
        Self(Zeroizing::new(value))
    }

    /// The value itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("***")
    }
}

/// Where a secret may go: tools whose calls may use it, hosts it may be sent to, and its place in a
/// request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretRule {
    /// Tools whose calls may use it.
    pub tools: Vec<ToolName>,
    /// Hosts, in the form of a network grant: `[METHOD[,METHOD] ]host[:port][/path]`.
    pub hosts: Vec<String>,
    /// Place in the request.
    #[serde(flatten)]
    pub place: SecretPlace,
}

/// Place of a secret in a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecretPlace {
    /// Header of this name, whose value is replaced.
    Header {
        /// Name of the header.
        name: String,
        /// Value of the header, with `{}` for the secret.
        format: String,
    },
    /// Parameter of the query, whose value is replaced.
    Query {
        /// Name of the parameter.
        name: String,
    },
}

/// Text that programs see in the place of a secret.
pub fn placeholder(name: &SecretName) -> String {
    format!("ringfence-secret-{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_not_shown() {
        let value = SecretText::new("s3cret".to_owned());
        assert_eq!(format!("{value:?} {:?}", Some(&value)), "*** Some(***)");
        assert_eq!(value.reveal(), "s3cret");
    }
}
