//! Entries of the ledger: one constructor per kind.
//!
//! The predicate of a call is its receipt. Every other predicate has time and subject, and the
//! statement itself under `said`.

use ringfence_types::{
    About, CallId, Decision, Digest, EntryKind, Json, KeyId, LifecycleEvent, Origin, PersonId,
    PersonaId, Receipt, Scopes, Sealed, SecretName, SecretRule, SessionId, TenantId, Timestamp,
    ToolName, ToolPermissions, ToolRef, ToolStatus,
};
use serde::{Deserialize, Serialize, Serializer, de::DeserializeOwned, ser::SerializeMap};

use crate::{
    key::PublicKey,
    statement::{self, Subject, predicate_type},
};

/// An unsigned entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Subject of the entry.
    pub about: About,
    /// The statement.
    pub payload: String,
}

/// Maximum bytes of a statement whose envelope fits: base64 adds a third, and the rest some
/// hundred.
const MAX_STATEMENT_BYTES: usize = 48_000;

impl Entry {
    /// End of a call. A receipt that is too long is shortened, and says so.
    pub fn call(receipt: Receipt) -> Self {
        let about = About {
            tenant: Some(receipt.tenant.clone()),
            call: Some(receipt.call),
            persona: receipt.persona.clone(),
            tool: Some(receipt.tool.name.clone()),
            at: receipt.ended_at,
        };
        let mut payload = call(&receipt);
        if payload.len() > MAX_STATEMENT_BYTES {
            payload = call(&receipt.shortened());
        }
        Self { kind: EntryKind::Call, about, payload }
    }

    /// Decision of policy about a call that stays held.
    pub fn decision(about: About, decision: &Decision) -> Self {
        let mut decision = decision.clone();
        decision.reasons.truncate(16);
        for reason in &mut decision.reasons {
            reason.message = reason.message.chars().take(256).collect();
            reason.rule = reason.rule.chars().take(256).collect();
        }
        Self::of(EntryKind::Decision, about, None, &decision)
    }

    /// Approval by a person. `approval` is plain data of a few kilobytes at most.
    pub fn approval(about: About, approval: &impl Serialize) -> Self {
        Self::of(EntryKind::Approval, about, None, approval)
    }

    /// Resolution of a held call by a person. `resolution` is plain data of a few kilobytes at
    /// most.
    pub fn resolution(about: About, resolution: &impl Serialize) -> Self {
        Self::of(EntryKind::Resolution, about, None, resolution)
    }

    /// Added, changed or removed tool.
    pub fn tool(at: Timestamp, change: &ToolChange) -> Self {
        let about = About { tool: Some(change.tool.name.clone()), ..About::server(at) };
        let subject = Subject::new(change.tool.name.as_str(), change.tool.digest);
        Self::of(EntryKind::Tool, about, Some(subject), change)
    }

    /// Change in the lifecycle of a tool version.
    pub fn tool_transition(at: Timestamp, transition: &ToolTransition) -> Self {
        let about = About { tool: Some(transition.tool.name.clone()), ..About::server(at) };
        let subject = Subject::new(transition.tool.name.as_str(), transition.tool.digest);
        Self::of(EntryKind::Tool, about, Some(subject), transition)
    }

    /// Created or revoked API key.
    pub fn key(tenant: TenantId, at: Timestamp, change: &KeyChange) -> Self {
        Self::of(EntryKind::Key, About::tenant(tenant, at), None, change)
    }

    /// Secret that was set or removed.
    pub fn secret(tenant: TenantId, at: Timestamp, change: &SecretChange) -> Self {
        Self::of(EntryKind::Secret, About::tenant(tenant, at), None, change)
    }

    /// The key that signs from the next entry on; the first of a log signs itself.
    pub fn checkpoint_key(at: Timestamp, key: &LedgerKey) -> Self {
        let subject = Subject::new("public-key", Digest::of(key.public.as_bytes()));
        Self::of(EntryKind::CheckpointKey, About::server(at), Some(subject), key)
    }

