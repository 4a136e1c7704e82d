//! Two processes as one store: steps of a call go to the process that owns it, all else takes turns.
//!
//! A write returns when both processes know of it, which checks that commits are announced.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use ringfence_store::*;
use ringfence_types::{
    ApprovalId, ArtifactId, CallId, Digest, KeyId, McpServer, PlanId, Receipt, Sealed, SecretName,
    ServerName, TenantId, Timestamp, ToolName,
};
use tokio::sync::watch;

/// Far beyond the second within which commits are announced.
const ANNOUNCE_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(super) struct Pair {
    stores: [Arc<dyn Store>; 2],
    turn: AtomicUsize,
}

impl Pair {
    pub(super) fn new(one: Arc<dyn Store>, other: Arc<dyn Store>) -> Self {
        Self { stores: [one, other], turn: AtomicUsize::new(0) }
    }

    fn next(&self) -> &Arc<dyn Store> {
        &self.stores[self.turn.fetch_add(1, Ordering::Relaxed) % 2]
    }

    fn owner(&self, call: CallId) -> &Arc<dyn Store> {
        &self.stores[usize::from(call.0.as_bytes()[15] % 2)]
    }

    /// Waits until both processes know of all commits that one of them knows of.
    async fn settle(&self) {
        type Watched = fn(&Arc<dyn Store>) -> watch::Receiver<u64>;
        let both: [Watched; 2] = [|store| store.newest(), |store| store.grown()];
        for watched in both {
            let known = self.stores.each_ref().map(|store| *watched(store).borrow());
            let most = known[0].max(known[1]);
            for store in &self.stores {
                let mut watch = watched(store);
                let heard = watch.wait_for(|value| *value >= most);
                let heard = tokio::time::timeout(ANNOUNCE_TIMEOUT, heard).await;
                heard.expect("commits are announced").expect("the store lives");
            }
        }
    }
}

#[async_trait]
impl Store for Pair {
    fn check_files(&self) -> Result<(), Error> {
        self.next().check_files()
    }

    fn room(&self) -> &Room {
        self.stores[0].room()
    }

    async fn leave(&self) -> Result<(), Error> {
        self.next().leave().await
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn publishes(&self) -> watch::Receiver<bool> {
        self.stores[0].publishes()
    }

    fn servers(&self) -> watch::Receiver<u32> {
        self.stores[0].servers()
    }
}

#[async_trait]
impl Calls for Pair {
    async fn record(&self, record: Record) -> Result<Version, Error> {
        let done = self.owner(record.call.asked.id).record(record).await;
        self.settle().await;
        done
    }

    async fn call(&self, tenant: &TenantId, id: CallId) -> Result<Option<Stored>, Error> {
        self.next().call(tenant, id).await
    }

    async fn calls(&self, query: CallQuery) -> Result<CallPage, Error> {
        self.next().calls(query).await
    }

    async fn unfinished(&self, after: Option<CallId>, limit: usize) -> Result<Vec<Stored>, Error> {
        self.next().unfinished(after, limit).await
    }

    fn abandoned(&self) -> watch::Receiver<u64> {
        self.stores[0].abandoned()
    }

    async fn queue_call(&self, queued: QueuedCall) -> Result<(), Error> {
        self.owner(queued.id).queue_call(queued).await
    }

    async fn take_queued(&self, limit: usize) -> Result<Vec<Stored>, Error> {
        self.next().take_queued(limit).await
    }

    fn queued(&self) -> watch::Receiver<u64> {
        self.stores[0].queued()
    }

    async fn idempotent(
        &self,
        key: KeyId,
        idempotency_key: &str,
        now: Timestamp,
    ) -> Result<Option<KeyUse>, Error> {
        self.next().idempotent(key, idempotency_key, now).await
    }

    async fn receipt(&self, tenant: &TenantId, id: CallId) -> Result<Option<Receipt>, Error> {
        self.next().receipt(tenant, id).await
    }
}

#[async_trait]
impl Facts for Pair {
    async fn facts(&self, query: FactQuery) -> Result<Vec<Logged>, Error> {
        self.next().facts(query).await
    }

