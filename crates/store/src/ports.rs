//! The ports of the store: one small trait for each subject.
//!
//! The comment on a trait is its contract, in addition to that of [`Store`]; the module of the same
//! subject in `contract` checks it.

use std::{fmt::Debug, sync::Arc, time::Duration};

use async_trait::async_trait;
use ringfence_types::{
    ApprovalId, ArtifactId, CallId, Digest, KeyId, McpServer, PlanId, Receipt, Sealed, SecretName,
    ServerName, TenantId, Timestamp, ToolName,
};
use tokio::sync::watch;

use crate::{
    ActivityQuery, ActivityRow, ApprovalPage, ApprovalQuery, Artifact, ArtifactChange,
    ArtifactChanged, ArtifactPage, ArtifactQuery, ArtifactRef, ArtifactTotals, ArtifactVerdict,
    ArtifactVersion, BlobCount, BlobOwner, Budget, BudgetFor, CallPage, CallQuery,
    CheckpointSigner, Commit, DecisionQuery, EntryPage, EntryQuery, ErasableCalls, ErasedCalls,
    ErasedEvents, ErasureScope, Error, ExpiredCalls, FactQuery, Findings, KeptDecision, Key,
    KeyUse, Lineage, LineageQuery, Logged, NewDecision, NewFindings, NewToolRow, OtherUsage,
    Placed, PlanEvent, PlanQuery, PlanRow, PlanSummary, Process, ProcessInfo, QueuedCall, Record,
    Remembered, Repair, Revocation, Revoked, Room, SecretRow, SecretSeal, SessionEvent,
    SessionQuery, SessionSummary, Signed, Standing, Stored, ToolDataChange, ToolDataChanged,
    ToolDataScope, ToolDatum, ToolDatumInfo, ToolRow, UploadRow, UsageQuery, UsageRow, Version,
    Visitor,
};

/// Durable state: all ports of one backend.
///
/// Contract of every port (checked by `contract` for every backend):
/// - **Nothing is kept in files that are gone.** Once the files of the store were deleted or replaced
///   under it, everything that would be written is refused with [`Error::Gone`].
/// - **Tenants are walls.** A read names its tenant and finds nothing of any other.
/// - **Bounded.** No answer holds more than it was asked for, and at most [`PAGE`](crate::PAGE) items. A page
///   visits a bounded number of rows: it may hold fewer items than were asked for, or none, and
///   still name a next one. A reader that follows the pages finds each item once.
/// - **Counted.** What is written for a tenant is taken out of its budget (see [`Room`]), and nothing is
///   refused for want of it here: that is for the parts that take in something new.
/// - **Tenants take turns.** Reads of one tenant never keep those of another waiting.
#[async_trait]
pub trait Store:
    Calls
    + Facts
    + Log
    + Keys
    + Approvals
    + Decisions
    + Sessions
    + Blobs
    + Artifacts
    + Memos
    + Canaries
    + Metering
    + Budgets
    + Secrets
    + Processes
    + Retention
    + Tools
    + McpServers
    + ToolData
    + Plans
    + Uploads
{
    /// Fails with [`Error::Gone`] once nothing can be written any more. Does not look for itself, and so
    /// costs nothing: the first write that finds out decides.
    fn check_files(&self) -> Result<(), Error>;

    /// Whether there is room for more, to be asked before something new is taken in.
    fn room(&self) -> &Room;

    /// Gives up the calls that are under way in this process, so that others take them at once: for the end
    /// of a process. Where one process at a time uses the database there is nothing to give up.
    async fn leave(&self) -> Result<(), Error>;

    /// Whether other processes may use the database at the same time.
    fn is_shared(&self) -> bool;

    /// Whether this process is the one that publishes the facts; one of all processes is.
    fn publishes(&self) -> watch::Receiver<bool>;

    /// Number of processes that use the database and live, this one included; one that is gone counts until
    /// its lease is over.
    fn servers(&self) -> watch::Receiver<u32>;
}

