//! Action kinds: the ones Ringfence itself performs, and names that clients of `/v1/evaluate` ask about.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize, Serializer};

/// Length limit of an action name.
const MAX_NAME_BYTES: usize = 64;

/// Kind of action that a document is about.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Action {
    /// Execution of a tool.
    ToolExecute,
    /// Registration of a tool.
    ToolInstall,
    /// Removal of a tool.
    ToolRemove,
    /// Creation of a session sandbox.
    SandboxCreate,
    /// Write to memory that outlives the session.
    MemoryWrite,
    /// Message to a model or a person.
    ConversationSend,
    /// Change of settings.
    SettingsUpdate,
    /// Any other action, known only to the rules and the asking client.
    Other(OtherAction),
}

/// Name of an action outside the known kinds: parts of `a-z 0-9 _` separated by dots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherAction(
    /// Valid and different from every known name; checked by the constructor.
    Arc<str>,
);

/// Invalid action name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an action: 1 to {MAX_NAME_BYTES} of a-z 0-9 _ with single dots between them")]
pub struct InvalidAction;

impl Action {
    /// Known kinds.
    pub const KNOWN: [Action; 7] = [
        Action::ToolExecute,
        Action::ToolInstall,
        Action::ToolRemove,
        Action::SandboxCreate,
        Action::MemoryWrite,
        Action::ConversationSend,
        Action::SettingsUpdate,
    ];

    /// Name on every wire.
    pub fn name(&self) -> &str {
        match self {
            Action::ToolExecute => "tool.execute",
            Action::ToolInstall => "tool.install",
            Action::ToolRemove => "tool.remove",
            Action::SandboxCreate => "sandbox.create",
            Action::MemoryWrite => "memory.write",
            Action::ConversationSend => "conversation.send",
            Action::SettingsUpdate => "settings.update",
            Action::Other(OtherAction(name)) => name,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Action {
    type Err = InvalidAction;

    fn from_str(text: &str) -> Result<Self, InvalidAction> {
        if let Some(known) = Self::KNOWN.into_iter().find(|known| known.name() == text) {
            return Ok(known);
        }
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let is_part = |part: &str| !part.is_empty() && part.chars().all(is_plain);
        let fits = text.len() <= MAX_NAME_BYTES && text.split('.').all(is_part);
        if fits { Ok(Action::Other(OtherAction(text.into()))) } else { Err(InvalidAction) }
    }
}

impl TryFrom<String> for Action {
    type Error = InvalidAction;

    fn try_from(text: String) -> Result<Self, InvalidAction> {
        text.parse()
    }
}

impl Serialize for Action {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_reads_back_as_it_is_written() {
        for known in Action::KNOWN {
            assert_eq!(known.name().parse::<Action>(), Ok(known.clone()), "{known}");
        }
        let other: Action = "tool.catalog.update".parse().unwrap();
        assert!(matches!(other, Action::Other(_)));
        assert_eq!(serde_json::to_string(&other).unwrap(), "\"tool.catalog.update\"");
    }

    #[test]
    fn what_is_no_name_of_an_action_is_refused() {
        let long = "a".repeat(65);
        for text in ["", ".", "a.", ".a", "a..b", "Tool.execute", "tool execute", "tööl", &long] {
            assert_eq!(text.parse::<Action>(), Err(InvalidAction), "{text}");
        }
    }
}