    async fn commits(&self, after: u64, limit: usize) -> Result<Vec<Arc<Commit>>, Error> {
        self.next().commits(after, limit).await
    }

    fn newest(&self) -> watch::Receiver<u64> {
        self.stores[0].newest()
    }

    async fn cursor(&self, name: &str) -> Result<u64, Error> {
        self.next().cursor(name).await
    }

    async fn set_cursor(&self, name: &str, position: u64) -> Result<(), Error> {
        self.next().set_cursor(name, position).await
    }
}

#[async_trait]
impl Log for Pair {
    async fn append(&self, entries: Vec<Sealed>) -> Result<u64, Error> {
        let done = self.next().append(entries).await;
        self.settle().await;
        done
    }

    async fn entries(&self, query: EntryQuery) -> Result<Vec<Placed>, Error> {
        self.next().entries(query).await
    }

    async fn audit(&self, query: EntryQuery) -> Result<EntryPage, Error> {
        self.next().audit(query).await
    }

    fn grown(&self) -> watch::Receiver<u64> {
        self.stores[0].grown()
    }

    async fn leaves(&self, from: u64, limit: usize) -> Result<Vec<Digest>, Error> {
        self.next().leaves(from, limit).await
    }

    /// One signer for both: it is asked under the lock of the log, in the order of the commits.
    fn set_checkpoint_signer(&self, signer: Arc<dyn CheckpointSigner>) {
        for store in &self.stores {
            store.set_checkpoint_signer(signer.clone());
        }
    }

    async fn checkpoint(&self) -> Result<Option<Signed>, Error> {
        self.next().checkpoint().await
    }

    async fn checkpoints(&self, after: u64, limit: usize) -> Result<Vec<Signed>, Error> {
        self.next().checkpoints(after, limit).await
    }

    async fn tile(&self, level: u8, index: u64) -> Result<Option<Vec<u8>>, Error> {
        self.next().tile(level, index).await
    }

    async fn scan(&self, visitor: Arc<dyn Visitor>) -> Result<(), Error> {
        self.next().scan(visitor).await
    }

    async fn repair(&self, repairs: Vec<Repair>, entries: Vec<Sealed>) -> Result<(), Error> {
        let done = self.next().repair(repairs, entries).await;
        self.settle().await;
        done
    }
}

#[async_trait]
impl Keys for Pair {
    async fn add_key(&self, key: Key, entry: Sealed) -> Result<(), Error> {
        let done = self.next().add_key(key, entry).await;
        self.settle().await;
        done
    }

    async fn keys(&self, tenant: Option<&TenantId>) -> Result<Vec<Key>, Error> {
        self.next().keys(tenant).await
    }

    async fn key(&self, id: KeyId) -> Result<Option<Key>, Error> {
        self.next().key(id).await
    }

    async fn key_by_secret(&self, secret: Digest) -> Result<Option<Key>, Error> {
        self.next().key_by_secret(secret).await
    }

    async fn revoke_key(&self, revocation: Revocation, entry: Sealed) -> Result<Revoked, Error> {
        let done = self.next().revoke_key(revocation, entry).await;
        self.settle().await;
        done
    }

    async fn touch_keys(&self, used: Vec<(KeyId, Timestamp)>) -> Result<(), Error> {
        self.next().touch_keys(used).await
    }
}

#[async_trait]
impl Approvals for Pair {
    async fn approvals(&self, query: ApprovalQuery) -> Result<ApprovalPage, Error> {
        self.next().approvals(query).await
    }

    async fn approval(&self, tenant: &TenantId, id: ApprovalId) -> Result<Option<Standing>, Error> {
        self.next().approval(tenant, id).await
    }

    async fn revoke_approval(
        &self,
        tenant: &TenantId,
        id: ApprovalId,
        by: KeyId,
        at: Timestamp,
        entry: Sealed,
    ) -> Result<bool, Error> {
        let done = self.next().revoke_approval(tenant, id, by, at, entry).await;
        self.settle().await;
        done
    }
}

#[async_trait]
impl Decisions for Pair {
    async fn add_decision(
        &self,
        tenant: &TenantId,
        tool: &str,
        call: CallId,
        decision: NewDecision,
    ) -> Result<u64, Error> {
        self.next().add_decision(tenant, tool, call, decision).await
    }