/// Calls and their steps.
///
/// - **Durable.** What [`Calls::record`] acknowledged survives `kill -9` and a power cut.
/// - **One commit.** Call, facts, entries of the ledger, decisions, blobs, session events and the
///   idempotency key of a [`Record`] become visible together or not at all.
/// - **Compare and set.** A record whose `seen` is not the current version fails with
///   [`Error::Stale`] and changes nothing; so does an insert of an id that exists.
/// - **Final is final.** A call in a final state never changes again: [`Error::Stale`].
/// - **Once.** A second call with the same key and idempotency key within [`IDEMPOTENCY_SECS`](crate::IDEMPOTENCY_SECS)
///   fails with [`Error::Repeated`] and changes nothing.
/// - **Owned.** The process that records a step of a call owns the call until it is held or at its end.
///   [`Calls::unfinished`] never gives a call to a process while another one that lives owns it, and gives
///   a call of a process that is gone to one process only. A step of a call that another process owns is
///   [`Error::Stale`].
#[async_trait]
pub trait Calls: Debug + Send + Sync + 'static {
    /// Writes one step of a call.
    async fn record(&self, record: Record) -> Result<Version, Error>;

    /// One call.
    async fn call(&self, tenant: &TenantId, id: CallId) -> Result<Option<Stored>, Error>;

    /// Calls of a tenant, newest first: as many as were asked for, or what a bounded number of rows
    /// holds.
    async fn calls(&self, query: CallQuery) -> Result<CallPage, Error>;

    /// Calls of every tenant that are not final and that no living process owns, oldest first, after the
    /// given id.
    async fn unfinished(&self, after: Option<CallId>, limit: usize) -> Result<Vec<Stored>, Error>;

    /// Changes when there may be calls of a process that is gone: see [`Calls::unfinished`].
    fn abandoned(&self) -> watch::Receiver<u64>;

    /// Leaves a call, accepted or held, to the workers; [`Error::Stale`] if it has changed or another process owns
    /// it. Any step of it takes it back.
    async fn queue_call(&self, queued: QueuedCall) -> Result<(), Error>;

    /// Calls that were left to the workers, the oldest of each tenant first. This process owns them from here on,
    /// and no other process gets them.
    async fn take_queued(&self, limit: usize) -> Result<Vec<Stored>, Error>;

    /// Changes when there may be calls to take: see [`Calls::take_queued`].
    fn queued(&self) -> watch::Receiver<u64>;

    /// The use of an idempotency key within [`IDEMPOTENCY_SECS`](crate::IDEMPOTENCY_SECS) before `now`. There is
    /// one as long as [`Calls::record`] fails with [`Error::Repeated`] for that key.
    async fn idempotent(
        &self,
        key: KeyId,
        idempotency_key: &str,
        now: Timestamp,
    ) -> Result<Option<KeyUse>, Error>;

    /// The receipt of a call that came to its end.
    async fn receipt(&self, tenant: &TenantId, id: CallId) -> Result<Option<Receipt>, Error>;
}

/// Facts, in the order of their commits, and how far their readers have come.
///
/// - **Ordered.** Positions grow with every commit; a reader that has seen position `n` never later
///   finds a smaller one that is new to it. Facts of one call are in the order of its records.
/// - **Announced.** [`Facts::newest`] changes with every commit, whichever process made it. A backend
///   that several processes use wakes its watches for commits of the others within a second.
#[async_trait]
pub trait Facts: Debug + Send + Sync + 'static {
    /// Facts after a position, oldest first. A commit's facts are never split between answers, so
    /// an answer may hold a few more than `limit`.
    async fn facts(&self, query: FactQuery) -> Result<Vec<Logged>, Error>;

    /// Commits of every tenant after a position, oldest first, for a reader inside the server.
    /// One that follows the newest is answered from memory.
    async fn commits(&self, after: u64, limit: usize) -> Result<Vec<Arc<Commit>>, Error>;

    /// The position of the newest commit; changes with each one.
    fn newest(&self) -> watch::Receiver<u64>;

    /// Position that a named reader of the facts has reached; 0 at first.
    async fn cursor(&self, name: &str) -> Result<u64, Error>;

    /// Remembers how far it has come; never moves back.
    async fn set_cursor(&self, name: &str, position: u64) -> Result<(), Error>;
}

