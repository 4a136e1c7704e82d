//! The store in one SQLite file, with large blobs in a folder beside it.
//!
//! Values are turned into rows before the work is queued, on the caller's thread; the one writer
//! only binds and steps.

mod activity;
mod approvals;
mod artifacts;
mod blob_uses;
mod blobs;
mod budgets;
mod calls;
mod canaries;
mod checkpoints;
mod decisions;
mod entries;
mod erasure;
mod facts;
mod files;
mod hook;
mod keys;
mod ledger;
mod mcp;
mod memos;
mod queue;

mod plans;
mod record;
mod repair;
mod rows;
mod scan;
mod secrets;
mod sessions;
mod slices;
mod tool_data;
mod tool_rows;
mod uploads;
mod usage;

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
    time::Duration,
};

use async_trait::async_trait;
use ringfence_sqlite::Db;
use ringfence_types::{
    ApprovalId, ArtifactId, CallId, Digest, KeyId, McpServer, PlanId, Receipt, Sealed, SecretName,
    ServerName, TenantId, Timestamp, ToolName,
};
use tokio::sync::watch;

use self::files::Files;
use crate::{
    ActivityQuery, ActivityRow, ApprovalPage, ApprovalQuery, Approvals, Artifact, ArtifactChange,
    ArtifactChanged, ArtifactPage, ArtifactQuery, ArtifactRef, ArtifactTotals, ArtifactVerdict,
    ArtifactVersion, Artifacts, BlobCount, BlobOwner, Blobs, Budget, BudgetFor, Budgets, CallPage,
    CallQuery, Calls, Canaries, CheckpointSigner, Commit, DecisionQuery, Decisions, EntryPage,
    EntryQuery, ErasableCalls, ErasedCalls, ErasedEvents, ErasureScope, Error, ExpiredCalls,
    FactQuery, Facts, Findings, KeptDecision, Key, KeyUse, Keys, Lineage, LineageQuery, Log,
    Logged, McpServers, Memos, Metering, NewDecision, NewFindings, NewToolRow, OtherUsage, PAGE,
    Placed, PlanEvent, PlanQuery, PlanRow, PlanSummary, Plans, Process, ProcessInfo, Processes,
    QueuedCall, Record, Remembered, Repair, Retention, Revocation, Revoked, Room, SecretRow,
    SecretSeal, Secrets, SessionEvent, SessionQuery, SessionSummary, Sessions, Signed, Standing,
    Store, Stored, ToolData, ToolDataChange, ToolDataChanged, ToolDataScope, ToolDatum,
    ToolDatumInfo, ToolRow, Tools, UploadRow, Uploads, UsageQuery, UsageRow, Version, Visitor,
    recent::Recent,
};

/// Its history; see [`Db::migrate`].
const MIGRATIONS: &[&str] = &[
    include_str!("schema.sql"),
    include_str!("approvals.sql"),
    include_str!("ledger.sql"),
    include_str!("memos.sql"),
    include_str!("canaries.sql"),
    include_str!("usage.sql"),
    include_str!("budgets.sql"),
    include_str!("blob_uses.sql"),
    include_str!("activity.sql"),
    include_str!("erasure.sql"),
    include_str!("tool_rows.sql"),
    include_str!("secrets.sql"),
    include_str!("artifacts.sql"),
    include_str!("mcp.sql"),
    include_str!("tool_data.sql"),
    include_str!("tokens.sql"),
    include_str!("plans.sql"),
    include_str!("uploads.sql"),
    include_str!("queue.sql"),
];

/// Process number of a store that is only read. No process has this number.
const NO_PROCESS: i64 = 0;

/// The store in one SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    db: Db,
    files: Arc<Files>,
    newest: Arc<watch::Sender<u64>>,
    /// Entries of the ledger.
    grown: Arc<watch::Sender<u64>>,
    recent: Arc<Recent>,
    room: Room,
    /// Whether a checkpoint is signed in every commit.
    has_signer: AtomicBool,
    /// The number of this process, which owns the calls that it records.
    process: i64,
    /// Description of this process.
    about: Mutex<ProcessInfo>,
    /// One process at a time has the file open: none leaves calls behind while another one runs.
    abandoned: watch::Sender<u64>,
    queued: watch::Sender<u64>,
    publishes: watch::Sender<bool>,
    servers: watch::Sender<u32>,
}

