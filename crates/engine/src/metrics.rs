//! Counters and timers, under the names that dashboards of *SomaAgent 01* use and under the
//! documented ones. No tenant, argument or call id is ever a label, and no label has more values
//! than [`MAX_LABEL_NAMES`].

mod labels;
mod scrape;
mod sdk;
mod tool;

use std::{
    collections::HashMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicI64, Ordering},
    },
};

use prometheus_client::{
    encoding::text::encode,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use ringfence_types::{Asked, Decision, Finished, Produced, ToolName, Verdict};

use self::{
    labels::{
        Names, RecordLabel, ResultLabel, ToolDecision, ToolLabel, ToolLookup, ToolOutcome,
        ToolReason,
    },
    scrape::Scraped,
    sdk::SdkMetrics,
    tool::{Timing, ToolMetrics},
};
use crate::{ErasedRecords, engine::Inner};

/// Tools, and rules that held calls, with labels of their own. Skills come and go, and each label
/// stays for the life of the process.
const MAX_LABEL_NAMES: usize = 500;

/// Label of all further names.
const OTHER_LABEL: &str = "other";

/// The engine's own metrics.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: Family<ToolOutcome, Counter>,
    decisions: Family<ToolDecision, Counter>,
    seconds: Timing,
    seconds_as_promised: Timing,
    inflight: Family<ToolLabel, Gauge>,
    requeued: Family<ToolReason, Counter>,
    blocked: Family<ToolLabel, Counter>,
    pending: Gauge<i64, AtomicI64>,
    published: Family<ResultLabel, Counter>,
    /// Time of the oldest fact that is not published, in microseconds; 0 if all are.
    oldest_unpublished: AtomicI64,
    memo: Family<ToolLookup, Counter>,
    retries: Family<ToolLabel, Counter>,
    erased: Family<RecordLabel, Counter>,
    /// Requests of programs in sandboxes.
    pub(crate) sdk: SdkMetrics,
    scraped: Scraped,
    /// Tools whose requests were refused.
    refused: Names,
    /// Metrics by tool, so that a call looks its tool up once.
    tools: RwLock<HashMap<String, Arc<ToolMetrics>>>,
}