    async fn decision(
        &self,
        tenant: Option<&TenantId>,
        id: u64,
    ) -> Result<Option<KeptDecision>, Error> {
        self.next().decision(tenant, id).await
    }

    async fn decisions_of(
        &self,
        tenant: Option<&TenantId>,
        call: CallId,
    ) -> Result<Vec<KeptDecision>, Error> {
        self.next().decisions_of(tenant, call).await
    }

    async fn decisions(&self, query: DecisionQuery) -> Result<Vec<KeptDecision>, Error> {
        self.next().decisions(query).await
    }
}

#[async_trait]
impl Sessions for Pair {
    async fn append_session_event(&self, event: SessionEvent) -> Result<u64, Error> {
        self.next().append_session_event(event).await
    }

    async fn session_events(&self, query: SessionQuery) -> Result<Vec<(u64, SessionEvent)>, Error> {
        self.next().session_events(query).await
    }

    async fn sessions(
        &self,
        tenant: &TenantId,
        limit: usize,
    ) -> Result<Vec<SessionSummary>, Error> {
        self.next().sessions(tenant, limit).await
    }
}

#[async_trait]
impl Blobs for Pair {
    async fn blob(
        &self,
        digest: Digest,
        offset: u64,
        limit: u64,
    ) -> Result<Option<Vec<u8>>, Error> {
        self.next().blob(digest, offset, limit).await
    }

    async fn blobs_of(&self, owner: BlobOwner) -> Result<Vec<(Digest, u64)>, Error> {
        self.next().blobs_of(owner).await
    }

    async fn release_blobs(&self, owner: BlobOwner) -> Result<BlobCount, Error> {
        self.next().release_blobs(owner).await
    }

    async fn collect_blobs(&self, unused_for: Duration, limit: usize) -> Result<BlobCount, Error> {
        self.next().collect_blobs(unused_for, limit).await
    }
}

#[async_trait]
impl Retention for Pair {
    async fn erasable_calls(
        &self,
        tenant: &TenantId,
        scope: &ErasureScope,
        limit: usize,
    ) -> Result<ErasableCalls, Error> {
        self.next().erasable_calls(tenant, scope, limit).await
    }

    async fn expired_calls(
        &self,
        before: Timestamp,
        from: u64,
        limit: usize,
    ) -> Result<ExpiredCalls, Error> {
        self.next().expired_calls(before, from, limit).await
    }

    async fn erase_calls(&self, calls: Vec<(CallId, u64)>) -> Result<ErasedCalls, Error> {
        self.next().erase_calls(calls).await
    }

    async fn erase_events(&self, events: ErasedEvents, limit: usize) -> Result<u64, Error> {
        self.next().erase_events(events, limit).await
    }

    async fn erase_decisions(&self, before: Timestamp, limit: usize) -> Result<u64, Error> {
        self.next().erase_decisions(before, limit).await
    }

    async fn count_expired(&self, before: Timestamp) -> Result<(u64, u64), Error> {
        self.next().count_expired(before).await
    }

    async fn erasure(&self, tenant: &TenantId, id: CallId) -> Result<Option<u64>, Error> {
        self.next().erasure(tenant, id).await
    }
}

#[async_trait]
impl Artifacts for Pair {
    async fn change_artifact(
        &self,
        tenant: &TenantId,
        change: ArtifactChange,
    ) -> Result<ArtifactChanged, Error> {
        self.next().change_artifact(tenant, change).await
    }

    async fn artifact(&self, tenant: &TenantId, id: ArtifactId) -> Result<Option<Artifact>, Error> {
        self.next().artifact(tenant, id).await
    }

    async fn artifacts(&self, query: ArtifactQuery) -> Result<ArtifactPage, Error> {
        self.next().artifacts(query).await
    }

