//! Identifiers. Each kind has its own type, so that one can never stand where another belongs.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize, Serializer};
use uuid::Uuid;

/// Invalid identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{shown}` is not a valid {kind}: {rule}")]
pub struct InvalidId {
    /// Kind of identifier that was expected.
    pub kind: &'static str,
    /// Rule that it breaks, in words.
    pub rule: &'static str,
    /// Beginning of the invalid text.
    pub shown: String,
}

/// Random identifier that sorts by time of creation.
macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                // Only the printed spelling is accepted: two spellings of one id would be two cache keys.
                let rule = "36 lower-case characters of a UUID";
                let invalid = || InvalidId { kind: $kind, rule, shown: beginning(text) };
                let id = Uuid::try_parse(text).map(Self).map_err(|_| invalid())?;
                if id.to_string() == text { Ok(id) } else { Err(invalid()) }
            }
        }
    };
}

/// Identifier chosen by people.
macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $most:literal, $rule:literal, $allowed:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(
            /// Kept by the constructor: 1 to a bounded number of allowed characters. Shared,
            /// because each call copies its names many times.
            Arc<str>,
        );

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let allowed: fn(&str) -> bool = $allowed;
                if !text.is_empty() && text.len() <= $most && allowed(text) {
                    Ok(Self(text.into()))
                } else {
                    Err(InvalidId { kind: $kind, rule: $rule, shown: beginning(text) })
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                text.parse()
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
    };
}

uuid_id!(
    /// Id of a call.
    CallId,
    "call id"
);
uuid_id!(
    /// Id of an approval.
    ApprovalId,
    "approval id"
);
uuid_id!(
    /// Id of an artifact.
    ArtifactId,
    "artifact id"
);
uuid_id!(
    /// Id of a plan.
    PlanId,
    "plan id"
);
uuid_id!(
    /// Id of an API key.
    KeyId,
    "key id"
);
text_id!(
    /// Tenant: calls, keys and sessions of one tenant are invisible to any other.
    TenantId,
    "tenant",
    64,
    "1 to 64 of a-z A-Z 0-9 . _ -, and no dot in front",
    // The work directory has this name, and `..` would be the directory of all tenants.
    |text| !text.starts_with('.') && text.chars().all(is_plain)
);
text_id!(
    /// Persona on whose behalf an agent acts.
    PersonaId,
    "persona id",
    128,
    "1 to 128 printable ASCII characters without spaces",
    |text| text.chars().all(|c| c.is_ascii_graphic())
);
text_id!(
    /// Person who has keys. Keys of one person count as one where different people are needed.
    PersonId,
    "person",
    128,
    "1 to 128 printable ASCII characters without spaces",
    |text| text.chars().all(|c| c.is_ascii_graphic())
);
text_id!(
    /// Conversation or other session that calls belong to.
    SessionId,
    "session id",
    128,
    "1 to 128 printable ASCII characters without spaces",
    |text| text.chars().all(|c| c.is_ascii_graphic())
);
text_id!(
    /// Name of a tool.
    ToolName,
    "tool name",
    128,
    "1 to 128 of A-Z a-z 0-9 _ . -",
    |text| text.chars().all(is_plain)
);

text_id!(
    /// Name of a secret.
    SecretName,
    "secret name",
    64,
    "1 to 64 of A-Z a-z 0-9 _ . -",
    |text| text.chars().all(is_plain)
);

impl PersonId {
    /// Whether both name the same person, ignoring case: two spellings of one address are not two
    /// people. Names are ASCII, so this is the whole of case folding.
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }

    /// Lower-case spelling under which new keys are stored.
    #[must_use]
    pub fn normalised(&self) -> Self {
        Self(self.0.to_ascii_lowercase().into())
    }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')
}

/// Beginning of an invalid name, enough to recognise it.
fn beginning(text: &str) -> String {
    text.chars().take(40).flat_map(char::escape_default).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_one_spelling() {
        let text = "019a8b7c-1234-7abc-8def-0123456789ab";
        assert_eq!(text.parse::<CallId>().unwrap().to_string(), text);
        for other in [text.to_uppercase(), text.replace('-', ""), format!("{{{text}}}")] {
            assert!(other.parse::<CallId>().is_err(), "{other}");
        }
    }

    #[test]
    fn a_name_is_bounded_and_plain() {
        for good in ["acme-1", "a.b", "a..", "_x", "-"] {
            assert!(good.parse::<TenantId>().is_ok(), "{good:?}");
        }
        let long = "x".repeat(65);
        for bad in ["", "a b", "a/b", "ä", "a\0", ".", "..", ".a", long.as_str()] {
            assert!(bad.parse::<TenantId>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_refusal_shows_only_the_beginning_and_no_control_characters() {
        let refused = format!("\x1b[2J{}", "x".repeat(500)).parse::<ToolName>().unwrap_err();
        assert!(refused.to_string().len() < 200);
        assert!(!refused.to_string().contains('\x1b'));
    }
}