impl Metrics {
    pub(crate) fn new(mut registry: Registry) -> Self {
        let timing = || Timing::new_with_constructor(tool::buckets);
        let scraped = Scraped::register(&mut registry);
        let sdk = SdkMetrics::register(&mut registry);
        let mut metrics = Self {
            registry,
            requests: Family::default(),
            decisions: Family::default(),
            seconds: timing(),
            seconds_as_promised: timing(),
            inflight: Family::default(),
            requeued: Family::default(),
            blocked: Family::default(),
            pending: Gauge::default(),
            published: Family::default(),
            oldest_unpublished: AtomicI64::new(0),
            memo: Family::default(),
            retries: Family::default(),
            erased: Family::default(),
            sdk,
            scraped,
            refused: Names::default(),
            tools: RwLock::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let to = &mut self.registry;
        // The library appends `_total` to counters.
        to.register("tool_executor_requests", "Calls by tool and outcome", self.requests.clone());
        to.register(
            "tool_executor_policy_decisions",
            "Policy decisions by tool and answer",
            self.decisions.clone(),
        );
        let about = "Time from dispatch to result";
        to.register("tool_executor_execution_seconds", about, self.seconds.clone());
        to.register("tool_execution_duration_seconds", about, self.seconds_as_promised.clone());
        to.register("tool_executor_inflight", "Tools that run now", self.inflight.clone());
        to.register("tool_executor_requeue", "Calls held, by tool and rule", self.requeued.clone());
        to.register("policy_blocked", "Calls held or denied by policy", self.blocked.clone());
        to.register("requeue_pending", "Calls held now", self.pending.clone());
        to.register("requeue_pending_total", "Calls held now", self.pending.clone());
        let about = "Lookups of remembered results by tool and result";
        to.register("tool_memo_lookups", about, self.memo.clone());
        let about = "Further tries of pure calls whose sandbox failed";
        to.register("tool_retries", about, self.retries.clone());
        to.register("records_erased", "Erased records by kind", self.erased.clone());
        to.register("durable_publish", "Messages published", self.published.clone());
    }

    /// Metrics of a tool.
    pub(crate) fn tool(&self, name: &str) -> Arc<ToolMetrics> {
        let known = self.tools.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(tool) = known.get(name) {
            return tool.clone();
        }
        let is_full = known.len() >= MAX_LABEL_NAMES;
        drop(known);
        let name = if is_full { OTHER_LABEL } else { name };
        let mut known = self.tools.write().unwrap_or_else(PoisonError::into_inner);
        let made = || Arc::new(ToolMetrics::new(self, name));
        known.entry(name.to_owned()).or_insert_with(made).clone()
    }

    pub(crate) fn decided(&self, asked: &Asked, decision: &Decision) {
        let tool = self.tool(asked.tool.name.as_str());
        let rule = decision.reasons.first().map_or("", |reason| reason.rule.as_str());
        let answer = match decision.verdict {
            Verdict::Allow => {
                tool.allowed.inc();
                return;
            }
            Verdict::Hold if rule == ringfence_policy::POLICY_UNAVAILABLE => "error",
            Verdict::Hold => "held",
            Verdict::Deny => "denied",
        };
        let name = tool.name.clone();
        self.decisions.get_or_create(&ToolDecision { tool: name.clone(), decision: answer }).inc();
        self.blocked.get_or_create(&ToolLabel { tool: name.clone() }).inc();
        if decision.verdict == Verdict::Hold {
            let reason = self.scraped.rules.name(rule);
            self.requeued.get_or_create(&ToolReason { tool: name, reason }).inc();
        }
    }

    pub(crate) fn erased(&self, erased: &ErasedRecords) {
        let ErasedRecords { calls, events, decisions, blobs, .. } = *erased;
        let counts = [("call", calls), ("event", events), ("decision", decisions), ("blob", blobs)];
        for (kind, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            self.erased.get_or_create(&RecordLabel { kind }).inc_by(count);
        }
    }

    pub(crate) fn finished(&self, asked: &Asked, finished: &Finished) {
        let tool = self.tool(asked.tool.name.as_str());
        match &finished.produced {
            Produced::Result(_) => tool.succeeded.inc(),
            Produced::Error(error) => {
                let labels =
                    ToolOutcome { tool: tool.name.clone(), outcome: error.code.to_string() };
                self.requests.get_or_create(&labels).inc()
            }
        };
        // No tool ran, so there is no duration.
        if finished.memoised.is_none() {
            tool.took(finished.duration);
        }
    }

    /// Counts a memo lookup: `hit`, `miss`, or `fresh` if the caller asked for a run.
    pub(crate) fn looked_up(&self, tool: &ToolName, result: &'static str) {
        let tool = self.tool(tool.as_str()).name.clone();
        self.memo.get_or_create(&ToolLookup { tool, result }).inc();
    }

    /// Counts a retry of a pure call.
    pub(crate) fn retried(&self, tool: &ToolName) {
        let tool = self.tool(tool.as_str()).name.clone();
        self.retries.get_or_create(&ToolLabel { tool }).inc();
    }

    /// Counts a request that was refused before it became a call.
    pub fn refused(&self, tool: &str, code: &str) {
        // Only this counter: nothing ran.
        let labels = ToolOutcome { tool: self.refused.name(tool), outcome: code.to_owned() };
        self.requests.get_or_create(&labels).inc();
    }

    pub(crate) fn published(&self, worked: bool, messages: usize) {
        let result = if worked { "published" } else { "failed" };
        self.published.get_or_create(&ResultLabel { result }).inc_by(messages as u64);
    }

    /// Notes that these commits are being published. Those that failed before keep their time.
    pub(crate) fn outbox_began(&self, commits: &[Arc<ringfence_store::Commit>]) {
        let times = commits.iter().flat_map(|commit| &commit.facts).map(|fact| fact.at.as_micros());
        let oldest = times.min().unwrap_or(0);
        self.oldest_unpublished.store(oldest, Ordering::Relaxed);
    }

    /// Notes that the commits of the last round are published.
    pub(crate) fn outbox_published(&self) {
        self.oldest_unpublished.store(0, Ordering::Relaxed);
    }

    /// Time of the oldest fact that is being published, in microseconds; 0 if there is none.
    fn oldest_unpublished(&self) -> i64 {
        self.oldest_unpublished.load(Ordering::Relaxed)
    }

    pub(crate) fn held(&self, change: i64) {
        self.pending.inc_by(change);
    }

    /// In the text format of OpenMetrics.
    pub(crate) fn text(&self, inner: &Inner) -> String {
        self.scraped.look(inner);
        self.scraped.look_at_outbox(inner, self.oldest_unpublished());
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_bound_are_counted_together() {
        let metrics = Metrics::new(Registry::default());
        for number in 0..MAX_LABEL_NAMES + 50 {
            metrics.refused(&format!("tool-{number}"), "invalid");
            metrics.tool(&format!("tool-{number}")).allowed.inc();
        }
        let mut text = String::new();
        encode(&mut text, &metrics.registry).unwrap();
        for (name, labels) in [
            ("tool_executor_requests_total", "outcome=\"invalid\""),
            ("tool_executor_policy_decisions_total", "decision=\"allowed\""),
        ] {
            let lines = text.lines().filter(|line| line.starts_with(name) && line.contains(labels));
            assert_eq!(lines.count(), MAX_LABEL_NAMES + 1, "{name}");
            let other = format!("{name}{{tool=\"other\",{labels}}} 50");
            assert!(text.contains(&other), "{other}");
        }
    }
}
