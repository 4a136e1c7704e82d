//! Findings about canary policies, kept beyond this process.
//!
//! The policy engine counts in memory; new findings are stored about once a second, and before they
//! are shown. A crash loses the findings since the last store.

use std::{collections::HashMap, sync::Arc, time::Duration};

use ringfence_policy::{CanaryReport, Counts, Difference};
use ringfence_store::{Error, Findings, NewFindings};
use ringfence_types::{Timestamp, error_chain};
use tokio::sync::Mutex;

use crate::{Engine, engine::Inner};

/// Stored differences per policy.
const MAX_STORED_DIFFERENCES: u32 = 10_000;

/// Time between two stores.
const STORE_INTERVAL: Duration = Duration::from_secs(1);

/// Counts of each canary when they were last stored.
pub(crate) type StoredCounts = Mutex<HashMap<String, Counts>>;

/// Findings about one canary policy, of this process and earlier ones.
#[derive(Debug)]
pub struct CanaryFindings {
    /// The report; its counts and differences are complete, or one page of them.
    pub report: CanaryReport,
    /// Time of the first finding.
    pub since: Option<Timestamp>,
    /// Start of the next page of differences, if there may be one.
    pub next: Option<u64>,
}

impl Engine {
    /// Findings about all canary policies, or about the named one: each with its newest
    /// differences, or with those before a number.
    pub async fn canaries(
        &self,
        name: Option<&str>,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<CanaryFindings>, Error> {
        store_findings(&self.inner).await?;
        let mut all = Vec::new();
        let is_wanted = |report: &CanaryReport| name.is_none_or(|name| report.name == name);
        for report in self.inner.parts.policy.canaries().into_iter().filter(is_wanted) {
            let found = self.inner.parts.store.findings(&report.name, before, limit).await?;
            all.push(tried(report, found, limit));
        }
        Ok(all)
    }
}

fn tried(mut report: CanaryReport, found: Findings, limit: usize) -> CanaryFindings {
    let is_page = found.differences.len() >= limit;
    let next = found.differences.last().map(|(number, _)| *number).filter(|_| is_page);
    let read = |(_, text): &(u64, String)| serde_json::from_str::<Difference>(text).ok();
    report.differences = found.differences.iter().filter_map(read).collect();
    report.counts = counts(&found.counts);
    CanaryFindings { report, since: found.since, next }
}

/// Stores new findings until the engine stops, and the last ones then.
pub(crate) async fn run(inner: Arc<Inner>) {
    let mut found = inner.parts.policy.found();
    loop {
        let is_over = tokio::select! {
            () = inner.stopping.cancelled() => true,
            more = found.changed() => more.is_err(),
        };
        if let Err(error) = store_findings(&inner).await {
            let error = error_chain(&error);
            tracing::warn!(error, "what was found about a tried policy is not kept yet");
        }
        if is_over {
            return;
        }
        tokio::select! {
            () = inner.stopping.cancelled() => {}
            () = tokio::time::sleep(STORE_INTERVAL) => {}
        }
    }
}

/// Stores the findings since the last store.
async fn store_findings(inner: &Inner) -> Result<(), Error> {
    let mut canary_counts = inner.canary_counts.lock().await;
    for report in inner.parts.policy.canaries() {
        let mark = canary_counts.get(&report.name).copied().unwrap_or_default();
        if mark == report.counts {
            continue;
        }
        let more = report.counts.different - mark.different;
        let newest = report.differences.iter().take(usize::try_from(more).unwrap_or(usize::MAX));
        let mut differences: Vec<_> =
            newest.filter_map(|one| serde_json::to_string(one).ok()).collect();
        differences.reverse();
        let new = NewFindings {
            canary: report.name.clone(),
            at: inner.parts.clock.now(),
            counts: since(report.counts, mark),
            differences,
            most: MAX_STORED_DIFFERENCES,
        };
        inner.parts.store.add_findings(new).await?;
        canary_counts.insert(report.name, report.counts);
    }
    Ok(())
}

/// Differences of the counts, in the order of their columns.
fn since(now: Counts, then: Counts) -> Vec<u64> {
    vec![
        now.same - then.same,
        now.different - then.different,
        now.unavailable - then.unavailable,
        now.left_out - then.left_out,
    ]
}

fn counts(kept: &[u64]) -> Counts {
    let at = |index: usize| kept.get(index).copied().unwrap_or(0);
    Counts { same: at(0), different: at(1), unavailable: at(2), left_out: at(3) }
}
