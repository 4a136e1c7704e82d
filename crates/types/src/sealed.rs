//! An entry of the ledger on its way to the store and back: what it says, whom it concerns, and
//! what makes it evidence: its signature, or its leaf under a signed checkpoint.
//!
//! Signing is in `ledger`, keeping is in `store`; they do not know each other and meet here.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{CallId, Digest, PersonaId, TenantId, Timestamp, ToolName};

/// What an entry tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EntryKind {
    /// A call that came to its end.
    Call,
    /// A decision that stands alone, because its call goes on waiting.
    Decision,
    /// Somebody's approval.
    Approval,
    /// What somebody did about a call that was held.
    Resolution,
    /// A tool that came, changed or went.
    Tool,
    /// A key of the API that was made or revoked.
    Key,
    /// The key that signs the ledger from here on.
    CheckpointKey,
    /// What the operator did to the ledger or to the rows beside it while no server ran.
    Maintenance,
}

/// A word that is no kind of entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a kind of entry: call, decision, approval, resolution, tool, key, checkpoint-key or \
     maintenance"
)]
pub struct UnknownKind;

impl EntryKind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Call,
        Self::Decision,
        Self::Approval,
        Self::Resolution,
        Self::Tool,
        Self::Key,
        Self::CheckpointKey,
        Self::Maintenance,
    ];

    /// Its name on every wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Decision => "decision",
            Self::Approval => "approval",
            Self::Resolution => "resolution",
            Self::Tool => "tool",
            Self::Key => "key",
            Self::CheckpointKey => "checkpoint-key",
            Self::Maintenance => "maintenance",
        }
    }
}

impl fmt::Display for EntryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for EntryKind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or(UnknownKind)
    }
}

/// Whom and what an entry concerns: by this it is found. The signed text says the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Whose. What concerns the whole server has none, and every tenant may read it.
    pub tenant: Option<TenantId>,
    /// The call.
    pub call: Option<CallId>,
    /// On whose behalf.
    pub persona: Option<PersonaId>,
    /// The tool.
    pub tool: Option<ToolName>,
    /// When it happened.
    pub at: Timestamp,
}

impl About {
    /// Something that concerns the whole server.
    pub const fn server(at: Timestamp) -> Self {
        Self { tenant: None, call: None, persona: None, tool: None, at }
    }

    /// Something that concerns a tenant.
    pub const fn tenant(tenant: TenantId, at: Timestamp) -> Self {
        Self { tenant: Some(tenant), call: None, persona: None, tool: None, at }
    }

    /// Something that concerns a call.
    pub fn call(asked: &crate::Asked, at: Timestamp) -> Self {
        Self {
            tenant: Some(asked.tenant.clone()),
            call: Some(asked.id),
            persona: asked.persona.clone(),
            tool: Some(asked.tool.name.clone()),
            at,
        }
    }
}

/// An entry, ready to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// What it tells of.
    pub kind: EntryKind,
    /// Whom and what it concerns.
    pub about: About,
    /// The statement, as it was signed.
    pub payload: String,
    /// By `signer`, over the payload; none if it is made later.
    pub signature: Option<[u8; 64]>,
    /// The id of the key that signs.
    pub signer: Digest,
    /// Of what is signed, as a leaf of the log's tree.
    pub leaf: Digest,
}

impl Sealed {
    /// What the statement says.
    pub fn predicate<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        predicate(&self.payload)
    }
}

/// What a statement says.
pub fn predicate<T: DeserializeOwned>(statement: &str) -> Result<T, serde_json::Error> {
    #[derive(Deserialize)]
    struct Statement<T> {
        predicate: T,
    }
    serde_json::from_str(statement).map(|Statement { predicate }| predicate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_reads_what_it_writes() {
        for kind in EntryKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
        assert_eq!("Call".parse::<EntryKind>(), Err(UnknownKind));
    }
}