    async fn artifact_versions(
        &self,
        tenant: &TenantId,
        id: ArtifactId,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<ArtifactVersion>, Error> {
        self.next().artifact_versions(tenant, id, before, limit).await
    }

    async fn artifact_version(
        &self,
        tenant: &TenantId,
        wanted: ArtifactRef,
    ) -> Result<Option<(ArtifactId, ArtifactVersion)>, Error> {
        self.next().artifact_version(tenant, wanted).await
    }

    async fn labels_of(&self, tenant: &TenantId, content: Digest) -> Result<Vec<String>, Error> {
        self.next().labels_of(tenant, content).await
    }

    async fn verdicts(
        &self,
        tenant: &TenantId,
        id: ArtifactId,
        limit: usize,
    ) -> Result<Vec<ArtifactVerdict>, Error> {
        self.next().verdicts(tenant, id, limit).await
    }

    async fn artifact_totals(&self, tenant: &TenantId) -> Result<ArtifactTotals, Error> {
        self.next().artifact_totals(tenant).await
    }

    async fn lineage(&self, query: LineageQuery) -> Result<Lineage, Error> {
        self.next().lineage(query).await
    }
}

#[async_trait]
impl Memos for Pair {
    async fn remembered(
        &self,
        tenant: &TenantId,
        key: Digest,
        since: Timestamp,
    ) -> Result<Option<Remembered>, Error> {
        self.next().remembered(tenant, key, since).await
    }
}

#[async_trait]
impl Canaries for Pair {
    async fn add_findings(&self, new: NewFindings) -> Result<(), Error> {
        self.next().add_findings(new).await
    }

    async fn findings(
        &self,
        canary: &str,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Findings, Error> {
        self.next().findings(canary, before, limit).await
    }
}

#[async_trait]
impl Metering for Pair {
    async fn add_usage(&self, usage: OtherUsage) -> Result<(), Error> {
        self.next().add_usage(usage).await
    }

    async fn usage(&self, query: UsageQuery) -> Result<Vec<UsageRow>, Error> {
        self.next().usage(query).await
    }

    async fn activity(&self, query: ActivityQuery) -> Result<Vec<ActivityRow>, Error> {
        self.next().activity(query).await
    }
}

#[async_trait]
impl Secrets for Pair {
    async fn set_secret(&self, row: SecretRow) -> Result<(), Error> {
        self.next().set_secret(row).await
    }

    async fn reseal_secret(&self, read: SecretRow, seal: SecretSeal) -> Result<bool, Error> {
        self.next().reseal_secret(read, seal).await
    }

    async fn remove_secret(&self, tenant: &TenantId, name: &SecretName) -> Result<bool, Error> {
        self.next().remove_secret(tenant, name).await
    }

    async fn secret(
        &self,
        tenant: &TenantId,
        name: &SecretName,
    ) -> Result<Option<SecretRow>, Error> {
        self.next().secret(tenant, name).await
    }

    async fn secrets(
        &self,
        tenant: Option<&TenantId>,
        after: Option<(TenantId, SecretName)>,
    ) -> Result<Vec<SecretRow>, Error> {
        self.next().secrets(tenant, after).await
    }
}

#[async_trait]
impl Budgets for Pair {
    async fn set_budget(&self, budget: Budget) -> Result<(), Error> {
        self.next().set_budget(budget).await
    }

    async fn remove_budget(&self, of: BudgetFor) -> Result<bool, Error> {
        self.next().remove_budget(of).await
    }

    async fn budgets(&self, tenant: Option<&TenantId>) -> Result<Vec<Budget>, Error> {
        self.next().budgets(tenant).await
    }
}

#[async_trait]
impl Tools for Pair {
    async fn put_tools(&self, rows: Vec<NewToolRow>, entries: Vec<Sealed>) -> Result<(), Error> {
        let done = self.next().put_tools(rows, entries).await;
        self.settle().await;
        done
    }

    async fn tools_after(&self, revision: u64, limit: usize) -> Result<Vec<(u64, ToolRow)>, Error> {
        self.next().tools_after(revision, limit).await
    }

    async fn tool(&self, digest: Digest) -> Result<Option<(u64, ToolRow)>, Error> {
        self.next().tool(digest).await
    }
}

#[async_trait]
impl McpServers for Pair {
    async fn add_mcp_server(&self, server: McpServer) -> Result<bool, Error> {
        self.next().add_mcp_server(server).await
    }

    async fn remove_mcp_server(&self, name: &ServerName) -> Result<bool, Error> {
        self.next().remove_mcp_server(name).await
    }