/// The ledger.
///
/// - **It only grows.** Entries have indexes from 0 without a gap, in the order of the commits, and
///   never change.
/// - **A checkpoint in the commit.** Once there is a [`CheckpointSigner`], what it signs for the entries
///   of a commit is part of that commit. The ledger must be as its newest checkpoint says, and never
///   shorter than this process has seen it; else nothing is written any more.
/// - **Announced.** [`Log::grown`] changes with every commit that has entries, like [`Facts::newest`].
#[async_trait]
pub trait Log: Debug + Send + Sync + 'static {
    /// Appends to the ledger, in this order, and gives the index of the first. An entry about a call
    /// that is not there is [`Error::Stale`].
    async fn append(&self, entries: Vec<Sealed>) -> Result<u64, Error>;

    /// Entries of the ledger, in their order, however many rows that takes: for readers inside the
    /// server.
    async fn entries(&self, query: EntryQuery) -> Result<Vec<Placed>, Error>;

    /// Entries of the ledger, in their order: as many as were asked for, or what a bounded number of
    /// rows holds.
    async fn audit(&self, query: EntryQuery) -> Result<EntryPage, Error>;

    /// Number of entries; changes with each commit that has some.
    fn grown(&self) -> watch::Receiver<u64>;

    /// Hashes of the entries from an index on, as leaves of the ledger's tree.
    async fn leaves(&self, from: u64, limit: usize) -> Result<Vec<Digest>, Error>;

    /// Has a checkpoint signed in every commit in which the ledger grows, from the next one on. Until
    /// then an entry without a signature is refused.
    fn set_checkpoint_signer(&self, signer: Arc<dyn CheckpointSigner>);

    /// The newest checkpoint.
    async fn checkpoint(&self) -> Result<Option<Signed>, Error>;

    /// Checkpoints over more than so many entries, smallest first.
    async fn checkpoints(&self, after: u64, limit: usize) -> Result<Vec<Signed>, Error>;

    /// The hashes of a full tile of the ledger's tree.
    async fn tile(&self, level: u8, index: u64) -> Result<Option<Vec<u8>>, Error>;

    /// Shows every entry of the ledger in its order, then the newest checkpoint, every key and every
    /// approval, all of one moment. A row that cannot be read is shown as such.
    async fn scan(&self, visitor: Arc<dyn Visitor>) -> Result<(), Error>;

    /// Changes rows of keys and approvals to what the ledger says, and appends the entries that say so,
    /// in one commit.
    async fn repair(&self, repairs: Vec<Repair>, entries: Vec<Sealed>) -> Result<(), Error>;
}

/// Keys of the API.
///
/// - **One commit.** A key, or its revocation, and its entry of the ledger become visible together.
/// - A look-up of a key never waits for reads of a tenant.
#[async_trait]
pub trait Keys: Debug + Send + Sync + 'static {
    /// Adds a key and the entry that says so.
    async fn add_key(&self, key: Key, entry: Sealed) -> Result<(), Error>;

    /// Keys of a tenant, or of all, oldest first.
    async fn keys(&self, tenant: Option<&TenantId>) -> Result<Vec<Key>, Error>;

    /// The key of this name, of any tenant, revoked and expired ones included.
    async fn key(&self, id: KeyId) -> Result<Option<Key>, Error>;

    /// The key whose secret has this digest, revoked and expired ones included.
    async fn key_by_secret(&self, secret: Digest) -> Result<Option<Key>, Error>;

    /// Revokes a key. The first revocation stays on record, and only it takes its entry to the ledger.
    /// Whether it is the last admin key is decided in the same commit: of two that revoke each other
    /// one stays.
    async fn revoke_key(&self, revocation: Revocation, entry: Sealed) -> Result<Revoked, Error>;

    /// Remembers when keys were last used; never moves back, unknown keys are ignored.
    async fn touch_keys(&self, used: Vec<(KeyId, Timestamp)>) -> Result<(), Error>;
}

