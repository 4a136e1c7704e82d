//! Ledger entries about tools that are added, changed and removed: the meaning of the tool digests
//! in receipts, and since when.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ringfence_ledger::{Entry, ToolChange, ToolEvent, said_in};
use ringfence_registry::Catalogue;
use ringfence_store::Error;
use ringfence_types::{EntryKind, Timestamp, ToolName, ToolRef, error_chain};

use super::{Ledger, all, of_kind};
use crate::engine;

/// Delay after a change that could not be recorded.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Tools by name and version, with their origin.
type Known = BTreeMap<(ToolName, String), (ToolRef, String)>;

/// Tools that are on record: at first those that the ledger lists as present, then those of this process.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    known: Known,
    /// Whether they are those of this process. Another process on the same store may have further ones.
    is_own: bool,
}

impl Tools {
    /// The tools by the entries so far.
    pub(crate) async fn recorded(ledger: &Ledger) -> Result<Self, Error> {
        let entries = all(ledger.store(), of_kind(EntryKind::Tool), usize::MAX).await?;
        let mut known = Self::default();
        for change in entries.iter().filter_map(|placed| said_in(&placed.sealed)) {
            known.apply(change);
        }
        Ok(known)
    }

    fn apply(&mut self, change: ToolChange) {
        let ToolChange { event, tool, origin, .. } = change;
        let name = (tool.name.clone(), tool.version.clone());
        match event {
            ToolEvent::Removed => drop(self.known.remove(&name)),
            ToolEvent::Added | ToolEvent::Changed => drop(self.known.insert(name, (tool, origin))),
        }
    }

    /// Records the changes since.
    pub(crate) async fn record(
        &mut self,
        ledger: &Ledger,
        catalogue: &Catalogue,
        at: Timestamp,
    ) -> Result<(), Error> {
        let now = Self::of(catalogue);
        let mut changes = self.differences(&now);
        if ledger.store().is_shared() && !changes.is_empty() {
            // Tools that this process never had are those of others, and others may have been faster.
            let recorded = Self::recorded(ledger).await?;
            changes.retain(|change| match change.event {
                ToolEvent::Removed => self.is_own && recorded.has(&change.tool),
                ToolEvent::Added | ToolEvent::Changed => !recorded.has(&change.tool),
            });
        }
        let entries = changes.iter().map(|change| Entry::tool(at, change)).collect();
        ledger.append(entries).await?;
        *self = now;
        Ok(())
    }

    fn of(catalogue: &Catalogue) -> Self {
        // Tools of files, switched off or not; the lifecycle of others has entries of its own.
        let inactive = catalogue.inactive().iter().filter_map(|inactive| inactive.entry.as_ref());
        let tools = catalogue.entries().iter().chain(inactive).map(|entry| &entry.tool);
        let tools = tools.filter(|tool| tool.origin.is_born_active());
        let named = tools.map(|tool| {
            let name = (tool.name.clone(), tool.version.clone());
            (name, (tool.reference(), tool.origin.name().to_owned()))
        });
        Self { known: named.collect(), is_own: true }
    }

    /// Whether exactly this tool is among them.
    fn has(&self, tool: &ToolRef) -> bool {
        let name = (tool.name.clone(), tool.version.clone());
        self.known.get(&name).is_some_and(|(known, _)| known.digest == tool.digest)
    }

    fn differences(&self, now: &Self) -> Vec<ToolChange> {
        let gone = self.known.iter().filter(|(name, _)| !now.known.contains_key(*name));
        let gone = gone.map(|(_, (tool, origin))| ToolChange {
            event: ToolEvent::Removed,
            tool: tool.clone(),
            origin: origin.clone(),
            before: None,
        });
        let here = now.known.iter().filter_map(|(name, (tool, origin))| {
            let before = self.known.get(name).map(|(tool, _)| tool.digest);
            let event = match before {
                None => ToolEvent::Added,
                Some(digest) if digest != tool.digest => ToolEvent::Changed,
                Some(_) => return None,
            };
            Some(ToolChange { event, tool: tool.clone(), origin: origin.clone(), before })
        });
        gone.chain(here).collect()
    }
}

/// Follows the catalogue until the engine stops.
pub(crate) async fn run(inner: Arc<engine::Inner>, mut known: Tools) {
    let parts = &inner.parts;
    let mut changes = parts.registry.changes();
    loop {
        changes.mark_unchanged();
        let catalogue = parts.registry.catalogue();
        let recorded = known.record(&parts.ledger, &catalogue, parts.clock.now()).await;
        let next = async {
            match recorded {
                Ok(()) => drop(changes.changed().await),
                Err(error) => {
                    let error = error_chain(&error);
                    tracing::warn!(error, "a change of the tools is not on the ledger yet");
                    tokio::time::sleep(RETRY_DELAY).await;
                }
            }
        };
        tokio::select! {
            () = next => {}
            () = inner.stopping.cancelled() => return,
        }
    }
}
