//! What is counted and timed, under the names that dashboards of the originals know and under
//! those their documents promised. No tenant, argument or call id is ever a label.

use std::sync::atomic::AtomicI64;

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use ringfence_types::{Asked, Decision, Finished, Produced, Verdict};

/// Labels: tool and outcome.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ToolOutcome {
    tool: String,
    outcome: String,
}

/// Labels: tool and decision.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ToolDecision {
    tool: String,
    decision: &'static str,
}

/// Label: tool.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfTool {
    tool: String,
}

/// Labels: tool and reason.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ToolReason {
    tool: String,
    reason: String,
}

/// Label: result.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfResult {
    result: &'static str,
}

type Timing = Family<OfTool, Histogram, fn() -> Histogram>;

/// The engine's own metrics.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: Family<ToolOutcome, Counter>,
    decisions: Family<ToolDecision, Counter>,
    seconds: Timing,
    seconds_as_promised: Timing,
    requeued: Family<ToolReason, Counter>,
    blocked: Family<OfTool, Counter>,
    pending: Gauge<i64, AtomicI64>,
    published: Family<OfResult, Counter>,
    running: Gauge<i64, AtomicI64>,
    waiting: Gauge<i64, AtomicI64>,
}

fn buckets() -> Histogram {
    Histogram::new([
        0.000_1, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
        10.0, 30.0, 60.0, 300.0,
    ])
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let timing = || Timing::new_with_constructor(buckets);
        let mut metrics = Self {
            registry: Registry::default(),
            requests: Family::default(),
            decisions: Family::default(),
            seconds: timing(),
            seconds_as_promised: timing(),
            requeued: Family::default(),
            blocked: Family::default(),
            pending: Gauge::default(),
            published: Family::default(),
            running: Gauge::default(),
            waiting: Gauge::default(),
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
        to.register(
            "tool_executor_execution_seconds",
            "Time from dispatch to result",
            self.seconds.clone(),
        );
        to.register(
            "tool_execution_duration_seconds",
            "Time from dispatch to result",
            self.seconds_as_promised.clone(),
        );
        to.register("tool_executor_requeue", "Calls held, by tool and rule", self.requeued.clone());
        to.register("policy_blocked", "Calls held or denied by policy", self.blocked.clone());
        to.register("requeue_pending", "Calls held now", self.pending.clone());
        to.register("requeue_pending_total", "Calls held now", self.pending.clone());
        to.register("durable_publish", "Messages published", self.published.clone());
        to.register("calls_running", "Calls in sandboxes now", self.running.clone());
        to.register("calls_waiting", "Calls waiting for a sandbox", self.waiting.clone());
    }

    pub(crate) fn decided(&self, asked: &Asked, decision: &Decision) {
        let tool = asked.tool.name.to_string();
        let answer = match decision.verdict {
            Verdict::Allow => "allowed",
            Verdict::Hold => "held",
            Verdict::Deny => "denied",
        };
        self.decisions.get_or_create(&ToolDecision { tool: tool.clone(), decision: answer }).inc();
        if decision.verdict != Verdict::Allow {
            self.blocked.get_or_create(&OfTool { tool: tool.clone() }).inc();
        }
        if decision.verdict == Verdict::Hold {
            let reason = decision.reasons.first().map_or("", |reason| reason.rule.as_str());
            self.requeued.get_or_create(&ToolReason { tool, reason: reason.to_owned() }).inc();
        }
    }

    pub(crate) fn finished(&self, asked: &Asked, finished: &Finished) {
        let tool = asked.tool.name.to_string();
        let outcome = match &finished.produced {
            Produced::Result(_) => "success".to_owned(),
            Produced::Error(error) => error.code.clone(),
        };
        self.requests.get_or_create(&ToolOutcome { tool: tool.clone(), outcome }).inc();
        let seconds = finished.duration.as_secs_f64();
        self.seconds.get_or_create(&OfTool { tool: tool.clone() }).observe(seconds);
        self.seconds_as_promised.get_or_create(&OfTool { tool }).observe(seconds);
    }

    /// A request that was refused before it became a call.
    pub fn refused(&self, tool: &str, code: &str) {
        let labels = ToolOutcome { tool: tool.to_owned(), outcome: code.to_owned() };
        self.requests.get_or_create(&labels).inc();
    }

    pub(crate) fn published(&self, worked: bool, messages: usize) {
        let result = if worked { "published" } else { "failed" };
        self.published.get_or_create(&OfResult { result }).inc_by(messages as u64);
    }

    pub(crate) fn held(&self, change: i64) {
        self.pending.inc_by(change);
    }

    /// In the text format of OpenMetrics.
    pub fn text(&self, (running, waiting): (usize, usize)) -> String {
        self.running.set(i64::try_from(running).unwrap_or(i64::MAX));
        self.waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