/// Approvals. They are given and used by records: see [`Calls::record`].
///
/// - **Spent in the commit.** A record that spends an approval fails with [`Error::Spent`] and
///   changes nothing if the approval is not there, is over, was revoked, was given by a key that
///   is revoked by now, or was used by as many other calls as may use it. The same call may spend
///   it again.
#[async_trait]
pub trait Approvals: Debug + Send + Sync + 'static {
    /// Approvals of a tenant, newest first: as many as were asked for, or what a bounded number of
    /// rows holds.
    async fn approvals(&self, query: ApprovalQuery) -> Result<ApprovalPage, Error>;

    /// One approval.
    async fn approval(&self, tenant: &TenantId, id: ApprovalId) -> Result<Option<Standing>, Error>;

    /// Takes an approval back; `false` if the tenant has no such. The first revocation stays on
    /// record, and only it takes its entry to the ledger.
    async fn revoke_approval(
        &self,
        tenant: &TenantId,
        id: ApprovalId,
        by: KeyId,
        at: Timestamp,
        entry: Sealed,
    ) -> Result<bool, Error>;
}

/// Decisions of policy.
///
/// - **Decisions stay.** A decision that was kept reads back whole, with the document that was
///   judged, and never changes. A reader that follows them by time finds each of them once.
#[async_trait]
pub trait Decisions: Debug + Send + Sync + 'static {
    /// Keeps a decision about something that is no call.
    async fn add_decision(
        &self,
        tenant: &TenantId,
        tool: &str,
        call: CallId,
        decision: NewDecision,
    ) -> Result<u64, Error>;

    /// One decision; of any tenant without one.
    async fn decision(
        &self,
        tenant: Option<&TenantId>,
        id: u64,
    ) -> Result<Option<KeptDecision>, Error>;

    /// The decisions about a call, oldest first, at most a page.
    async fn decisions_of(
        &self,
        tenant: Option<&TenantId>,
        call: CallId,
    ) -> Result<Vec<KeptDecision>, Error>;

    /// Decisions by time, oldest first. An answer holds about [`DECISION_BYTES`](crate::DECISION_BYTES) of documents at
    /// most and at least one decision: only an empty one says that there are no more.
    async fn decisions(&self, query: DecisionQuery) -> Result<Vec<KeptDecision>, Error>;
}

/// Events of sessions, in their order.
#[async_trait]
pub trait Sessions: Debug + Send + Sync + 'static {
    /// Appends to a session's events and says at which position.
    async fn append_session_event(&self, event: SessionEvent) -> Result<u64, Error>;

    /// Events of a session after a position, oldest first; with `last`, the newest ones instead.
    async fn session_events(&self, query: SessionQuery) -> Result<Vec<(u64, SessionEvent)>, Error>;

    /// Sessions of a tenant that have events, the one with the newest event first.
    async fn sessions(&self, tenant: &TenantId, limit: usize)
    -> Result<Vec<SessionSummary>, Error>;
}

