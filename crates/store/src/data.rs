//! Data that goes in and out of the store.

use std::sync::Arc;

use ringfence_types::{
    Approval, ApprovalId, Call, CallId, Decision, Digest, EntryKind, Fact, Json, KeyId, PersonId,
    PersonaId, Scopes, Sealed, SessionId, TenantId, Timestamp, ToolName,
};

use crate::{LineageEdge, NewArtifact};

/// Counts the records of a call, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u64);

/// One step of a call.
#[derive(Debug, Clone)]
pub struct Record {
    /// The call as it is from now on.
    pub call: Arc<Call>,
    /// The version this step was made from; `None` for a call that is new.
    pub seen: Option<Version>,
    /// Facts that became true.
    pub facts: Vec<Fact>,
    /// Entries of the ledger that come with this step; the call's own entry, if it is the last.
    pub entries: Vec<Sealed>,
    /// Bytes that the call refers to by digest. One that is already there is left alone.
    pub blobs: Vec<Vec<u8>>,
    /// Appended to sessions in the same commit, so that a call's effect on its session happens
    /// exactly once.
    pub session_events: Vec<SessionEvent>,
    /// An approval that this step gives.
    pub approval: Option<Approval>,
    /// The approval that this step uses.
    pub spends: Option<Spend>,
    /// Decisions of policy about the call since the last step.
    pub decisions: Vec<NewDecision>,
    /// Whether what was asked is written anew: policy wants some of it masked.
    pub rewrite: bool,
    /// Artifacts that the call made, whose bytes are among `blobs`.
    pub artifacts: Vec<NewArtifact>,
    /// Edges of the lineage.
    pub edges: Vec<LineageEdge>,
    /// Under which key the result of this call, which ends with this step, is remembered.
    pub memo: Option<NewMemo>,
}

/// A result to be remembered in the place of one under the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewMemo {
    /// Digest of everything that the result depends on.
    pub key: Digest,
    /// Most results that are remembered of the tenant; the oldest give way.
    pub most: u32,
}

/// The call whose result is remembered.
#[derive(Debug, Clone, PartialEq)]
pub struct Remembered {
    /// As it ended.
    pub call: Call,
    /// Where its entry stands in the ledger.
    pub entry: u64,
    /// Hash of that entry, as a leaf of the ledger's tree.
    pub leaf: Digest,
}

/// The use of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spend {
    /// The approval.
    pub approval: ApprovalId,
    /// When.
    pub at: Timestamp,
    /// Digest of the approval as the ledger has it, if the row has to agree with it: see
    /// [`Spend::of`].
    pub content: Option<Digest>,
}

impl Spend {
    /// The use of exactly this approval: if its row says anything else, it is [`crate::Error::Spent`].
    pub fn of(approval: &Approval, at: Timestamp) -> Self {
        let content = serde_json::to_vec(approval).ok().map(|text| Digest::of(&text));
        Self { approval: approval.id, at, content }
    }
}

/// An approval and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// As it was given.
    pub approval: Approval,
    /// Number of calls that used it.
    pub used: u32,
    /// When it was taken back.
    pub revoked_at: Option<Timestamp>,
    /// By whom.
    pub revoked_by: Option<KeyId>,
    /// Whether a key that gave it was revoked since: then it cannot be used.
    pub is_withdrawn: bool,
}

/// Query for approvals.
#[derive(Debug, Clone)]
pub struct ApprovalQuery {
    /// Tenant.
    pub tenant: TenantId,
    /// Only for the tool of this name.
    pub tool: Option<ToolName>,
    /// Only those that a call of this description may use.
    pub usable_by: Option<Usable>,
    /// Only those that are neither over at this moment, nor revoked, nor withdrawn.
    pub live_at: Option<Timestamp>,
    /// Only older ones than this (ids sort by time).
    pub before: Option<ApprovalId>,
    /// Counts as used only what other calls than this one have used.
    pub not_by: Option<CallId>,
    /// At most so many.
    pub limit: usize,
}

/// The caller of an approval's use, and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usable {
    /// The key that makes the call.
    pub key: KeyId,
    /// The call.
    pub call: CallId,
    /// Session of the call.
    pub session: Option<SessionId>,
}

/// A decision to be kept.
#[derive(Debug, Clone, PartialEq)]
pub struct NewDecision {
    /// When it was made.
    pub at: Timestamp,
    /// The decision, with the rules that made it.
    pub decision: Decision,
    /// The document that was judged, as text; masked where the decision says so.
    pub input: String,
}

/// A decision that was kept.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptDecision {
    /// Its name: grows with every decision that is kept.
    pub id: u64,
    /// Subject: a call, or something else of which nothing but this is on record.
    pub call: CallId,
    /// Tenant.
    pub tenant: TenantId,
    /// The tool, or what stood for one.
    pub tool: String,
    /// The decision.
    pub kept: NewDecision,
}

