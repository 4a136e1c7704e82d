//! What is about to happen, as one of the kinds we know or as one that others ask about.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize, Serializer};

/// Most bytes of a name.
const BYTES: usize = 64;

/// What is about to happen.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Action {
    /// A tool runs.
    ToolExecute,
    /// A tool becomes known.
    ToolInstall,
    /// A tool is forgotten.
    ToolRemove,
    /// A sandbox is made that is kept.
    SandboxCreate,
    /// Something is remembered beyond its session.
    MemoryWrite,
    /// Something is said to a model or to a person.
    ConversationSend,
    /// Settings change.
    SettingsUpdate,
    /// Something that only the rules and whoever asks know of.
    Other(OtherAction),
}

/// The name of an action that is none of ours: parts of `a-z 0-9 _` with dots between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherAction(
    /// Checked by the constructor, and none of ours.
    Arc<str>,
);

/// Text that is not the name of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an action: 1 to {BYTES} of a-z 0-9 _ with single dots between them")]
pub struct InvalidAction;

impl Action {
    /// Those we know.
    pub const KNOWN: [Action; 7] = [
        Action::ToolExecute,
        Action::ToolInstall,
        Action::ToolRemove,
        Action::SandboxCreate,
        Action::MemoryWrite,
        Action::ConversationSend,
        Action::SettingsUpdate,
    ];

    /// Its name on every wire.
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
        let fits = text.len() <= BYTES && text.split('.').all(is_part);
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