/// Bytes by digest. They are written by records: see [`Calls::record`].
///
/// - **Owned.** A record that has or repeats blobs makes its call an owner of them, in its commit. A blob that
///   has an owner is never removed.
/// - **Collected.** A blob whose last owner let go of it is removed by [`Blobs::collect_blobs`]. A crash leaves
///   no owner without bytes, and no bytes that a later collection does not find.
#[async_trait]
pub trait Blobs: Debug + Send + Sync + 'static {
    /// Bytes of a blob, from `offset`, at most `limit`; `None` if there is no such blob.
    async fn blob(&self, digest: Digest, offset: u64, limit: u64)
    -> Result<Option<Vec<u8>>, Error>;

    /// Digests and sizes of the blobs of an owner.
    async fn blobs_of(&self, owner: BlobOwner) -> Result<Vec<(Digest, u64)>, Error>;

    /// Ends the ownership of all blobs of an owner; counts those that have no owner any more.
    async fn release_blobs(&self, owner: BlobOwner) -> Result<BlobCount, Error>;

    /// Removes blobs that have had no owner for so long, at most `limit` of them. Bytes that another process
    /// may be about to refer to stay some minutes longer.
    async fn collect_blobs(&self, unused_for: Duration, limit: usize) -> Result<BlobCount, Error>;
}

/// Erasure of records, of single calls and of all that is older than is kept.
///
/// - **The ledger stays.** Every entry reads back byte by byte after the records of its call were erased, and is
///   found by that call as before.
/// - **Records go.** A call whose records were erased is not found, listed, repeated or remembered; its facts and
///   decisions are gone, and it owns no blob. Its idempotency keys stay in use as long as those of others.
/// - **Ended calls only.** A call that has not ended is left alone.
/// - **Positions are not given twice,** whatever is erased.
#[async_trait]
pub trait Retention: Debug + Send + Sync + 'static {
    /// Calls of a tenant that a scope covers: at most `limit` that have ended, oldest first.
    async fn erasable_calls(
        &self,
        tenant: &TenantId,
        scope: &ErasureScope,
        limit: usize,
    ) -> Result<ErasableCalls, Error>;

    /// Calls of every tenant that ended before a moment, by the entries of their ends: those among `limit`
    /// entries from an index on.
    async fn expired_calls(
        &self,
        before: Timestamp,
        from: u64,
        limit: usize,
    ) -> Result<ExpiredCalls, Error>;

    /// Erases the records of calls, each named with the index of the entry that says so, in one commit. A call
    /// that has not ended, or whose records are erased already, is passed over.
    async fn erase_calls(&self, calls: Vec<(CallId, u64)>) -> Result<ErasedCalls, Error>;

    /// Erases session events, at most `limit`; gives their number.
    async fn erase_events(&self, events: ErasedEvents, limit: usize) -> Result<u64, Error>;

    /// Erases decisions about actions other than calls that were made before a moment, at most `limit`; gives
    /// their number.
    async fn erase_decisions(&self, before: Timestamp, limit: usize) -> Result<u64, Error>;

    /// Numbers of session events, and of decisions about actions other than calls, that are older.
    async fn count_expired(&self, before: Timestamp) -> Result<(u64, u64), Error>;

    /// Index of the entry that says that the records of a call were erased; none if they are kept.
    async fn erasure(&self, tenant: &TenantId, id: CallId) -> Result<Option<u64>, Error>;
}

