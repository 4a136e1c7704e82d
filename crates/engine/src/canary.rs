//! What was found about policies that are tried, kept beyond this process.
//!
//! The policy finds and counts in memory; what is new is put on record about once a second, and before
//! anybody is shown it. A crash loses what was found since.

use std::{collections::HashMap, sync::Arc, time::Duration};

use ringfence_policy::{CanaryReport, Counts, Difference};
use ringfence_store::{Error, Findings, NewFindings};
use ringfence_types::Timestamp;
use tokio::sync::Mutex;

use crate::{Engine, dispatch::chain, engine::Inner};

/// Most differences kept of one policy.
const MOST: u32 = 10_000;

/// Not more often than this.
const PAUSE: Duration = Duration::from_secs(1);

/// What was counted of each when it was last put on record.
pub(crate) type Marks = Mutex<HashMap<String, Counts>>;

/// What was found about one policy that is tried, in this process and before.
#[derive(Debug)]
pub struct Tried {
    /// As it is; its counts and differences are all there are, or a page of them.
    pub report: CanaryReport,
    /// When the first of it was found.
    pub since: Option<Timestamp>,
    /// For the next page of differences, if there may be one.
    pub next: Option<u64>,
}

impl Engine {
    /// What was found about the policies that are tried, or the one of a name: each with its newest
    /// differences, or with those before a number.
    pub async fn canaries(
        &self,
        name: Option<&str>,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Tried>, Error> {
        keep(&self.inner).await?;
        let mut all = Vec::new();
        let is_wanted = |report: &CanaryReport| name.is_none_or(|name| report.name == name);
        for report in self.inner.parts.policy.canaries().into_iter().filter(is_wanted) {
            let found = self.inner.parts.store.findings(&report.name, before, limit).await?;
            all.push(tried(report, found, limit));
        }
        Ok(all)
    }
}

fn tried(mut report: CanaryReport, found: Findings, limit: usize) -> Tried {
    let is_page = found.differences.len() >= limit;
    let next = found.differences.last().map(|(number, _)| *number).filter(|_| is_page);
    let read = |(_, text): &(u64, String)| serde_json::from_str::<Difference>(text).ok();
    report.differences = found.differences.iter().filter_map(read).collect();
    report.counts = counts(&found.counts);
    Tried { report, since: found.since, next }
}

/// Keeps what is found until the engine stops, and the last of it then.
pub(crate) async fn run(inner: Arc<Inner>) {
    let mut found = inner.parts.policy.found();
    loop {
        let is_over = tokio::select! {
            () = inner.stopping.cancelled() => true,
            more = found.changed() => more.is_err(),
        };
        if let Err(error) = keep(&inner).await {
            let error = chain(&error);
            tracing::warn!(error, "what was found about a tried policy is not kept yet");
        }
        if is_over {
            return;
        }
        tokio::select! {
            () = inner.stopping.cancelled() => {}
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

/// Puts on record what was found since it was last done.
async fn keep(inner: &Inner) -> Result<(), Error> {
    let mut marks = inner.marks.lock().await;
    for report in inner.parts.policy.canaries() {
        let mark = marks.get(&report.name).copied().unwrap_or_default();
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
            most: MOST,
        };
        inner.parts.store.add_findings(new).await?;
        marks.insert(report.name, report.counts);
    }
    Ok(())
}

/// In the order in which they are kept.
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
