//! Lifecycle of tools: their state in the store, followed by every process and enforced at dispatch.
//!
//! The store has one row per tool version that was imported, offered by another server, or switched off.
//! This process keeps all rows in memory and hands them to the registry, whose catalogue has active
//! versions only. Rows that other processes change are found by the growth of the ledger, which has an
//! entry of every change in the same commit.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use ringfence_registry::{DefinedTool, Definition, Entry, Standing};
use ringfence_store::{Error, PAGE, ToolRow};
use ringfence_types::{Digest, Stopper, ToolName, ToolStatus, error_chain};
use tokio::sync::Mutex;

use crate::engine::Inner;

/// Pause after a read that failed.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// State of tools, as this process knows it.
#[derive(Debug, Default)]
pub(crate) struct Lifecycle {
    rows: RwLock<Arc<Rows>>,
    /// Held while rows are read and handed on, so that no older state replaces a newer one.
    turn: Mutex<()>,
}

/// All rows at one moment.
#[derive(Debug, Default, Clone)]
pub(crate) struct Rows {
    by_digest: HashMap<Digest, KnownRow>,
    by_name: HashMap<ToolName, Vec<Digest>>,
    /// Revision of the newest row.
    revision: u64,
}

/// A row with its definition parsed.
#[derive(Debug, Clone)]
pub(crate) struct KnownRow {
    pub(crate) revision: u64,
    pub(crate) row: Arc<ToolRow>,
    defined: Option<Arc<DefinedTool>>,
}

