//! The store in PostgreSQL, shared by several processes.
//!
//! One task writes, with a connection of its own; a few connections are read from; one more keeps this process
//! present among the others. Values are turned into columns before they are queued.

mod activity;
mod approvals;
mod artifacts;
mod batch;
mod blob_uses;
mod blobs;
mod budgets;
mod calls;
mod canaries;
mod changes;
mod columns;
mod config;
mod connect;
mod decisions;
mod erasure;
mod facts;
mod keys;
mod ledger;
mod mcp;
mod memos;
mod migrate;
mod plans;
mod pool;
mod presence;
mod processes;
mod queue;
mod rows;
mod scan;
mod secrets;
mod sessions;
mod slices;
mod tool_data;
mod tool_rows;
mod uploads;
mod usage;
mod work;
mod writer;

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use ringfence_types::{
    ApprovalId, ArtifactId, CallId, Digest, KeyId, McpServer, PlanId, Receipt, Sealed, SecretName,
    ServerName, TenantId, Timestamp, ToolName,
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use self::{
    batch::Written,
    connect::Link,
    pool::Pool,
    work::{Answer, Change, ChangeKind, Item, NewAction, Step, Work},
    writer::{MAX_WAITING, Writer},
};
pub use self::{
    config::{InvalidPostgresUrl, PostgresUrl},
    migrate::InstallationLock,
};
use crate::{
    ActivityQuery, ActivityRow, ApprovalPage, ApprovalQuery, Approvals, Artifact, ArtifactChange,
    ArtifactChanged, ArtifactPage, ArtifactQuery, ArtifactRef, ArtifactTotals, ArtifactVerdict,
    ArtifactVersion, Artifacts, BlobCount, BlobDirectory, BlobOwner, Blobs, Budget, BudgetFor,
    Budgets, CallPage, CallQuery, Calls, Canaries, CheckpointSigner, Commit, DecisionQuery,
    Decisions, EntryPage, EntryQuery, ErasableCalls, ErasedCalls, ErasedEvents, ErasureScope,
    Error, ExpiredCalls, FactQuery, Facts, Findings, KeptDecision, Key, KeyUse, Keys, LargeBlobs,
    Lineage, LineageQuery, Log, Logged, McpServers, Memos, Metering, NewDecision, NewFindings,
    NewToolRow, OtherUsage, PAGE, Placed, PlanEvent, PlanQuery, PlanRow, PlanSummary, Plans,
    Process, ProcessInfo, Processes, QueuedCall, Record, Remembered, Repair, Retention, Revocation,
    Revoked, Room, SecretRow, SecretSeal, Secrets, SessionEvent, SessionQuery, SessionSummary,
    Sessions, Signed, Standing, Store, Stored, ToolData, ToolDataChange, ToolDataChanged,
    ToolDataScope, ToolDatum, ToolDatumInfo, ToolRow, Tools, UploadRow, Uploads, UsageQuery,
    UsageRow, Version, Visitor, covered::check_signed, recent::Recent,
};

/// The store in PostgreSQL.
#[derive(Debug)]
pub struct PostgresStore {
    shared: Arc<Shared>,
    queue: mpsc::Sender<Item>,
    room: Room,
    stopping: CancellationToken,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// Number of a process that only reads. No process has it.
const NO_PROCESS: i64 = 0;

/// State that the tasks of a store share.
#[derive(Debug)]
struct Shared {
    pool: Pool,
    large: Arc<dyn LargeBlobs>,
    newest: watch::Sender<u64>,
    /// Entries of the ledger.
    grown: watch::Sender<u64>,
    recent: Recent,
    signer: Mutex<Option<Arc<dyn CheckpointSigner>>>,
    /// Number of this process, which owns the calls that it records.
    process: AtomicI64,
    /// Description of this process.
    about: Mutex<ProcessInfo>,
    /// Session sandboxes of this process, with their tenants.
    sandboxes: Mutex<BTreeMap<String, String>>,
    /// Held while a new number is asked for.
    registering: tokio::sync::Mutex<()>,
    abandoned: watch::Sender<u64>,
    queued: watch::Sender<u64>,
    publishes: watch::Sender<bool>,
    servers: watch::Sender<u32>,
    /// Size of the ledger at the newest commit of this process.
    signed_size: AtomicU64,
    /// Signers that have a row.
    signers: Mutex<HashSet<Digest>>,
    /// Commits whose answers were lost: those that were kept, and the others.
    resolved: (AtomicU64, AtomicU64),
}

impl PostgresStore {
    /// Brings the tables up to date, or makes them. Safe to run twice and by two processes at once. Gives the
    /// version that the tables had, 0 if there were none.
    pub async fn migrate(url: &PostgresUrl) -> Result<u32, Error> {
        migrate::migrate(url).await
    }

    /// Opens the store, whose tables must be up to date, with large blobs in a directory that all processes
    /// see.
    pub async fn open(url: PostgresUrl, blobs: &Path) -> Result<Self, Error> {
        let large = BlobDirectory::open(blobs).map_err(Error::backend("open the blobs"))?;
        Self::open_with(url, Arc::new(large), blobs).await
    }

    /// The same with large blobs elsewhere. There is room while the disk of the directory has some.
    pub async fn open_with(
        url: PostgresUrl,
        large: Arc<dyn LargeBlobs>,
        directory: &Path,
    ) -> Result<Self, Error> {
        Self::with_blobs(url, large, (Room::new(directory), true)).await
    }

    /// Opens the store to read it: this process is none of those that share the work, and writes nothing.
    pub async fn read(url: PostgresUrl, large: Arc<dyn LargeBlobs>) -> Result<Self, Error> {
        Self::with_blobs(url, large, (Room::new(Path::new("/")), false)).await
    }

    /// Waits until no other process prepares the installation, and keeps others from it.
    pub async fn lock_installation(url: &PostgresUrl) -> Result<InstallationLock, Error> {
        migrate::lock(url).await
    }

    async fn with_blobs(
        url: PostgresUrl,
        large: Arc<dyn LargeBlobs>,
        (room, is_process): (Room, bool),
    ) -> Result<Self, Error> {
        let link = Link::open(&url).await?;
        migrate::check(&link).await?;
        let heads = link.one(facts::HEADS, &[]).await?;
        let process = match is_process {
            true => link.one(presence::REGISTER, &[]).await?.try_get(0)?,
            false => NO_PROCESS,
        };
        let head = |index| heads.try_get::<_, i64>(index).map(i64::cast_unsigned);
        let shared = Arc::new(Shared {
            pool: Pool::new(url),
            large,
            newest: watch::Sender::new(head(0)?),
            grown: watch::Sender::new(head(1)?),
            recent: Recent::default(),
            signer: Mutex::default(),
            process: AtomicI64::new(process),
            about: Mutex::default(),
            sandboxes: Mutex::default(),
            registering: tokio::sync::Mutex::default(),
            abandoned: watch::Sender::new(0),
            queued: watch::Sender::new(0),
            publishes: watch::Sender::new(false),
            servers: watch::Sender::new(1),
            signed_size: AtomicU64::new(head(1)?),
            signers: Mutex::default(),
            resolved: (AtomicU64::new(0), AtomicU64::new(0)),
        });
        let (queue, waiting) = mpsc::channel(MAX_WAITING);
        let stopping = CancellationToken::new();
        let writer = Writer {
            shared: Arc::clone(&shared),
            queue: waiting,
            stopping: stopping.clone(),
            pending: VecDeque::new(),
            link: None,
        };
        let mut tasks = Vec::new();
        if is_process {
            tasks.push(tokio::spawn(writer.run()));
            tasks.push(tokio::spawn(presence::run(Arc::clone(&shared), stopping.clone())));
        }
        let tasks = Mutex::new(tasks);
        Ok(Self { shared, queue, room, stopping, tasks })
    }

    /// Writes what waits, gives up what this process owns, and ends its tasks.
    pub async fn close(&self) {
        self.stopping.cancel();
        let tasks = std::mem::take(&mut *lock(&self.tasks));
        for task in tasks {
            // A task that panicked has ended.
            let _ = task.await;
        }
        if let Err(error) = self.leave().await {
            tracing::warn!(%error, "others take over when the lease of this process is over");
        }
    }

    /// Commits whose answers were lost, and whose outcome was looked up: those that were kept, and those
    /// that were not.
    pub fn resolved_commits(&self) -> (u64, u64) {
        let (kept, lost) = &self.shared.resolved;
        (kept.load(Ordering::Relaxed), lost.load(Ordering::Relaxed))
    }

    async fn write(&self, work: Work, bytes: usize) -> Result<Answer, Error> {
        let (reply, answer) = oneshot::channel();
        let queued = self.queue.try_send(Item { work, bytes, reply });
        queued.map_err(|_| Error::Busy)?;
        answer.await.map_err(Error::backend("write to the database"))?
    }

    async fn change(&self, kind: ChangeKind, entries: Vec<Sealed>) -> Result<Answer, Error> {
        check_signed(self.shared.signer().is_some(), &entries)?;
        let bytes = entries.iter().map(|entry| entry.payload.len()).sum();
        self.write(Work::Change(Box::new(Change { kind, entries })), bytes).await
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.stopping.cancel();
    }
}

impl Shared {
    fn process(&self) -> i64 {
        self.process.load(Ordering::Acquire)
    }

    fn signer(&self) -> Option<Arc<dyn CheckpointSigner>> {
        lock(&self.signer).clone()
    }

    fn signed_size(&self) -> u64 {
        self.signed_size.load(Ordering::Acquire)
    }

    fn known_signers(&self) -> HashSet<Digest> {
        lock(&self.signers).clone()
    }

    /// Makes a committed batch known in this process.
    fn written(&self, commits: Vec<(Commit, usize)>, written: &Written) {
        for (commit, bytes) in commits {
            self.recent.add(commit, bytes);
        }
        lock(&self.signers).extend(written.signers.iter().copied());
        if let Some(size) = written.grown {
            self.signed_size.store(size, Ordering::Release);
        }
        // After the commits: a reader that learns of a position finds its commit.
        self.announce(written.newest.unwrap_or(0), written.grown.unwrap_or(0));
    }

    /// Wakes readers if there is more than they know of.
    fn announce(&self, newest: u64, grown: u64) {
        for (watched, value) in [(&self.newest, newest), (&self.grown, grown)] {
            watched.send_if_modified(|known| {
                let is_more = value > *known;
                *known = value.max(*known);
                is_more
            });
        }
    }

    fn resolved(&self, was_kept: bool) {
        let (kept, lost) = &self.resolved;
        let count = if was_kept { kept } else { lost };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Gets another number for this process, if the one that it has is not alive.
    async fn register_anew(&self) -> Result<(), Error> {
        let _one = self.registering.lock().await;
        let process = self.process();
        let link = &*self.pool.look_up().await?;
        let sql = "SELECT 1 FROM processes WHERE id = $1 AND NOT dead";
        if link.first(sql, &[&process]).await?.is_none() {
            let new: i64 = link.one(presence::REGISTER, &[]).await?.try_get(0)?;
            tracing::warn!(process, new, "this process lost its lease and is registered anew");
            self.process.store(new, Ordering::Release);
            processes::describe(self, link).await?;
        }
        Ok(())
    }
}

/// No code panics under these locks, so a poisoned one is as good as any.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers are of the kind of their work.
fn number(answer: Answer) -> u64 {
    match answer {
        Answer::Number(number) | Answer::Version(Version(number)) => number,
        Answer::Revoked(_) | Answer::Found(_) | Answer::Done => 0,
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn check_files(&self) -> Result<(), Error> {
        Ok(())
    }

    fn room(&self) -> &Room {
        &self.room
    }

    async fn leave(&self) -> Result<(), Error> {
        let process = self.shared.process();
        let link = &*self.shared.pool.read().await?;
        let sql = "UPDATE processes SET dead = true WHERE id = $1";
        link.execute(sql, &[&process]).await?;
        Ok(())
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn publishes(&self) -> watch::Receiver<bool> {
        self.shared.publishes.subscribe()
    }

    fn servers(&self) -> watch::Receiver<u32> {
        self.shared.servers.subscribe()
    }
}

#[async_trait]
impl Calls for PostgresStore {
    async fn record(&self, record: Record) -> Result<Version, Error> {
        check_signed(self.shared.signer().is_some(), &record.entries)?;
        let tenant = record.call.asked.tenant.clone();
        let (step, large) = Step::of(record)?;
        let mut bytes = step.bytes();
        let queued = bytes;
        for (digest, blob) in large {
            bytes += blob.len();
            blobs::put(&self.shared.pool, self.shared.large.as_ref(), digest, blob).await?;
        }
        self.room.charge(&tenant, bytes);
        let answer = self.write(Work::Step(Box::new(step)), queued).await?;
        Ok(Version(number(answer)))
    }

    async fn call(&self, tenant: &TenantId, id: CallId) -> Result<Option<Stored>, Error> {
        calls::one(&self.shared.pool, tenant, id).await
    }

    async fn calls(&self, query: CallQuery) -> Result<CallPage, Error> {
        calls::list(&self.shared.pool, query).await
    }

    async fn unfinished(&self, after: Option<CallId>, limit: usize) -> Result<Vec<Stored>, Error> {
        calls::unfinished(&self.shared.pool, self.shared.process(), after, limit).await
    }

    fn abandoned(&self) -> watch::Receiver<u64> {
        self.shared.abandoned.subscribe()
    }

    async fn queue_call(&self, queued: QueuedCall) -> Result<(), Error> {
        queue::add(&self.shared.pool, self.shared.process(), queued).await
    }

    async fn take_queued(&self, limit: usize) -> Result<Vec<Stored>, Error> {
        queue::take(&self.shared.pool, self.shared.process(), limit).await
    }

    fn queued(&self) -> watch::Receiver<u64> {
        self.shared.queued.subscribe()
    }

    async fn idempotent(
        &self,
        key: KeyId,
        idempotency_key: &str,
        now: Timestamp,
    ) -> Result<Option<KeyUse>, Error> {
        calls::idempotent(&self.shared.pool, key, idempotency_key, now).await
    }

    async fn receipt(&self, tenant: &TenantId, id: CallId) -> Result<Option<Receipt>, Error> {
        ledger::receipt(&self.shared.pool, tenant, id).await
    }
}

#[async_trait]
impl Facts for PostgresStore {
    async fn facts(&self, query: FactQuery) -> Result<Vec<Logged>, Error> {
        facts::list(&self.shared.pool, query).await
    }

    async fn commits(&self, after: u64, limit: usize) -> Result<Vec<Arc<Commit>>, Error> {
        if after >= *self.shared.newest.borrow() {
            return Ok(Vec::new());
        }
        match self.shared.recent.after(after, limit.min(PAGE)) {
            Some(found) => Ok(found),
            None => facts::commits(&self.shared.pool, after, limit).await,
        }
    }

    fn newest(&self) -> watch::Receiver<u64> {
        self.shared.newest.subscribe()
    }

    async fn cursor(&self, name: &str) -> Result<u64, Error> {
        facts::cursor(&self.shared.pool, name).await
    }

    async fn set_cursor(&self, name: &str, position: u64) -> Result<(), Error> {
        facts::set_cursor(&self.shared.pool, name, position).await
    }
}

#[async_trait]
impl Log for PostgresStore {
    async fn append(&self, entries: Vec<Sealed>) -> Result<u64, Error> {
        if entries.is_empty() {
            return Ok(*self.shared.grown.borrow());
        }
        check_signed(self.shared.signer().is_some(), &entries)?;
        let bytes = entries.iter().map(|entry| entry.payload.len()).sum();
        self.write(Work::Append(entries), bytes).await.map(number)
    }

    async fn entries(&self, query: EntryQuery) -> Result<Vec<Placed>, Error> {
        ledger::list(&self.shared.pool, query).await
    }

    async fn audit(&self, query: EntryQuery) -> Result<EntryPage, Error> {
        ledger::slice(&self.shared.pool, &query).await
    }

    fn grown(&self) -> watch::Receiver<u64> {
        self.shared.grown.subscribe()
    }

    async fn leaves(&self, from: u64, limit: usize) -> Result<Vec<Digest>, Error> {
        ledger::leaves(&self.shared.pool, from, limit).await
    }

    fn set_checkpoint_signer(&self, signer: Arc<dyn CheckpointSigner>) {
        *lock(&self.shared.signer) = Some(signer);
    }

    async fn checkpoint(&self) -> Result<Option<Signed>, Error> {
        ledger::checkpoint(&self.shared.pool).await
    }

    async fn checkpoints(&self, after: u64, limit: usize) -> Result<Vec<Signed>, Error> {
        ledger::checkpoints(&self.shared.pool, after, limit).await
    }

    async fn tile(&self, level: u8, index: u64) -> Result<Option<Vec<u8>>, Error> {
        ledger::tile(&self.shared.pool, level, index).await
    }

    async fn scan(&self, visitor: Arc<dyn Visitor>) -> Result<(), Error> {
        scan::scan(self.shared.pool.url(), visitor).await
    }

    async fn repair(&self, repairs: Vec<Repair>, entries: Vec<Sealed>) -> Result<(), Error> {
        self.change(ChangeKind::Repair(repairs), entries).await.map(drop)
    }
}

#[async_trait]
impl Keys for PostgresStore {
    async fn add_key(&self, key: Key, entry: Sealed) -> Result<(), Error> {
        self.change(ChangeKind::AddKey(key), vec![entry]).await.map(drop)
    }

    async fn keys(&self, tenant: Option<&TenantId>) -> Result<Vec<Key>, Error> {
        keys::list(&self.shared.pool, tenant).await
    }

    async fn key(&self, id: KeyId) -> Result<Option<Key>, Error> {
        keys::one(&self.shared.pool, id).await
    }

    async fn key_by_secret(&self, secret: Digest) -> Result<Option<Key>, Error> {
        keys::by_secret(&self.shared.pool, secret).await
    }

    async fn revoke_key(&self, revocation: Revocation, entry: Sealed) -> Result<Revoked, Error> {
        match self.change(ChangeKind::RevokeKey(revocation), vec![entry]).await? {
            Answer::Revoked(revoked) => Ok(revoked),
            _ => Ok(Revoked::NotFound),
        }
    }

    async fn touch_keys(&self, used: Vec<(KeyId, Timestamp)>) -> Result<(), Error> {
        keys::touch(&self.shared.pool, used).await
    }
}

#[async_trait]
impl Approvals for PostgresStore {
    async fn approvals(&self, query: ApprovalQuery) -> Result<ApprovalPage, Error> {
        approvals::list(&self.shared.pool, query).await
    }

    async fn approval(&self, tenant: &TenantId, id: ApprovalId) -> Result<Option<Standing>, Error> {
        approvals::one(&self.shared.pool, tenant, id).await
    }

    async fn revoke_approval(
        &self,
        tenant: &TenantId,
        id: ApprovalId,
        by: KeyId,
        at: Timestamp,
        entry: Sealed,
    ) -> Result<bool, Error> {
        let kind = ChangeKind::RevokeApproval { tenant: tenant.clone(), id, by, at };
        Ok(self.change(kind, vec![entry]).await? == Answer::Found(true))
    }
}

#[async_trait]
impl Decisions for PostgresStore {
    async fn add_decision(
        &self,
        tenant: &TenantId,
        tool: &str,
        call: CallId,
        decision: NewDecision,
    ) -> Result<u64, Error> {
        self.room.charge(tenant, decision.input.len());
        let action = NewAction::of(tenant, tool, call, &decision)?;
        let bytes = action.packed.bytes();
        self.write(Work::Decision(Box::new(action)), bytes).await.map(number)
    }

    async fn decision(
        &self,
        tenant: Option<&TenantId>,
        id: u64,
    ) -> Result<Option<KeptDecision>, Error> {
        decisions::one(&self.shared.pool, tenant, id).await
    }

    async fn decisions_of(
        &self,
        tenant: Option<&TenantId>,
        call: CallId,
    ) -> Result<Vec<KeptDecision>, Error> {
        decisions::of_call(&self.shared.pool, tenant, call).await
    }

    async fn decisions(&self, query: DecisionQuery) -> Result<Vec<KeptDecision>, Error> {
        decisions::list(&self.shared.pool, query).await
    }
}

#[async_trait]
impl Sessions for PostgresStore {
    async fn append_session_event(&self, event: SessionEvent) -> Result<u64, Error> {
        rows::check_text(&event.kind)?;
        let bytes = event.payload.as_str().len();
        self.room.charge(&event.tenant, bytes);
        self.write(Work::Event(event), bytes).await.map(number)
    }

    async fn session_events(&self, query: SessionQuery) -> Result<Vec<(u64, SessionEvent)>, Error> {
        sessions::list(&self.shared.pool, query).await
    }

    async fn sessions(
        &self,
        tenant: &TenantId,
        limit: usize,
    ) -> Result<Vec<SessionSummary>, Error> {
        sessions::summaries(&self.shared.pool, tenant, limit).await
    }
}

#[async_trait]
impl Blobs for PostgresStore {
    async fn blob(
        &self,
        digest: Digest,
        offset: u64,
        limit: u64,
    ) -> Result<Option<Vec<u8>>, Error> {
        blobs::read(&self.shared.pool, self.shared.large.as_ref(), digest, offset, limit).await
    }

    async fn blobs_of(&self, owner: BlobOwner) -> Result<Vec<(Digest, u64)>, Error> {
        blob_uses::list(&self.shared.pool, owner).await
    }

    async fn release_blobs(&self, owner: BlobOwner) -> Result<BlobCount, Error> {
        blob_uses::release(&self.shared.pool, owner).await
    }

    async fn collect_blobs(&self, unused_for: Duration, limit: usize) -> Result<BlobCount, Error> {
        let large = self.shared.large.as_ref();
        blob_uses::collect(self.shared.pool.url(), large, unused_for, limit).await
    }
}

#[async_trait]
impl Retention for PostgresStore {
    async fn erasable_calls(
        &self,
        tenant: &TenantId,
        scope: &ErasureScope,
        limit: usize,
    ) -> Result<ErasableCalls, Error> {
        erasure::erasable(&self.shared.pool, tenant, scope, limit).await
    }

    async fn expired_calls(
        &self,
        before: Timestamp,
        from: u64,
        limit: usize,
    ) -> Result<ExpiredCalls, Error> {
        erasure::expired(&self.shared.pool, before, from, limit).await
    }

    async fn erase_calls(&self, calls: Vec<(CallId, u64)>) -> Result<ErasedCalls, Error> {
        let erased = erasure::erase(&self.shared.pool, calls).await?;
        self.shared.recent.clear();
        Ok(erased)
    }

    async fn erase_events(&self, events: ErasedEvents, limit: usize) -> Result<u64, Error> {
        erasure::events(&self.shared.pool, events, limit).await
    }

    async fn erase_decisions(&self, before: Timestamp, limit: usize) -> Result<u64, Error> {
        erasure::decisions(&self.shared.pool, before, limit).await
    }

    async fn count_expired(&self, before: Timestamp) -> Result<(u64, u64), Error> {
        erasure::count(&self.shared.pool, before).await
    }

    async fn erasure(&self, tenant: &TenantId, id: CallId) -> Result<Option<u64>, Error> {
        erasure::entry(&self.shared.pool, tenant, id).await
    }
}

#[async_trait]
impl Artifacts for PostgresStore {
    async fn change_artifact(
        &self,
        tenant: &TenantId,
        change: ArtifactChange,
    ) -> Result<ArtifactChanged, Error> {
        let bytes = match &change {
            ArtifactChange::Create { bytes, .. } => bytes.len(),
            ArtifactChange::AddVersion { bytes, .. } => bytes.as_ref().map_or(0, Vec::len),
            _ => 0,
        };
        self.room.charge(tenant, bytes);
        artifacts::change(&self.shared.pool, self.shared.large.as_ref(), tenant, change).await
    }

    async fn artifact(&self, tenant: &TenantId, id: ArtifactId) -> Result<Option<Artifact>, Error> {
        artifacts::one(&self.shared.pool, tenant, id).await
    }

    async fn artifacts(&self, query: ArtifactQuery) -> Result<ArtifactPage, Error> {
        artifacts::list(&self.shared.pool, query).await
    }

    async fn artifact_versions(
        &self,
        tenant: &TenantId,
        id: ArtifactId,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<ArtifactVersion>, Error> {
        artifacts::versions(&self.shared.pool, tenant, id, before, limit).await
    }

    async fn artifact_version(
        &self,
        tenant: &TenantId,
        wanted: ArtifactRef,
    ) -> Result<Option<(ArtifactId, ArtifactVersion)>, Error> {
        artifacts::version(&self.shared.pool, tenant, wanted).await
    }

    async fn labels_of(&self, tenant: &TenantId, content: Digest) -> Result<Vec<String>, Error> {
        artifacts::labels(&self.shared.pool, tenant, content).await
    }

    async fn verdicts(
        &self,
        tenant: &TenantId,
        id: ArtifactId,
        limit: usize,
    ) -> Result<Vec<ArtifactVerdict>, Error> {
        artifacts::verdicts(&self.shared.pool, tenant, id, limit).await
    }

    async fn artifact_totals(&self, tenant: &TenantId) -> Result<ArtifactTotals, Error> {
        artifacts::totals(&self.shared.pool, tenant).await
    }

    async fn lineage(&self, query: LineageQuery) -> Result<Lineage, Error> {
        artifacts::lineage(&self.shared.pool, query).await
    }
}

#[async_trait]
impl Memos for PostgresStore {
    async fn remembered(
        &self,
        tenant: &TenantId,
        key: Digest,
        since: Timestamp,
    ) -> Result<Option<Remembered>, Error> {
        memos::find(&self.shared.pool, tenant, key, since).await
    }
}

#[async_trait]
impl Canaries for PostgresStore {
    async fn add_findings(&self, new: NewFindings) -> Result<(), Error> {
        canaries::add(&self.shared.pool, new).await
    }

    async fn findings(
        &self,
        canary: &str,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Findings, Error> {
        canaries::find(&self.shared.pool, canary, before, limit).await
    }
}

#[async_trait]
impl Metering for PostgresStore {
    async fn add_usage(&self, usage: OtherUsage) -> Result<(), Error> {
        usage::add_other(&self.shared.pool, usage).await
    }

    async fn usage(&self, query: UsageQuery) -> Result<Vec<UsageRow>, Error> {
        usage::list(&self.shared.pool, query).await
    }

    async fn activity(&self, query: ActivityQuery) -> Result<Vec<ActivityRow>, Error> {
        activity::list(&self.shared.pool, query).await
    }
}

#[async_trait]
impl Secrets for PostgresStore {
    async fn set_secret(&self, row: SecretRow) -> Result<(), Error> {
        secrets::set(&self.shared.pool, row).await
    }

    async fn reseal_secret(&self, read: SecretRow, seal: SecretSeal) -> Result<bool, Error> {
        secrets::reseal(&self.shared.pool, read, seal).await
    }

    async fn remove_secret(&self, tenant: &TenantId, name: &SecretName) -> Result<bool, Error> {
        secrets::remove(&self.shared.pool, tenant, name).await
    }

    async fn secret(
        &self,
        tenant: &TenantId,
        name: &SecretName,
    ) -> Result<Option<SecretRow>, Error> {
        secrets::one(&self.shared.pool, tenant, name).await
    }

    async fn secrets(
        &self,
        tenant: Option<&TenantId>,
        after: Option<(TenantId, SecretName)>,
    ) -> Result<Vec<SecretRow>, Error> {
        secrets::list(&self.shared.pool, tenant, after).await
    }
}

#[async_trait]
impl Budgets for PostgresStore {
    async fn set_budget(&self, budget: Budget) -> Result<(), Error> {
        budgets::set(&self.shared.pool, budget).await
    }

    async fn remove_budget(&self, of: BudgetFor) -> Result<bool, Error> {
        budgets::remove(&self.shared.pool, of).await
    }

    async fn budgets(&self, tenant: Option<&TenantId>) -> Result<Vec<Budget>, Error> {
        budgets::list(&self.shared.pool, tenant).await
    }
}

#[async_trait]
impl Processes for PostgresStore {
    async fn describe(&self, info: ProcessInfo) -> Result<(), Error> {
        *lock(&self.shared.about) = info;
        let link = &*self.shared.pool.look_up().await?;
        processes::describe(&self.shared, link).await
    }

    async fn processes(&self) -> Result<Vec<Process>, Error> {
        processes::list(&self.shared).await
    }

    async fn owner_of_call(&self, tenant: &TenantId, id: CallId) -> Result<Option<Process>, Error> {
        processes::owner_of_call(&self.shared, tenant, id).await
    }

    async fn add_sandbox(&self, tenant: &TenantId, id: &str) -> Result<(), Error> {
        processes::add_sandbox(&self.shared, tenant, id).await
    }

    async fn remove_sandbox(&self, id: &str) -> Result<(), Error> {
        processes::remove_sandbox(&self.shared, id).await
    }

    async fn owner_of_sandbox(
        &self,
        tenant: &TenantId,
        id: &str,
    ) -> Result<Option<Process>, Error> {
        processes::owner_of_sandbox(&self.shared, tenant, id).await
    }
}

#[async_trait]
impl Tools for PostgresStore {
    async fn put_tools(&self, rows: Vec<NewToolRow>, entries: Vec<Sealed>) -> Result<(), Error> {
        tool_rows::check(&rows)?;
        self.change(ChangeKind::PutTools(rows), entries).await.map(drop)
    }

    async fn tools_after(&self, revision: u64, limit: usize) -> Result<Vec<(u64, ToolRow)>, Error> {
        tool_rows::after(&self.shared.pool, revision, limit).await
    }

    async fn tool(&self, digest: Digest) -> Result<Option<(u64, ToolRow)>, Error> {
        tool_rows::one(&self.shared.pool, digest).await
    }
}

#[async_trait]
impl McpServers for PostgresStore {
    async fn add_mcp_server(&self, server: McpServer) -> Result<bool, Error> {
        mcp::add(&self.shared.pool, server).await
    }

    async fn remove_mcp_server(&self, name: &ServerName) -> Result<bool, Error> {
        mcp::remove(&self.shared.pool, name).await
    }

    async fn mcp_servers(&self) -> Result<Vec<McpServer>, Error> {
        mcp::list(&self.shared.pool).await
    }
}

#[async_trait]
impl ToolData for PostgresStore {
    async fn change_tool_data(&self, change: ToolDataChange) -> Result<ToolDataChanged, Error> {
        tool_data::change(&self.shared.pool, change).await
    }

    async fn tool_data_names(&self, of: &ToolDataScope) -> Result<Vec<ToolDatumInfo>, Error> {
        tool_data::list(&self.shared.pool, of).await
    }

    async fn tool_data(
        &self,
        of: &ToolDataScope,
        name: Option<&str>,
    ) -> Result<Vec<ToolDatum>, Error> {
        tool_data::read(&self.shared.pool, of, name).await
    }

    async fn remove_tool_data(
        &self,
        tenant: Option<&TenantId>,
        tool: &ToolName,
    ) -> Result<u64, Error> {
        tool_data::remove(&self.shared.pool, tenant, tool).await
    }

    async fn has_tool_data(&self, tool: &ToolName) -> Result<bool, Error> {
        tool_data::has(&self.shared.pool, tool).await
    }
}

#[async_trait]
impl Plans for PostgresStore {
    async fn add_plan(&self, plan: PlanRow, events: Vec<PlanEvent>) -> Result<(), Error> {
        plans::add(&self.shared, plan, events).await
    }

    async fn plan(&self, tenant: &TenantId, id: PlanId) -> Result<Option<PlanRow>, Error> {
        plans::one(&self.shared, tenant, id).await
    }

    async fn plans(&self, query: PlanQuery) -> Result<Vec<PlanSummary>, Error> {
        plans::list(&self.shared, query).await
    }

    async fn update_plan(&self, plan: PlanRow, events: Vec<PlanEvent>) -> Result<bool, Error> {
        plans::update(&self.shared, plan, events).await
    }

    async fn plan_events(
        &self,
        tenant: &TenantId,
        id: PlanId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, PlanEvent)>, Error> {
        plans::events(&self.shared, tenant, id, after, limit).await
    }

    async fn claim_plans(&self, limit: usize) -> Result<Vec<PlanRow>, Error> {
        plans::claim(&self.shared, limit).await
    }

    async fn remove_plan(&self, tenant: &TenantId, id: PlanId) -> Result<bool, Error> {
        plans::remove(&self.shared, tenant, id).await
    }
}

#[async_trait]
impl Uploads for PostgresStore {
    async fn add_upload(&self, row: UploadRow, content: Vec<u8>) -> Result<bool, Error> {
        uploads::add(&self.shared.pool, row, content).await
    }

    async fn remove_upload(&self, digest: Digest) -> Result<bool, Error> {
        uploads::remove(&self.shared.pool, digest).await
    }

    async fn uploads_version(&self) -> Result<u64, Error> {
        uploads::version(&self.shared.pool).await
    }

    async fn uploads(&self, after: Option<Digest>) -> Result<Vec<UploadRow>, Error> {
        uploads::list(&self.shared.pool, after).await
    }

    async fn upload_content(&self, digest: Digest) -> Result<Option<Vec<u8>>, Error> {
        uploads::content(&self.shared.pool, digest).await
    }
}