/// Artifacts: files with versions, what was said about them, and their lineage.
///
/// - **With its bytes.** A version becomes visible together with its bytes, of which its artifact is an owner
///   (see [`Blobs`]). Removing the artifact ends that.
/// - **One commit.** Artifacts and edges of a [`Record`] share its commit.
/// - **Numbered.** Versions of an artifact have numbers from 1 without a gap, in the order of their commits, and
///   never change, but for labels that are added. A refused change changes nothing.
/// - **Counted.** The totals of a tenant are those of its artifacts after every commit.
/// - **Lineage stays.** Edges are never taken away; an edge that is added again changes nothing.
#[async_trait]
pub trait Artifacts: Debug + Send + Sync + 'static {
    /// Makes a change.
    async fn change_artifact(
        &self,
        tenant: &TenantId,
        change: ArtifactChange,
    ) -> Result<ArtifactChanged, Error>;

    /// One artifact.
    async fn artifact(&self, tenant: &TenantId, id: ArtifactId) -> Result<Option<Artifact>, Error>;

    /// Artifacts of a tenant, newest first: as many as were asked for, or what a bounded number of rows
    /// holds.
    async fn artifacts(&self, query: ArtifactQuery) -> Result<ArtifactPage, Error>;

    /// Versions of an artifact before a number, newest first.
    async fn artifact_versions(
        &self,
        tenant: &TenantId,
        id: ArtifactId,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<ArtifactVersion>, Error>;

    /// The version that a reference names.
    async fn artifact_version(
        &self,
        tenant: &TenantId,
        wanted: ArtifactRef,
    ) -> Result<Option<(ArtifactId, ArtifactVersion)>, Error>;

    /// Labels of all versions of the tenant that have this content, sorted, each once.
    async fn labels_of(&self, tenant: &TenantId, content: Digest) -> Result<Vec<String>, Error>;

    /// Verdicts about an artifact, newest version and verdict first.
    async fn verdicts(
        &self,
        tenant: &TenantId,
        id: ArtifactId,
        limit: usize,
    ) -> Result<Vec<ArtifactVerdict>, Error>;

    /// Numbers of the artifacts of a tenant.
    async fn artifact_totals(&self, tenant: &TenantId) -> Result<ArtifactTotals, Error>;

    /// Causes or effects of a node, breadth first.
    async fn lineage(&self, query: LineageQuery) -> Result<Lineage, Error>;
}

/// Remembered results.
///
/// - **Memory is an index.** A result is remembered in the commit of its call and read from that
///   call's record: what is not on record any more is not remembered. No tenant makes another
///   forget.
#[async_trait]
pub trait Memos: Debug + Send + Sync + 'static {
    /// The call whose result a tenant remembers under a key, if it ended after `since`.
    async fn remembered(
        &self,
        tenant: &TenantId,
        key: Digest,
        since: Timestamp,
    ) -> Result<Option<Remembered>, Error>;
}

/// Findings about policies that are tried beside the one in force.
#[async_trait]
pub trait Canaries: Debug + Send + Sync + 'static {
    /// Adds to what was found about a policy that is tried.
    async fn add_findings(&self, new: NewFindings) -> Result<(), Error>;

    /// Findings about the policy of this name; of the differences those before a number, if one
    /// is given.
    async fn findings(
        &self,
        canary: &str,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Findings, Error>;
}

/// Resources that ended calls took.
///
/// - **In the commit.** The step that ends a call adds it to the hour of its end, once; whatever becomes of
///   the call later, it stays counted.
#[async_trait]
pub trait Metering: Debug + Send + Sync + 'static {
    /// Sums in the order of time, then of tenant, key and tool.
    async fn usage(&self, query: UsageQuery) -> Result<Vec<UsageRow>, Error>;

    /// Adds usage that belongs to no call.
    async fn add_usage(&self, usage: OtherUsage) -> Result<(), Error>;

    /// Counts of ended calls in the order of time, end and duration. Slots of more than a day ago may be
    /// missing.
    async fn activity(&self, query: ActivityQuery) -> Result<Vec<ActivityRow>, Error>;
}

/// Secrets of tenants, encrypted. The store never sees a value.
#[async_trait]
pub trait Secrets: Debug + Send + Sync + 'static {
    /// Sets a secret in the place of an earlier one of the same tenant and name.
    async fn set_secret(&self, row: SecretRow) -> Result<(), Error>;

    /// Replaces the encryption of a secret by another one of the same value; `false`, and nothing
    /// changes, if the row is not as it was read.
    async fn reseal_secret(&self, read: SecretRow, seal: SecretSeal) -> Result<bool, Error>;

    /// Removes a secret; `false` if there was none.
    async fn remove_secret(&self, tenant: &TenantId, name: &SecretName) -> Result<bool, Error>;

    /// One secret. A change is seen by the next read of every process.
    async fn secret(
        &self,
        tenant: &TenantId,
        name: &SecretName,
    ) -> Result<Option<SecretRow>, Error>;

    /// Secrets of a tenant, or of all, by tenant and name: at most [`PAGE`](crate::PAGE), behind
    /// `after`.
    async fn secrets(
        &self,
        tenant: Option<&TenantId>,
        after: Option<(TenantId, SecretName)>,
    ) -> Result<Vec<SecretRow>, Error>;
}