    /// Maintenance of the ledger or its rows by the operator, whose tenant this is, while no server
    /// ran.
    pub fn maintenance(tenant: TenantId, at: Timestamp, change: &Maintenance) -> Self {
        Self::of(EntryKind::Maintenance, About::tenant(tenant, at), None, change)
    }

    /// Records that are erased. It is on record before they go.
    pub fn erasure(about: About, erasure: &Erasure) -> Self {
        Self::of(EntryKind::Erasure, about, None, erasure)
    }

    /// An entry of a kind; without a subject of its own, the statement is its subject.
    fn of(kind: EntryKind, about: About, subject: Option<Subject>, said: &impl Serialize) -> Self {
        let own = || Subject::new(kind.name(), digest(said));
        let subject = subject.unwrap_or_else(own);
        let told = EntryPredicate { about: &about, said };
        let payload = statement::write(&[subject], predicate_type(kind), &told);
        Self { kind, about, payload }
    }
}

fn digest(said: &impl Serialize) -> Digest {
    Digest::of_json(&Json::of(said).expect("plain data of bounded depth"))
}

fn call(receipt: &Receipt) -> String {
    let parts = [
        ("result", receipt.result),
        ("stdout", receipt.stdout.digest),
        ("stderr", receipt.stderr.digest),
    ];
    let of = |(name, digest): (&str, Option<Digest>)| Some(Subject::new(name, digest?));
    let mut subject: Vec<_> = parts.into_iter().filter_map(of).collect();
    // A statement needs a subject: without artifacts it is the receipt itself.
    if subject.is_empty() {
        subject.push(Subject::new("receipt", receipt.digest()));
    }
    statement::write(&subject, predicate_type(EntryKind::Call), receipt)
}

/// Predicate of all entries but calls.
struct EntryPredicate<'a, T> {
    about: &'a About,
    said: &'a T,
}

impl<T: Serialize> Serialize for EntryPredicate<'_, T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let About { tenant, call, persona, tool, at } = self.about;
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("at", at)?;
        if let Some(tenant) = tenant {
            map.serialize_entry("tenant", tenant)?;
        }
        if let Some(call) = call {
            map.serialize_entry("call", call)?;
        }
        if let Some(persona) = persona {
            map.serialize_entry("persona", persona)?;
        }
        if let Some(tool) = tool {
            map.serialize_entry("tool", tool)?;
        }
        // Last, and one level down, so that no part of it can stand for a field above.
        map.serialize_entry("said", self.said)?;
        map.end()
    }
}

/// Time and subject of a predicate.
#[derive(Deserialize)]
struct PredicateSubject {
    at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
    tenant: Option<TenantId>,
    call: Option<CallId>,
    persona: Option<PersonaId>,
    tool: Option<Named>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Named {
    Name(ToolName),
    Exactly(ToolRef),
}

/// Subject of an entry, read from its predicate.
pub(crate) fn about(kind: EntryKind, predicate: &str) -> Option<About> {
    let PredicateSubject { at, ended_at, tenant, call, persona, tool } =
        serde_json::from_str(predicate).ok()?;
    let at = if kind == EntryKind::Call { ended_at } else { at };
    let tool = tool.map(|tool| match tool {
        Named::Name(name) => name,
        Named::Exactly(tool) => tool.name,
    });
    Some(About { tenant, call, persona, tool, at: at? })
}

#[derive(Deserialize)]
struct Statement<T> {
    said: T,
}

/// The `said` part of a predicate other than a call's.
pub(crate) fn said<T: DeserializeOwned>(predicate: &str) -> Option<T> {
    serde_json::from_str(predicate).ok().map(|Statement { said }| said)
}

/// The statement of an entry other than a call's; none if it has another form.
pub fn said_in<T: DeserializeOwned>(entry: &Sealed) -> Option<T> {
    entry.predicate().ok().map(|Statement { said }| said)
}

/// Statement about an added, changed or removed tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolChange {
    /// The change.
    pub event: ToolEvent,
    /// The tool, as it is now or was last.
    pub tool: ToolRef,
    /// Source of the tool.
    pub origin: String,
    /// Previous digest, if it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Digest>,
}

