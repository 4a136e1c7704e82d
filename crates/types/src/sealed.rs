//! Ledger entry between signing and storing: the statement, its subject, and its proof, which is a
//! signature or a leaf under a signed checkpoint.
//!
//! Signing is in `ledger`, storing is in `store`; they do not know each other and meet here.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{CallId, Digest, PersonaId, TenantId, Timestamp, ToolName};

/// Kind of ledger entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EntryKind {
    /// A call in a final state.
    Call,
    /// A decision by itself, because its call goes on waiting.
    Decision,
    /// An approval.
    Approval,
    /// An action of a person on a held call.
    Resolution,
    /// A tool that was added, changed or removed.
    Tool,
    /// An API key that was created or revoked.
    Key,
    /// A secret that was set or removed.
    Secret,
    /// The key that signs the ledger from here on.
    CheckpointKey,
    /// Maintenance of the ledger or its rows by the operator while the server was stopped.
    Maintenance,
    /// Erased records: of a call, of a session, or of all calls before a moment.
    Erasure,
}

/// Invalid kind of entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a kind of entry: call, decision, approval, resolution, tool, key, secret, checkpoint-key, \
     maintenance or erasure"
)]
pub struct UnknownKind;

impl EntryKind {
    /// All kinds.
    pub const ALL: [Self; 10] = [
        Self::Call,
        Self::Decision,
        Self::Approval,
        Self::Resolution,
        Self::Tool,
        Self::Key,
        Self::Secret,
        Self::CheckpointKey,
        Self::Maintenance,
        Self::Erasure,
    ];

    /// Name on every wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Decision => "decision",
            Self::Approval => "approval",
            Self::Resolution => "resolution",
            Self::Tool => "tool",
            Self::Key => "key",
            Self::Secret => "secret",
            Self::CheckpointKey => "checkpoint-key",
            Self::Maintenance => "maintenance",
            Self::Erasure => "erasure",
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

/// Subject of an entry, by which it is found. The signed text says the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Tenant; `None` if the entry concerns the whole server, and then every tenant may read it.
    pub tenant: Option<TenantId>,
    /// Call of the entry.
    pub call: Option<CallId>,
    /// Persona on whose behalf it happened.
    pub persona: Option<PersonaId>,
    /// Tool of the entry.
    pub tool: Option<ToolName>,
    /// Time of the event.
    pub at: Timestamp,
}

impl About {
    /// Subject: the whole server.
    pub const fn server(at: Timestamp) -> Self {
        Self { tenant: None, call: None, persona: None, tool: None, at }
    }

    /// Subject: a tenant.
    pub const fn tenant(tenant: TenantId, at: Timestamp) -> Self {
        Self { tenant: Some(tenant), call: None, persona: None, tool: None, at }
    }

    /// Subject: a call.
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

/// Entry, ready to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Subject of the entry.
    pub about: About,
    /// Statement, as signed.
    pub payload: String,
    /// Signature by `signer` over the payload; `None` if it is made later.
    pub signature: Option<[u8; 64]>,
    /// Id of the signing key.
    pub signer: Digest,
    /// Leaf hash of the statement in the log's tree.
    pub leaf: Digest,
}

impl Sealed {
    /// Predicate of the statement.
    pub fn predicate<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        predicate(&self.payload)
    }
}

/// Predicate of a statement.
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