/// Query for decisions, by the time at which they were made.
#[derive(Debug, Clone, Default)]
pub struct DecisionQuery {
    /// Tenant; `None` is every tenant, for callers who may see all.
    pub tenant: Option<TenantId>,
    /// Only about the tool of this name.
    pub tool: Option<String>,
    /// Not before this.
    pub since: Option<Timestamp>,
    /// Before this.
    pub until: Option<Timestamp>,
    /// After this one, which an earlier answer ended with.
    pub after: Option<(Timestamp, u64)>,
    /// At most so many.
    pub limit: usize,
}

/// New findings about a policy that is tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFindings {
    /// Name of the policy.
    pub canary: String,
    /// When.
    pub at: Timestamp,
    /// Added to what was counted before, each to its own.
    pub counts: Vec<u64>,
    /// Differences, as text, oldest first.
    pub differences: Vec<String>,
    /// Most differences that are kept; the oldest give way.
    pub most: u32,
}

/// Findings about a policy that is tried.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// When the first of it was; none if nothing was.
    pub since: Option<Timestamp>,
    /// Counts.
    pub counts: Vec<u64>,
    /// Differences, newest first, each with a number that grows.
    pub differences: Vec<(u64, String)>,
}

/// A call and how often it was recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// The call.
    pub call: Call,
    /// Its version.
    pub version: Version,
}

/// Use of an idempotency key.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyUse {
    /// By this call.
    Call(Box<Stored>),
    /// By a call whose records were erased. The key stays used: what was done once is not done again.
    Erased(CallId),
}

/// Query for calls.
#[derive(Debug, Clone)]
pub struct CallQuery {
    /// Tenant.
    pub tenant: TenantId,
    /// Only in the state of this name.
    pub state: Option<String>,
    /// Only of the tool of this name.
    pub tool: Option<String>,
    /// Only of this session.
    pub session: Option<SessionId>,
    /// Only those that this call made.
    pub parent: Option<CallId>,
    /// Only older ones than this (ids sort by time).
    pub before: Option<CallId>,
    /// Most calls in the answer.
    pub limit: usize,
}

/// Calls, newest first.
#[derive(Debug, Clone, PartialEq)]
pub struct CallPage {
    /// The calls.
    pub calls: Vec<Stored>,
    /// Where the next page begins (`before`); `None` after the last one.
    pub next: Option<CallId>,
}

/// Approvals, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalPage {
    /// The approvals.
    pub approvals: Vec<Standing>,
    /// Where the next page begins (`before`); `None` after the last one.
    pub next: Option<ApprovalId>,
}

/// Entries of the ledger, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryPage {
    /// The entries.
    pub entries: Vec<Placed>,
    /// Where the next page begins (`from`); `None` after the last one.
    pub next: Option<u64>,
}

/// Query for facts.
#[derive(Debug, Clone)]
pub struct FactQuery {
    /// Tenant; `None` is every tenant, for readers inside the server.
    pub tenant: Option<TenantId>,
    /// Only about this call.
    pub call: Option<CallId>,
    /// Only after this position.
    pub after: u64,
    /// About how many.
    pub limit: usize,
}

/// A fact and where it stands among all facts.
#[derive(Debug, Clone, PartialEq)]
pub struct Logged {
    /// Position of its commit.
    pub position: u64,
    /// Among the facts of its commit, from 0.
    pub index: u32,
    /// Tenant.
    pub tenant: TenantId,
    /// The fact.
    pub fact: Fact,
}

/// The facts of one commit, with the call that they are about.
#[derive(Debug, Clone, PartialEq)]
pub struct Commit {
    /// Where it stands among all commits.
    pub position: u64,
    /// The call as the commit left it, or as it is now.
    pub call: Arc<Call>,
    /// Facts that became true.
    pub facts: Vec<Fact>,
}

/// An entry of the ledger and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Its index, from 0.
    pub index: u64,
    /// The entry.
    pub sealed: Sealed,
}

/// Query for entries of the ledger, in their order.
#[derive(Debug, Clone, Default)]
pub struct EntryQuery {
    /// Tenant, whose entries come with those of the whole server; `None` is every tenant, for readers inside.
    pub tenant: Option<TenantId>,
    /// Only of this kind.
    pub kind: Option<EntryKind>,
    /// Only about this tool.
    pub tool: Option<ToolName>,
    /// Only about this call.
    pub call: Option<CallId>,
    /// Only about calls of this session of the tenant.
    pub session: Option<SessionId>,
    /// Only on behalf of this persona.
    pub persona: Option<PersonaId>,
    /// Only from this moment on.
    pub since: Option<Timestamp>,
    /// Only before this moment.
    pub until: Option<Timestamp>,
    /// Only from this index on.
    pub from: u64,
    /// At most so many.
    pub limit: usize,
}