/// Change of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolEvent {
    /// It can be called from now on.
    Added,
    /// The content changed under the same name and version.
    Changed,
    /// It cannot be called any more.
    Removed,
}

/// Statement about a change in the lifecycle of a tool version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolTransition {
    /// The event.
    pub transition: LifecycleEvent,
    /// The version.
    pub tool: ToolRef,
    /// Status before; none of a version that was unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<ToolStatus>,
    /// Status after.
    pub to: ToolStatus,
    /// Kind of source.
    pub origin: Origin,
    /// Key that made the change; none if the server made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<KeyId>,
    /// Reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Permissions that are granted from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grants: Option<ToolPermissions>,
    /// The version whose place it is to take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<Digest>,
}

/// Statement about a created or revoked API key. Never its secret, nor the digest by which it is
/// found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeyChange {
    /// `created` or `revoked`.
    pub event: String,
    /// The key.
    pub key: KeyId,
    /// Label of the key.
    pub label: String,
    /// Scopes of the key.
    pub scopes: Scopes,
    /// The only persona it may act for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persona: Option<PersonaId>,
    /// Person who has the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<PersonId>,
    /// Time of expiry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The key that made the change; none for the first key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<KeyId>,
    /// Fingerprint of its secret, as of [`KeyChange::fingerprint_of`]; absent in entries of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Digest>,
}

impl KeyChange {
    /// The digest of the stored digest of a secret: it shows whether a row has the key's original
    /// secret, and cannot be used to find the key.
    pub fn fingerprint_of(secret: Digest) -> Digest {
        Digest::of(secret.as_bytes())
    }
}

/// Statement about a secret that was set or removed. Never its value, nor a digest of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretChange {
    /// `set` or `removed`.
    pub event: String,
    /// Name of the secret.
    pub name: SecretName,
    /// Where it may go from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<SecretRule>,
    /// The key that made the change.
    pub by: KeyId,
}

/// Maintenance of the ledger or its rows by the operator while no server ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Maintenance {
    /// The log replaces another one, which was lost or erased.
    BeganAnew {
        /// The newest known checkpoint of the previous log, as a signed note.
        before: Option<String>,
    },
    /// The log goes on although it does not continue a stored checkpoint.
    RollbackAccepted {
        /// The checkpoint, as a signed note; the history under it was given up.
        abandoned: String,
        /// Number of entries of the log at that time.
        entries: u64,
    },
    /// Rows of keys and approvals were reset to the ledger's statements.
    RowsRepaired {
        /// Number of differences.
        differences: u64,
        /// Descriptions of the first ones.
        rows: Vec<String>,
    },
}

/// Statement about erased records. Entries of the ledger are never erased.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Erasure {
    /// On request: records of the call that the entry is about, or events of a session.
    Requested {
        /// The key that asked for it.
        by: KeyId,
        /// The session, if all of it was to be erased.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<SessionId>,
        /// Reason given for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Records of all calls that ended before a moment, and other records from before it.
    Expired {
        /// The moment.
        before: Timestamp,
        /// The key that asked for it; none if the retention of the server did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<KeyId>,
    },
}

impl Erasure {
    /// Whether an entry says that the records of the call with this receipt were erased.
    pub fn covers(entry: &Sealed, receipt: &Receipt) -> bool {
        match said_in(entry).filter(|_| entry.kind == EntryKind::Erasure) {
            Some(Self::Requested { .. }) => {
                entry.about.call == Some(receipt.call)
                    && entry.about.tenant.as_ref() == Some(&receipt.tenant)
            }
            Some(Self::Expired { before, .. }) => {
                entry.about.tenant.is_none() && receipt.ended_at < before
            }
            None => false,
        }
    }
}

/// Statement about a key of the ledger itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerKey {
    /// Name of the log.
    pub origin: String,
    /// The key that signs from the next entry on.
    pub public: PublicKey,
    /// Id of the key.
    pub id: Digest,
    /// The previous key; none for the first.
    pub replaces: Option<Digest>,
}