/// Budgets of tenants and keys.
#[async_trait]
pub trait Budgets: Debug + Send + Sync + 'static {
    /// Sets a budget in the place of an earlier one for the same.
    async fn set_budget(&self, budget: Budget) -> Result<(), Error>;

    /// Removes a budget; `false` if there was none.
    async fn remove_budget(&self, of: BudgetFor) -> Result<bool, Error>;

    /// Budgets of a tenant, or of all: by tenant, key (none first) and period.
    async fn budgets(&self, tenant: Option<&TenantId>) -> Result<Vec<Budget>, Error>;
}

/// Processes that share the store, and what each of them has in memory alone.
///
/// - **Alive.** A process that left, or whose lease is over, is found no more, and owns nothing.
#[async_trait]
pub trait Processes: Debug + Send + Sync + 'static {
    /// Describes this process to the others from now on.
    async fn describe(&self, info: ProcessInfo) -> Result<(), Error>;

    /// Living processes, oldest first; this one is among them.
    async fn processes(&self) -> Result<Vec<Process>, Error>;

    /// Another living process that a call is under way in.
    async fn owner_of_call(&self, tenant: &TenantId, id: CallId) -> Result<Option<Process>, Error>;

    /// Makes a session sandbox of this process known to the others.
    async fn add_sandbox(&self, tenant: &TenantId, id: &str) -> Result<(), Error>;

    /// Removes a session sandbox that has ended.
    async fn remove_sandbox(&self, id: &str) -> Result<(), Error>;

    /// Another living process that has a session sandbox of the tenant.
    async fn owner_of_sandbox(&self, tenant: &TenantId, id: &str)
    -> Result<Option<Process>, Error>;
}

/// State of tool versions.
///
/// - **One commit.** Rows and the entries that say why they changed become visible together or not at all.
/// - **Compare and set.** A change of what is not the newest row of its digest fails with
///   [`Error::Stale`] and changes nothing; so does a new row for a digest that has one.
/// - **Followed.** Every change gets a revision above all others. A reader that has seen revision `n` never
///   later finds a smaller one that is new to it; [`Log::grown`] tells it of changes by other processes.
/// - **A definition never changes.**
#[async_trait]
pub trait Tools: Debug + Send + Sync + 'static {
    /// Writes new states of tool versions, with their entries.
    async fn put_tools(&self, rows: Vec<NewToolRow>, entries: Vec<Sealed>) -> Result<(), Error>;

    /// Rows that were changed after a revision, with theirs, in the order of their changes.
    async fn tools_after(&self, revision: u64, limit: usize) -> Result<Vec<(u64, ToolRow)>, Error>;

    /// The row of a version, with its revision.
    async fn tool(&self, digest: Digest) -> Result<Option<(u64, ToolRow)>, Error>;
}

/// MCP servers whose tools are offered.
#[async_trait]
pub trait McpServers: Debug + Send + Sync + 'static {
    /// Adds a server; `false` if there is one of its name, which stays.
    async fn add_mcp_server(&self, server: McpServer) -> Result<bool, Error>;

    /// Removes a server; `false` if there was none.
    async fn remove_mcp_server(&self, name: &ServerName) -> Result<bool, Error>;

    /// All servers by name.
    async fn mcp_servers(&self) -> Result<Vec<McpServer>, Error>;
}