impl SqliteStore {
    /// Brings the tables up to date and removes what a crash left in the folder of blobs.
    pub async fn open(db: Db, blobs: &Path) -> Result<Self, Error> {
        db.migrate("store", MIGRATIONS).await?;
        let files = Arc::new(Files::open(blobs).map_err(Error::backend("open the blobs"))?);
        blobs::sweep(&db, &files).await?;
        let process = db.write(|connection| -> Result<i64, Error> {
            Ok(connection.prepare("INSERT INTO processes DEFAULT VALUES")?.insert([])?)
        });
        let process = process.await?;
        Self::new(db, files, Room::new(blobs), process).await
    }

    /// Reads what a database holds that was opened to be read; nothing is brought up to date.
    pub async fn read(db: Db, blobs: &Path) -> Result<Self, Error> {
        Self::new(db, Arc::new(Files::to_read(blobs)), Room::new(blobs), NO_PROCESS).await
    }

    async fn new(db: Db, files: Arc<Files>, room: Room, process: i64) -> Result<Self, Error> {
        let newest = Arc::new(watch::Sender::new(facts::newest(&db).await?));
        let grown = Arc::new(watch::Sender::new(ledger::size(&db).await?));
        let (recent, has_signer) = (Arc::default(), AtomicBool::new(false));
        let (abandoned, publishes) = (watch::Sender::new(0), watch::Sender::new(true));
        Ok(Self {
            db,
            files,
            newest,
            grown,
            recent,
            room,
            has_signer,
            process,
            about: Mutex::default(),
            abandoned,
            queued: watch::Sender::new(0),
            publishes,
            servers: watch::Sender::new(1),
        })
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn check_files(&self) -> Result<(), Error> {
        Ok(self.db.check_files()?)
    }

    fn room(&self) -> &Room {
        &self.room
    }

    async fn leave(&self) -> Result<(), Error> {
        Ok(())
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn publishes(&self) -> watch::Receiver<bool> {
        self.publishes.subscribe()
    }

    fn servers(&self) -> watch::Receiver<u32> {
        self.servers.subscribe()
    }
}

#[async_trait]
impl Calls for SqliteStore {
    async fn record(&self, record: Record) -> Result<Version, Error> {
        record::record(self, record).await
    }

    async fn call(&self, tenant: &TenantId, id: CallId) -> Result<Option<Stored>, Error> {
        calls::one(&self.db, tenant, id).await
    }

    async fn calls(&self, query: CallQuery) -> Result<CallPage, Error> {
        calls::list(&self.db, query).await
    }

    async fn unfinished(&self, after: Option<CallId>, limit: usize) -> Result<Vec<Stored>, Error> {
        calls::unfinished(&self.db, self.process, after, limit).await
    }

    fn abandoned(&self) -> watch::Receiver<u64> {
        self.abandoned.subscribe()
    }

    async fn queue_call(&self, queued: QueuedCall) -> Result<(), Error> {
        queue::add(&self.db, self.process, queued).await?;
        self.queued.send_modify(|count| *count += 1);
        Ok(())
    }

    async fn take_queued(&self, limit: usize) -> Result<Vec<Stored>, Error> {
        queue::take(&self.db, self.process, limit).await
    }

    fn queued(&self) -> watch::Receiver<u64> {
        self.queued.subscribe()
    }

    async fn idempotent(
        &self,
        key: KeyId,
        idempotency_key: &str,
        now: Timestamp,
    ) -> Result<Option<KeyUse>, Error> {
        calls::idempotent(&self.db, key, idempotency_key, now).await
    }

    async fn receipt(&self, tenant: &TenantId, id: CallId) -> Result<Option<Receipt>, Error> {
        ledger::receipt(&self.db, tenant, id).await
    }
}

#[async_trait]
impl Facts for SqliteStore {
    async fn facts(&self, query: FactQuery) -> Result<Vec<Logged>, Error> {
        facts::list(&self.db, query).await
    }

    async fn commits(&self, after: u64, limit: usize) -> Result<Vec<Arc<Commit>>, Error> {
        if after >= *self.newest.borrow() {
            return Ok(Vec::new());
        }
        match self.recent.after(after, limit.min(PAGE)) {
            Some(found) => Ok(found),
            None => facts::commits(&self.db, after, limit).await,
        }
    }

    fn newest(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    async fn cursor(&self, name: &str) -> Result<u64, Error> {
        facts::cursor(&self.db, name).await
    }

    async fn set_cursor(&self, name: &str, position: u64) -> Result<(), Error> {
        facts::set_cursor(&self.db, name, position).await
    }
}

#[async_trait]
impl Log for SqliteStore {
    async fn append(&self, entries: Vec<Sealed>) -> Result<u64, Error> {
        ledger::append(self, entries).await
    }

    async fn entries(&self, query: EntryQuery) -> Result<Vec<Placed>, Error> {
        entries::list(&self.db, query).await
    }

    async fn audit(&self, query: EntryQuery) -> Result<EntryPage, Error> {
        entries::slice(&self.db, query).await
    }

    fn grown(&self) -> watch::Receiver<u64> {
        self.grown.subscribe()
    }

    async fn leaves(&self, from: u64, limit: usize) -> Result<Vec<Digest>, Error> {
        ledger::leaves(&self.db, from, limit).await
    }

    fn set_checkpoint_signer(&self, signer: Arc<dyn CheckpointSigner>) {
        hook::set(self, signer);
    }

    async fn checkpoint(&self) -> Result<Option<Signed>, Error> {
        checkpoints::newest(&self.db).await
    }

    async fn checkpoints(&self, after: u64, limit: usize) -> Result<Vec<Signed>, Error> {
        checkpoints::list(&self.db, after, limit).await
    }

    async fn tile(&self, level: u8, index: u64) -> Result<Option<Vec<u8>>, Error> {
        checkpoints::tile(&self.db, level, index).await
    }

    async fn scan(&self, visitor: Arc<dyn Visitor>) -> Result<(), Error> {
        scan::scan(&self.db, visitor).await
    }

    async fn repair(&self, repairs: Vec<Repair>, entries: Vec<Sealed>) -> Result<(), Error> {
        repair::repair(self, repairs, entries).await
    }
}

#[async_trait]
impl Keys for SqliteStore {
    async fn add_key(&self, key: Key, entry: Sealed) -> Result<(), Error> {
        keys::add(self, key, entry).await
    }

    async fn keys(&self, tenant: Option<&TenantId>) -> Result<Vec<Key>, Error> {
        keys::list(&self.db, tenant).await
    }

    async fn key(&self, id: KeyId) -> Result<Option<Key>, Error> {
        keys::one(&self.db, id).await
    }

    async fn key_by_secret(&self, secret: Digest) -> Result<Option<Key>, Error> {
        keys::by_secret(&self.db, secret).await
    }

    async fn revoke_key(&self, revocation: Revocation, entry: Sealed) -> Result<Revoked, Error> {
        keys::revoke(self, revocation, entry).await
    }

    async fn touch_keys(&self, used: Vec<(KeyId, Timestamp)>) -> Result<(), Error> {
        keys::touch(&self.db, used).await
    }
}

#[async_trait]
impl Approvals for SqliteStore {
    async fn approvals(&self, query: ApprovalQuery) -> Result<ApprovalPage, Error> {
        approvals::list(&self.db, query).await
    }

    async fn approval(&self, tenant: &TenantId, id: ApprovalId) -> Result<Option<Standing>, Error> {
        approvals::one(&self.db, tenant, id).await
    }

    async fn revoke_approval(
        &self,
        tenant: &TenantId,
        id: ApprovalId,
        by: KeyId,
        at: Timestamp,
        entry: Sealed,
    ) -> Result<bool, Error> {
        approvals::revoke(self, tenant, id, (by, at), entry).await
    }
}

#[async_trait]
impl Decisions for SqliteStore {
    async fn add_decision(
        &self,
        tenant: &TenantId,
        tool: &str,
        call: CallId,
        decision: NewDecision,
    ) -> Result<u64, Error> {
        self.room.charge(tenant, decision.input.len());
        decisions::add(&self.db, tenant, tool, call, &decision).await
    }

    async fn decision(
        &self,
        tenant: Option<&TenantId>,
        id: u64,
    ) -> Result<Option<KeptDecision>, Error> {
        decisions::one(&self.db, tenant, id).await
    }

    async fn decisions_of(
        &self,
        tenant: Option<&TenantId>,
        call: CallId,
    ) -> Result<Vec<KeptDecision>, Error> {
        decisions::of_call(&self.db, tenant, call).await
    }

    async fn decisions(&self, query: DecisionQuery) -> Result<Vec<KeptDecision>, Error> {
        decisions::list(&self.db, query).await
    }
}

#[async_trait]
impl Sessions for SqliteStore {
    async fn append_session_event(&self, event: SessionEvent) -> Result<u64, Error> {
        self.room.charge(&event.tenant, event.payload.as_str().len());
        sessions::append(&self.db, event).await
    }

    async fn session_events(&self, query: SessionQuery) -> Result<Vec<(u64, SessionEvent)>, Error> {
        sessions::list(&self.db, query).await
    }

    async fn sessions(
        &self,
        tenant: &TenantId,
        limit: usize,
    ) -> Result<Vec<SessionSummary>, Error> {
        sessions::summaries(&self.db, tenant.clone(), limit).await
    }
}

#[async_trait]
impl Blobs for SqliteStore {
    async fn blob(
        &self,
        digest: Digest,
        offset: u64,
        limit: u64,
    ) -> Result<Option<Vec<u8>>, Error> {
        blobs::read(&self.db, &self.files, digest, offset, limit).await
    }

    async fn blobs_of(&self, owner: BlobOwner) -> Result<Vec<(Digest, u64)>, Error> {
        blob_uses::list(&self.db, owner).await
    }

    async fn release_blobs(&self, owner: BlobOwner) -> Result<BlobCount, Error> {
        self.db.write(move |connection| blob_uses::release(connection, owner)).await
    }

    async fn collect_blobs(&self, unused_for: Duration, limit: usize) -> Result<BlobCount, Error> {
        blobs::collect(&self.db, &self.files, unused_for, limit).await
    }
}

#[async_trait]
impl Retention for SqliteStore {
    async fn erasable_calls(
        &self,
        tenant: &TenantId,
        scope: &ErasureScope,
        limit: usize,
    ) -> Result<ErasableCalls, Error> {
        erasure::erasable(&self.db, tenant, scope, limit).await
    }

    async fn expired_calls(
        &self,
        before: Timestamp,
        from: u64,
        limit: usize,
    ) -> Result<ExpiredCalls, Error> {
        erasure::expired(&self.db, before, from, limit).await
    }

    async fn erase_calls(&self, calls: Vec<(CallId, u64)>) -> Result<ErasedCalls, Error> {
        let erased = erasure::erase(&self.db, calls).await?;
        self.recent.clear();
        Ok(erased)
    }

    async fn erase_events(&self, events: ErasedEvents, limit: usize) -> Result<u64, Error> {
        erasure::events(&self.db, events, limit).await
    }

    async fn erase_decisions(&self, before: Timestamp, limit: usize) -> Result<u64, Error> {
        erasure::decisions(&self.db, before, limit).await
    }

    async fn count_expired(&self, before: Timestamp) -> Result<(u64, u64), Error> {
        erasure::count(&self.db, before).await
    }

    async fn erasure(&self, tenant: &TenantId, id: CallId) -> Result<Option<u64>, Error> {
        erasure::entry(&self.db, tenant, id).await
    }
}

#[async_trait]
impl Artifacts for SqliteStore {
    async fn change_artifact(
        &self,
        tenant: &TenantId,
        change: ArtifactChange,
    ) -> Result<ArtifactChanged, Error> {
        artifacts::change(self, tenant, change).await
    }

    async fn artifact(&self, tenant: &TenantId, id: ArtifactId) -> Result<Option<Artifact>, Error> {
        artifacts::one(&self.db, tenant, id).await
    }

    async fn artifacts(&self, query: ArtifactQuery) -> Result<ArtifactPage, Error> {
        artifacts::list(&self.db, query).await
    }

    async fn artifact_versions(
        &self,
        tenant: &TenantId,
        id: ArtifactId,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<ArtifactVersion>, Error> {
        artifacts::versions(&self.db, tenant, id, before, limit).await
    }

    async fn artifact_version(
        &self,
        tenant: &TenantId,
        wanted: ArtifactRef,
    ) -> Result<Option<(ArtifactId, ArtifactVersion)>, Error> {
        artifacts::version(&self.db, tenant, wanted).await
    }

    async fn labels_of(&self, tenant: &TenantId, content: Digest) -> Result<Vec<String>, Error> {
        artifacts::labels(&self.db, tenant, content).await
    }

    async fn verdicts(
        &self,
        tenant: &TenantId,
        id: ArtifactId,
        limit: usize,
    ) -> Result<Vec<ArtifactVerdict>, Error> {
        artifacts::verdicts(&self.db, tenant, id, limit).await
    }

    async fn artifact_totals(&self, tenant: &TenantId) -> Result<ArtifactTotals, Error> {
        artifacts::totals(&self.db, tenant).await
    }

    async fn lineage(&self, query: LineageQuery) -> Result<Lineage, Error> {
        artifacts::lineage(&self.db, query).await
    }
}

#[async_trait]
impl Memos for SqliteStore {
    async fn remembered(
        &self,
        tenant: &TenantId,
        key: Digest,
        since: Timestamp,
    ) -> Result<Option<Remembered>, Error> {
        memos::find(&self.db, tenant, key, since).await
    }
}

#[async_trait]
impl Canaries for SqliteStore {
    async fn add_findings(&self, new: NewFindings) -> Result<(), Error> {
        canaries::add(&self.db, new).await
    }

    async fn findings(
        &self,
        canary: &str,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Findings, Error> {
        canaries::find(&self.db, canary, before, limit).await
    }
}

#[async_trait]
impl Metering for SqliteStore {
    async fn add_usage(&self, usage: OtherUsage) -> Result<(), Error> {
        usage::add_other(&self.db, usage).await
    }

    async fn usage(&self, query: UsageQuery) -> Result<Vec<UsageRow>, Error> {
        usage::list(&self.db, query).await
    }

    async fn activity(&self, query: ActivityQuery) -> Result<Vec<ActivityRow>, Error> {
        activity::list(&self.db, query).await
    }
}

#[async_trait]
impl Secrets for SqliteStore {
    async fn set_secret(&self, row: SecretRow) -> Result<(), Error> {
        secrets::set(&self.db, row).await
    }

    async fn reseal_secret(&self, read: SecretRow, seal: SecretSeal) -> Result<bool, Error> {
        secrets::reseal(&self.db, read, seal).await
    }

    async fn remove_secret(&self, tenant: &TenantId, name: &SecretName) -> Result<bool, Error> {
        secrets::remove(&self.db, tenant, name).await
    }

    async fn secret(
        &self,
        tenant: &TenantId,
        name: &SecretName,
    ) -> Result<Option<SecretRow>, Error> {
        secrets::one(&self.db, tenant, name).await
    }

    async fn secrets(
        &self,
        tenant: Option<&TenantId>,
        after: Option<(TenantId, SecretName)>,
    ) -> Result<Vec<SecretRow>, Error> {
        secrets::list(&self.db, tenant, after).await
    }
}

#[async_trait]
impl Budgets for SqliteStore {
    async fn set_budget(&self, budget: Budget) -> Result<(), Error> {
        budgets::set(&self.db, budget).await
    }

    async fn remove_budget(&self, of: BudgetFor) -> Result<bool, Error> {
        budgets::remove(&self.db, of).await
    }

    async fn budgets(&self, tenant: Option<&TenantId>) -> Result<Vec<Budget>, Error> {
        budgets::list(&self.db, tenant).await
    }
}

/// One process at a time has the file open: what it does not have, no process has.
#[async_trait]
impl Processes for SqliteStore {
    async fn describe(&self, info: ProcessInfo) -> Result<(), Error> {
        *self.about.lock().unwrap_or_else(PoisonError::into_inner) = info;
        Ok(())
    }

    async fn processes(&self) -> Result<Vec<Process>, Error> {
        let process = self.process;
        let started_at = self.db.read(move |connection| -> Result<i64, Error> {
            let sql = "SELECT started_at * 1000000 FROM processes WHERE id = ?1";
            Ok(connection.prepare_cached(sql)?.query_row([process], |row| row.get(0))?)
        });
        let started_at = Timestamp::from_micros(started_at.await?);
        let info = self.about.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(vec![Process { id: process.cast_unsigned(), is_own: true, started_at, info }])
    }

    async fn owner_of_call(&self, _: &TenantId, _: CallId) -> Result<Option<Process>, Error> {
        Ok(None)
    }

    async fn add_sandbox(&self, _: &TenantId, _: &str) -> Result<(), Error> {
        Ok(())
    }

    async fn remove_sandbox(&self, _: &str) -> Result<(), Error> {
        Ok(())
    }

    async fn owner_of_sandbox(&self, _: &TenantId, _: &str) -> Result<Option<Process>, Error> {
        Ok(None)
    }
}

#[async_trait]
impl Tools for SqliteStore {
    async fn put_tools(&self, rows: Vec<NewToolRow>, entries: Vec<Sealed>) -> Result<(), Error> {
        tool_rows::put(self, rows, entries).await
    }

    async fn tools_after(&self, revision: u64, limit: usize) -> Result<Vec<(u64, ToolRow)>, Error> {
        tool_rows::after(&self.db, revision, limit).await
    }

    async fn tool(&self, digest: Digest) -> Result<Option<(u64, ToolRow)>, Error> {
        tool_rows::one(&self.db, digest).await
    }
}

#[async_trait]
impl McpServers for SqliteStore {
    async fn add_mcp_server(&self, server: McpServer) -> Result<bool, Error> {
        mcp::add(&self.db, server).await
    }

    async fn remove_mcp_server(&self, name: &ServerName) -> Result<bool, Error> {
        mcp::remove(&self.db, name).await
    }

    async fn mcp_servers(&self) -> Result<Vec<McpServer>, Error> {
        mcp::list(&self.db).await
    }
}

#[async_trait]
impl ToolData for SqliteStore {
    async fn change_tool_data(&self, change: ToolDataChange) -> Result<ToolDataChanged, Error> {
        tool_data::change(&self.db, change).await
    }

    async fn tool_data_names(&self, of: &ToolDataScope) -> Result<Vec<ToolDatumInfo>, Error> {
        tool_data::list(&self.db, of).await
    }

    async fn tool_data(
        &self,
        of: &ToolDataScope,
        name: Option<&str>,
    ) -> Result<Vec<ToolDatum>, Error> {
        tool_data::read(&self.db, of, name).await
    }

    async fn remove_tool_data(
        &self,
        tenant: Option<&TenantId>,
        tool: &ToolName,
    ) -> Result<u64, Error> {
        tool_data::remove(&self.db, tenant, tool).await
    }

    async fn has_tool_data(&self, tool: &ToolName) -> Result<bool, Error> {
        tool_data::has(&self.db, tool).await
    }
}

#[async_trait]
impl Plans for SqliteStore {
    async fn add_plan(&self, plan: PlanRow, events: Vec<PlanEvent>) -> Result<(), Error> {
        plans::add(&self.db, plan, events).await
    }

    async fn plan(&self, tenant: &TenantId, id: PlanId) -> Result<Option<PlanRow>, Error> {
        plans::one(&self.db, self.process, tenant, id).await
    }

    async fn plans(&self, query: PlanQuery) -> Result<Vec<PlanSummary>, Error> {
        plans::list(&self.db, query).await
    }

    async fn update_plan(&self, plan: PlanRow, events: Vec<PlanEvent>) -> Result<bool, Error> {
        plans::update(&self.db, plan, events).await
    }

    async fn plan_events(
        &self,
        tenant: &TenantId,
        id: PlanId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, PlanEvent)>, Error> {
        plans::events(&self.db, tenant, id, after, limit).await
    }

    async fn claim_plans(&self, limit: usize) -> Result<Vec<PlanRow>, Error> {
        plans::claim(&self.db, self.process, limit).await
    }

    async fn remove_plan(&self, tenant: &TenantId, id: PlanId) -> Result<bool, Error> {
        plans::remove(&self.db, tenant, id).await
    }
}

#[async_trait]
impl Uploads for SqliteStore {
    async fn add_upload(&self, row: UploadRow, content: Vec<u8>) -> Result<bool, Error> {
        uploads::add(&self.db, row, content).await
    }

    async fn remove_upload(&self, digest: Digest) -> Result<bool, Error> {
        uploads::remove(&self.db, digest).await
    }

    async fn uploads_version(&self) -> Result<u64, Error> {
        uploads::version(&self.db).await
    }

    async fn uploads(&self, after: Option<Digest>) -> Result<Vec<UploadRow>, Error> {
        uploads::list(&self.db, after).await
    }

    async fn upload_content(&self, digest: Digest) -> Result<Option<Vec<u8>>, Error> {
        uploads::content(&self.db, digest).await
    }
}