    async fn mcp_servers(&self) -> Result<Vec<McpServer>, Error> {
        self.next().mcp_servers().await
    }
}

#[async_trait]
impl ToolData for Pair {
    async fn change_tool_data(&self, change: ToolDataChange) -> Result<ToolDataChanged, Error> {
        self.next().change_tool_data(change).await
    }

    async fn tool_data_names(&self, of: &ToolDataScope) -> Result<Vec<ToolDatumInfo>, Error> {
        self.next().tool_data_names(of).await
    }

    async fn tool_data(
        &self,
        of: &ToolDataScope,
        name: Option<&str>,
    ) -> Result<Vec<ToolDatum>, Error> {
        self.next().tool_data(of, name).await
    }

    async fn remove_tool_data(
        &self,
        tenant: Option<&TenantId>,
        tool: &ToolName,
    ) -> Result<u64, Error> {
        self.next().remove_tool_data(tenant, tool).await
    }

    async fn has_tool_data(&self, tool: &ToolName) -> Result<bool, Error> {
        self.next().has_tool_data(tool).await
    }
}

/// The first process drives all plans.
#[async_trait]
impl Plans for Pair {
    async fn add_plan(&self, plan: PlanRow, events: Vec<PlanEvent>) -> Result<(), Error> {
        self.next().add_plan(plan, events).await
    }

    async fn plan(&self, tenant: &TenantId, id: PlanId) -> Result<Option<PlanRow>, Error> {
        self.stores[0].plan(tenant, id).await
    }

    async fn plans(&self, query: PlanQuery) -> Result<Vec<PlanSummary>, Error> {
        self.next().plans(query).await
    }

    async fn update_plan(&self, plan: PlanRow, events: Vec<PlanEvent>) -> Result<bool, Error> {
        self.next().update_plan(plan, events).await
    }

    async fn plan_events(
        &self,
        tenant: &TenantId,
        id: PlanId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, PlanEvent)>, Error> {
        self.next().plan_events(tenant, id, after, limit).await
    }

    async fn claim_plans(&self, limit: usize) -> Result<Vec<PlanRow>, Error> {
        self.stores[0].claim_plans(limit).await
    }

    async fn remove_plan(&self, tenant: &TenantId, id: PlanId) -> Result<bool, Error> {
        self.next().remove_plan(tenant, id).await
    }
}

#[async_trait]
impl Uploads for Pair {
    async fn add_upload(&self, row: UploadRow, content: Vec<u8>) -> Result<bool, Error> {
        self.next().add_upload(row, content).await
    }

    async fn remove_upload(&self, digest: Digest) -> Result<bool, Error> {
        self.next().remove_upload(digest).await
    }

    async fn uploads_version(&self) -> Result<u64, Error> {
        self.next().uploads_version().await
    }

    async fn uploads(&self, after: Option<Digest>) -> Result<Vec<UploadRow>, Error> {
        self.next().uploads(after).await
    }

    async fn upload_content(&self, digest: Digest) -> Result<Option<Vec<u8>>, Error> {
        self.next().upload_content(digest).await
    }
}

/// The first process answers for both.
#[async_trait]
impl Processes for Pair {
    async fn describe(&self, info: ProcessInfo) -> Result<(), Error> {
        self.stores[0].describe(info).await
    }

    async fn processes(&self) -> Result<Vec<Process>, Error> {
        self.stores[0].processes().await
    }

    async fn owner_of_call(&self, tenant: &TenantId, id: CallId) -> Result<Option<Process>, Error> {
        self.owner(id).owner_of_call(tenant, id).await
    }

    async fn add_sandbox(&self, tenant: &TenantId, id: &str) -> Result<(), Error> {
        self.stores[0].add_sandbox(tenant, id).await
    }

    async fn remove_sandbox(&self, id: &str) -> Result<(), Error> {
        self.stores[0].remove_sandbox(id).await
    }

    async fn owner_of_sandbox(
        &self,
        tenant: &TenantId,
        id: &str,
    ) -> Result<Option<Process>, Error> {
        self.stores[0].owner_of_sandbox(tenant, id).await
    }
}
