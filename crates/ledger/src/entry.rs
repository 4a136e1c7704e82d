//! What can be put on record: one function per kind.
//!
//! The predicate of a call is its receipt. Every other predicate says when and whom it concerns,
//! and then, under `said`, what.

use ringfence_types::{
    About, CallId, Decision, Digest, EntryKind, Json, KeyId, PersonId, PersonaId, Receipt, Scopes,
    Sealed, TenantId, Timestamp, ToolName, ToolRef,
};
use serde::{Deserialize, Serialize, Serializer, de::DeserializeOwned, ser::SerializeMap};

use crate::{
    key::PublicKey,
    statement::{self, Subject, predicate_type},
};

/// Something to be put on record, not signed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What it tells of.
    pub kind: EntryKind,
    /// Whom and what it concerns.
    pub about: About,
    /// The statement.
    pub payload: String,
}

/// Most bytes of a statement whose envelope fits: base64 adds a third, and the rest some hundred.
const ROOM: usize = 48_000;

impl Entry {
    /// A call came to its end. One that policy said too much about is shortened, and says so.
    pub fn call(receipt: Receipt) -> Self {
        let about = About {
            tenant: Some(receipt.tenant.clone()),
            call: Some(receipt.call),
            persona: receipt.persona.clone(),
            tool: Some(receipt.tool.name.clone()),
            at: receipt.ended_at,
        };
        let mut payload = call(&receipt);
        if payload.len() > ROOM {
            payload = call(&receipt.shortened());
        }
        Self { kind: EntryKind::Call, about, payload }
    }

    /// Policy decided, and the call goes on waiting.
    pub fn decision(about: About, decision: &Decision) -> Self {
        let mut decision = decision.clone();
        decision.reasons.truncate(16);
        for reason in &mut decision.reasons {
            reason.message = reason.message.chars().take(256).collect();
            reason.rule = reason.rule.chars().take(256).collect();
        }
        Self::of(EntryKind::Decision, about, None, &decision)
    }

    /// Somebody approved. `approval` is plain data of a few kilobytes at most.
    pub fn approval(about: About, approval: &impl Serialize) -> Self {
        Self::of(EntryKind::Approval, about, None, approval)
    }

    /// Somebody did something about a call that was held. `resolution` is plain data of a few
    /// kilobytes at most.
    pub fn resolution(about: About, resolution: &impl Serialize) -> Self {
        Self::of(EntryKind::Resolution, about, None, resolution)
    }

    /// A tool came, changed or went.
    pub fn tool(at: Timestamp, change: &ToolChange) -> Self {
        let about = About { tool: Some(change.tool.name.clone()), ..About::server(at) };
        let subject = Subject::new(change.tool.name.as_str(), change.tool.digest);
        Self::of(EntryKind::Tool, about, Some(subject), change)
    }

    /// A key of the API was made or revoked.
    pub fn key(tenant: TenantId, at: Timestamp, change: &KeyChange) -> Self {
        Self::of(EntryKind::Key, About::tenant(tenant, at), None, change)
    }

    /// The key that signs from the next entry on; the first of a log signs itself.
    pub fn checkpoint_key(at: Timestamp, key: &LedgerKey) -> Self {
        let subject = Subject::new("public-key", Digest::of(key.public.as_bytes()));
        Self::of(EntryKind::CheckpointKey, About::server(at), Some(subject), key)
    }

    /// The operator, whose tenant this is, changed the ledger, or rows beside it, while no server ran.
    pub fn maintenance(tenant: TenantId, at: Timestamp, change: &Maintenance) -> Self {
        Self::of(EntryKind::Maintenance, About::tenant(tenant, at), None, change)
    }