/// Data that tools keep between their calls, by tenant and tool.
///
/// - **Whole.** A change is made whole or not at all.
/// - **Within its quota.** Of changes at once, no more are made than fit together. What is beyond the quota
///   already can be made smaller.
#[async_trait]
pub trait ToolData: Debug + Send + Sync + 'static {
    /// Makes a change, unless it goes beyond the quota.
    async fn change_tool_data(&self, change: ToolDataChange) -> Result<ToolDataChanged, Error>;

    /// Names with their sizes, sorted.
    async fn tool_data_names(&self, of: &ToolDataScope) -> Result<Vec<ToolDatumInfo>, Error>;

    /// Contents of one name or of all, sorted.
    async fn tool_data(
        &self,
        of: &ToolDataScope,
        name: Option<&str>,
    ) -> Result<Vec<ToolDatum>, Error>;

    /// Removes everything that a tool keeps, for one tenant or for all; gives the number of names.
    async fn remove_tool_data(
        &self,
        tenant: Option<&TenantId>,
        tool: &ToolName,
    ) -> Result<u64, Error>;

    /// Whether a tool keeps anything, for any tenant.
    async fn has_tool_data(&self, tool: &ToolName) -> Result<bool, Error>;
}

/// Plans and their events.
///
/// - **Compare and set.** A change whose version is not the stored one changes nothing and gives `false`.
/// - **One commit.** A row and the events of its change become visible together or not at all. Events of a
///   plan are numbered from 1 without a gap.
/// - **Driven by one.** An open plan is given to one process by [`Plans::claim_plans`], and to no other while
///   that one lives. A claim raises the version, so an earlier driver cannot write over it. A plan that is not
///   open belongs to no process.
#[async_trait]
pub trait Plans: Debug + Send + Sync + 'static {
    /// Adds a plan with its first events.
    async fn add_plan(&self, plan: PlanRow, events: Vec<PlanEvent>) -> Result<(), Error>;

    /// One plan of a tenant.
    async fn plan(&self, tenant: &TenantId, id: PlanId) -> Result<Option<PlanRow>, Error>;

    /// Plans of a tenant, newest first, without their documents and states.
    async fn plans(&self, query: PlanQuery) -> Result<Vec<PlanSummary>, Error>;

    /// Writes a plan over the version that was read, with the events of the change.
    async fn update_plan(&self, plan: PlanRow, events: Vec<PlanEvent>) -> Result<bool, Error>;

    /// Events of a plan after a number, oldest first, with their numbers.
    async fn plan_events(
        &self,
        tenant: &TenantId,
        id: PlanId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, PlanEvent)>, Error>;

    /// Makes this process the driver of open plans that no living process drives, the oldest first.
    async fn claim_plans(&self, limit: usize) -> Result<Vec<PlanRow>, Error>;

    /// Removes a plan that is not open, with its events; `false` if there is none.
    async fn remove_plan(&self, tenant: &TenantId, id: PlanId) -> Result<bool, Error>;
}

/// Uploaded skills, for all processes. What a process has on disk is a copy.
#[async_trait]
pub trait Uploads: Debug + Send + Sync + 'static {
    /// Adds an upload with its files, again after it was removed; `false` if its name and version belong to
    /// another one. One that is there stays as it is.
    async fn add_upload(&self, row: UploadRow, content: Vec<u8>) -> Result<bool, Error>;

    /// Removes the files of an upload; `false` if there were none.
    async fn remove_upload(&self, digest: Digest) -> Result<bool, Error>;

    /// Number that is greater after each change of the uploads.
    async fn uploads_version(&self) -> Result<u64, Error>;

    /// Uploads by digest, removed ones too: at most [`PAGE`](crate::PAGE), behind `after`.
    async fn uploads(&self, after: Option<Digest>) -> Result<Vec<UploadRow>, Error>;

    /// Files of an upload as they were added; none of one that was removed.
    async fn upload_content(&self, digest: Digest) -> Result<Option<Vec<u8>>, Error>;
}