/// A checkpoint of the ledger, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// Entries under it.
    pub size: u64,
    /// The signed note.
    pub note: String,
}

/// A checkpoint of the ledger, with the tiles of its tree that are new since the one before.
#[derive(Debug, Clone)]
pub struct Commitment {
    /// Entries under it.
    pub size: u64,
    /// The signed note.
    pub note: String,
    /// Level, index and hashes of each tile that became full.
    pub tiles: Vec<(u8, u64, Vec<u8>)>,
    /// The size of an earlier one that this one makes superfluous.
    pub replaces: Option<u64>,
}

/// A key as it is kept: what it may do, and a digest of its secret, never the secret.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// Its name.
    pub id: KeyId,
    /// Tenant.
    pub tenant: TenantId,
    /// The only persona it may act for.
    pub persona: Option<PersonaId>,
    /// Person who holds it.
    pub person: Option<PersonId>,
    /// Name for people.
    pub label: String,
    /// The first characters of the secret, to recognise it.
    pub prefix: String,
    /// Digest of the secret.
    pub secret: Digest,
    /// Scopes.
    pub scopes: Scopes,
    /// When it was made.
    pub created_at: Timestamp,
    /// By which key; none for the first.
    pub created_by: Option<KeyId>,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// When it was last used, about.
    pub last_used_at: Option<Timestamp>,
}

/// The revocation of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revocation {
    /// The key.
    pub key: KeyId,
    /// Only if it is this tenant's.
    pub tenant: Option<TenantId>,
    /// When.
    pub at: Timestamp,
    /// The tenant whose last valid key with scope `admin` stays.
    pub keeps_admin_of: Option<TenantId>,
}

/// Result of revoking a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revoked {
    /// The key is revoked, now or since earlier.
    Done,
    /// The tenant has no such key.
    NotFound,
    /// It is the last admin key and stays.
    LastAdmin,
}

/// Something that happened in a session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionEvent {
    /// Tenant.
    pub tenant: TenantId,
    /// The session.
    pub session: SessionId,
    /// When.
    pub at: Timestamp,
    /// Kind of event, for example `canvas`.
    pub kind: String,
    /// Its content.
    pub payload: Json,
}

/// Query for session events.
#[derive(Debug, Clone)]
pub struct SessionQuery {
    /// Tenant.
    pub tenant: TenantId,
    /// The session.
    pub session: SessionId,
    /// Only of this kind.
    pub kind: Option<String>,
    /// Only after this position.
    pub after: u64,
    /// The newest instead of the oldest, still in order.
    pub last: bool,
    /// At most so many.
    pub limit: usize,
}

/// A session, as far as its events tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSummary {
    /// The session.
    pub session: SessionId,
    /// Number of its events.
    pub events: u64,
    /// Position of its newest event.
    pub newest: u64,
    /// Time of its first event.
    pub first_at: Timestamp,
    /// Time of its newest event.
    pub last_at: Timestamp,
}

/// A row that a scan shows.
#[derive(Debug)]
pub enum Scanned<'a> {
    /// An entry of the ledger.
    Entry {
        /// Where it stands.
        index: u64,
        /// Its hash as it is kept.
        leaf: Digest,
        /// The statement.
        payload: &'a str,
    },
    /// A key of the API.
    Key(Box<Key>),
    /// An approval.
    Approval(Box<ApprovalRow>),
    /// The newest checkpoint.
    Checkpoint(Signed),
    /// A row that cannot be read.
    Unreadable(Unreadable),
}

/// An approval with the columns that are kept beside its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRow {
    /// The name of the row.
    pub id: ApprovalId,
    /// Tenant, as searches see it.
    pub tenant: String,
    /// For which tool, as searches see it.
    pub tool: String,
    /// Until when, as searches see it.
    pub expires_at: Timestamp,
    /// For how many calls, as searches see it.
    pub uses: i64,
    /// The approval itself, and what became of it.
    pub standing: Standing,
}

/// A row that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("row {id} of table `{table}` cannot be read: {why}")]
pub struct Unreadable {
    /// The table.
    pub table: &'static str,
    /// Name of the row, or its number in the table.
    pub id: String,
    /// Reason.
    pub why: String,
}

/// A change of a row to what the ledger says.
#[derive(Debug, Clone, PartialEq)]
pub enum Repair {
    /// A key, whole.
    PutKey(Box<Key>),
    /// A key that the ledger does not know.
    RemoveKey(KeyId),
    /// An approval, whole.
    SetApproval {
        /// As it was given.
        approval: Box<Approval>,
        /// When it was taken back, and by which key.
        revoked: Option<(Timestamp, KeyId)>,
    },
    /// An approval that the ledger does not know.
    RemoveApproval(ApprovalId),
    /// The use of an approval by a call.
    AddUse(CallId, Spend),
}