    /// What has no bytes of its own to point to points to what is said.
    fn of(kind: EntryKind, about: About, subject: Option<Subject>, said: &impl Serialize) -> Self {
        let own = || Subject::new(kind.name(), digest(said));
        let subject = subject.unwrap_or_else(own);
        let told = Told { about: &about, said };
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
    // A statement is about something: what produced nothing is about its own receipt.
    if subject.is_empty() {
        subject.push(Subject::new("receipt", receipt.digest()));
    }
    statement::write(&subject, predicate_type(EntryKind::Call), receipt)
}

/// The predicate of everything but calls.
struct Told<'a, T> {
    about: &'a About,
    said: &'a T,
}

impl<T: Serialize> Serialize for Told<'_, T> {
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
        // Last, and one level down: nothing in it can stand for what is above.
        map.serialize_entry("said", self.said)?;
        map.end()
    }
}

/// What a predicate says of when and whom.
#[derive(Deserialize)]
struct Heard {
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

/// Whom and what a predicate concerns, read from the predicate itself.
pub(crate) fn about(kind: EntryKind, predicate: &str) -> Option<About> {
    let Heard { at, ended_at, tenant, call, persona, tool } =
        serde_json::from_str(predicate).ok()?;
    let at = if kind == EntryKind::Call { ended_at } else { at };
    let tool = tool.map(|tool| match tool {
        Named::Name(name) => name,
        Named::Exactly(tool) => tool.name,
    });
    Some(About { tenant, call, persona, tool, at: at? })
}

#[derive(Deserialize)]
struct Said<T> {
    said: T,
}

/// What is said in a predicate that is not of a call.
pub(crate) fn said<T: DeserializeOwned>(predicate: &str) -> Option<T> {
    serde_json::from_str(predicate).ok().map(|Said { said }| said)
}

/// What an entry says that is not about the end of a call; none if it says something else.
pub fn said_in<T: DeserializeOwned>(entry: &Sealed) -> Option<T> {
    entry.predicate().ok().map(|Said { said }| said)
}

/// A tool that came, changed or went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolChange {
    /// What happened.
    pub event: ToolEvent,
    /// The tool, as it is now or was last.
    pub tool: ToolRef,
    /// Where it comes from.
    pub origin: String,
    /// What it was before, if it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Digest>,
}

/// What happened to a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolEvent {
    /// It can be called from now on.
    Added,
    /// It is another one under the same name and version.
    Changed,
    /// It cannot be called any more.
    Removed,
}

/// A key of the API that was made or revoked. Never its secret, nor the digest by which it is found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeyChange {
    /// `created` or `revoked`.
    pub event: String,
    /// The key.
    pub key: KeyId,
    /// What people call it.
    pub label: String,
    /// What it may do.
    pub scopes: Scopes,
    /// The only persona it may act for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persona: Option<PersonaId>,
    /// Whose hands it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<PersonId>,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The key that did it; none for the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<KeyId>,
    /// Which secret it has, as [`KeyChange::fingerprint_of`] says it; absent in entries of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Digest>,
}

impl KeyChange {
    /// The digest of the digest that is kept of a secret: tells whether a row has the secret that the
    /// key was made with, and finds no key.
    pub fn fingerprint_of(secret: Digest) -> Digest {
        Digest::of(secret.as_bytes())
    }
}

/// What the operator did to the ledger, or to rows beside it, while no server ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Maintenance {
    /// The log begins here in the place of another one, which was lost or erased.
    BeganAnew {
        /// The newest checkpoint known of the log before it, as a signed note.
        before: Option<String>,
    },
    /// The log goes on although a checkpoint that was kept is not of its past.
    RollbackAccepted {
        /// The checkpoint, as a signed note: the history it commits to was given up.
        abandoned: String,
        /// Entries that the log had when that was accepted.
        entries: u64,
    },
    /// Rows of keys and approvals were set to what the entries say.
    RowsRepaired {
        /// How many differences there were.
        differences: u64,
        /// The first of them, in words.
        rows: Vec<String>,
    },
}

/// A key of the ledger itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerKey {
    /// The name of the log.
    pub origin: String,
    /// The key that signs from the next entry on.
    pub public: PublicKey,
    /// Its id.
    pub id: Digest,
    /// The key that signed until now; none for the first.
    pub replaces: Option<Digest>,
}