impl Lifecycle {
    pub(crate) fn rows(&self) -> Arc<Rows> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Rows {
    pub(crate) fn get(&self, digest: Digest) -> Option<&KnownRow> {
        self.by_digest.get(&digest)
    }

    /// Rows of one tool, in no order.
    pub(crate) fn named(&self, name: &ToolName) -> impl Iterator<Item = &KnownRow> {
        let digests = self.by_name.get(name).into_iter().flatten();
        digests.filter_map(|digest| self.by_digest.get(digest))
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &KnownRow> {
        self.by_digest.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_digest.len()
    }

    fn put(&mut self, revision: u64, row: ToolRow) {
        let digest = row.tool.digest;
        self.revision = self.revision.max(revision);
        let before = self.by_digest.get(&digest).and_then(|known| known.defined.clone());
        if before.is_none() {
            let names = self.by_name.entry(row.tool.name.clone()).or_default();
            if !names.contains(&digest) {
                names.push(digest);
            }
        }
        let defined = defined(&row, before.as_deref());
        self.by_digest.insert(digest, KnownRow { revision, row: Arc::new(row), defined });
    }

    fn standing(&self) -> Standing {
        let mut standing = Standing::default();
        let mut newest: HashMap<&ToolName, &KnownRow> = HashMap::new();
        for known in self.by_digest.values() {
            match &known.defined {
                Some(defined) => standing.defined.push(defined.clone()),
                None => {
                    let tool = &known.row.tool;
                    standing.statuses.insert(tool.digest, known.row.status);
                    let last = newest.entry(&tool.name).or_insert(known);
                    if last.revision < known.revision {
                        *last = known;
                    }
                }
            }
        }
        standing.defined.sort_by(|one, other| {
            let (one, other) = (&one.tool, &other.tool);
            let names = one.name.cmp(&other.name);
            names.then_with(|| one.digest.as_bytes().cmp(other.digest.as_bytes()))
        });
        for (name, known) in newest {
            if !known.row.status.is_active() {
                // Of files that changed since: whatever it was, it is off until a person switches it on.
                standing.withdrawn.insert(name.clone(), ToolStatus::Disabled);
            }
        }
        standing
    }

    /// Status of a tool by its row, or by that of an earlier version of the same file.
    fn status(&self, entry: &Entry) -> ToolStatus {
        if let Some(known) = self.by_digest.get(&entry.tool.digest) {
            return known.row.status;
        }
        let earlier = self.named(&entry.tool.name).filter(|known| known.defined.is_none());
        match earlier.max_by_key(|known| known.revision) {
            Some(known) if !known.row.status.is_active() => ToolStatus::Disabled,
            _ => ToolStatus::Active,
        }
    }
}

/// The tool as the registry takes it; none if files of the server define it.
fn defined(row: &ToolRow, before: Option<&DefinedTool>) -> Option<Arc<DefinedTool>> {
    let text = row.definition.as_ref()?;
    let definition = match before {
        Some(before) => before.definition.clone(),
        None => match Definition::read(text, row.tool.digest) {
            Ok(definition) => Some(definition),
            Err(problem) => {
                tracing::error!(tool = %row.tool.name, problem, "a stored tool cannot be used");
                None
            }
        },
    };
    Some(Arc::new(DefinedTool {
        tool: row.tool.clone(),
        origin: row.about.origin,
        definition,
        status: row.status,
        grants: row.about.grants.clone().unwrap_or_default(),
        created_at: row.about.created_at,
    }))
}

/// Takes over what changed in the store since the last time.
pub(crate) async fn refresh(inner: &Arc<Inner>) -> Result<(), Error> {
    let _turn = inner.lifecycle.turn.lock().await;
    let mut rows: Option<Rows> = None;
    let mut stopped = Vec::new();
    let mut after = inner.lifecycle.rows().revision;
    loop {
        let page = inner.parts.store.tools_after(after, PAGE).await?;
        let Some((last, _)) = page.last() else { break };
        after = *last;
        let rows = rows.get_or_insert_with(|| (*inner.lifecycle.rows()).clone());
        for (revision, row) in page {
            if row.about.stops_running && !row.status.is_active() {
                stopped.push((row.tool.digest, row.about.by));
            }
            rows.put(revision, row);
        }
    }
    let Some(rows) = rows else { return Ok(()) };
    let standing = rows.standing();
    *inner.lifecycle.rows.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rows);
    let registry = inner.parts.registry.clone();
    let taken = tokio::task::spawn_blocking(move || registry.set_standing(standing)).await;
    taken.map_err(|error| Error::Backend {
        doing: "take over the state of tools",
        source: Box::new(error),
    })?;
    for (digest, by) in stopped {
        stop_running(inner, digest, by.map_or(Stopper::Shutdown, Stopper::Key));
    }
    Ok(())
}

/// Cancels all calls of a version that run or wait in this process.
fn stop_running(inner: &Inner, digest: Digest, by: Stopper) {
    for in_flight in inner.in_flight.all() {
        if in_flight.now().call.asked.tool.digest == digest {
            in_flight.cancel(by);
        }
    }
}

/// Follows changes by other processes until the engine stops.
pub(crate) async fn follow(inner: Arc<Inner>) {
    if !inner.parts.store.is_shared() {
        return;
    }
    let mut grown = inner.parts.store.grown();
    loop {
        grown.mark_unchanged();
        let next = async {
            match refresh(&inner).await {
                Ok(()) => drop(grown.changed().await),
                Err(error) => {
                    let error = error_chain(&error);
                    tracing::warn!(error, "changes of tools by other processes cannot be read");
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        };
        tokio::select! {
            () = inner.stopping.cancelled() => return,
            () = next => {}
        }
    }
}

/// Status that keeps a tool from being called now; none of an active one. Where other processes share the
/// store, the row itself is read: a revocation counts once it is committed.
pub(crate) async fn withdrawn(inner: &Inner, entry: &Entry) -> Result<Option<ToolStatus>, Error> {
    let rows = inner.lifecycle.rows();
    let digest = entry.tool.digest;
    let mut status = rows.status(entry);
    if status.is_active() && inner.parts.store.is_shared() && rows.get(digest).is_some() {
        let row = inner.parts.store.tool(digest).await?;
        status = row.map_or(ToolStatus::Revoked, |(_, row)| row.status);
    }
    Ok((!status.is_active()).then_some(status))
}

/// The tool with the grants of this moment, if they changed since the call was accepted.
pub(crate) fn regranted(inner: &Inner, entry: &Arc<Entry>) -> Option<Arc<Entry>> {
    let catalogue = inner.parts.registry.catalogue();
    let now = catalogue.by_digest(entry.tool.digest)?;
    (now.grants() != entry.grants()).then(|| now.clone())
}
