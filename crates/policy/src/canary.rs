//! Candidate policies, evaluated beside the policy in force.
//!
//! A candidate judges the same documents off the call path: each document goes into a bounded
//! queue, or is counted as left out. Its answers are compared with those in force and have no other
//! effect.
//!
//! Invariant: no answer depends on a candidate.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use ringfence_types::{CallId, Digest, Reason, TenantId, Timestamp, ToolName, Verdict};
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};

use crate::{
    Answer, Bundle, Engine, Input, POLICY_UNAVAILABLE, Part, Status, Unavailable,
    change_feed::ChangeFeed,
};

/// Documents that may wait for one candidate.
const MAX_QUEUED: usize = 1024;
/// Differences kept per candidate; the newest win.
const MAX_DIFFERENCES: usize = 500;

/// Candidate policy with the tenants it is tried on.
#[derive(Debug, Clone)]
pub struct Canary {
    /// Name in lists.
    pub name: String,
    /// Tenants whose calls it judges; empty means all.
    pub tenants: Vec<TenantId>,
    /// Engine under trial.
    pub candidate: Arc<dyn Engine>,
    /// Whether calls of exactly these tenants run while the policy in force gives no answer.
    pub fail_open: bool,
}

/// Results of one candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CanaryReport {
    /// Name in lists.
    pub name: String,
    /// Name of the candidate engine.
    pub candidate: String,
    /// Revision of the candidate's rules.
    pub revision: Digest,
    /// Tenants whose calls it judges; empty means all.
    pub tenants: Vec<TenantId>,
    /// Whether calls of these tenants run while the policy in force gives no answer.
    pub fail_open: bool,
    /// Number of documents by result.
    pub counts: Counts,
    /// Differences, newest first, at most 500.
    pub differences: Vec<Difference>,
}

/// Number of documents by result of the comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Same verdict as the policy in force.
    pub same: u64,
    /// Different verdict.
    pub different: u64,
    /// No answer from the candidate.
    pub unavailable: u64,
    /// Not asked, because its queue was full.
    pub left_out: u64,
}

/// Call about which the two policies differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Time of the evaluation.
    pub at: Timestamp,
    /// The call.
    pub call_id: CallId,
    /// Tenant of the call.
    pub tenant: TenantId,
    /// Tool of the call.
    pub tool: ToolName,
    /// Answer of the policy in force.
    pub enforced: Side,
    /// Answer of the candidate.
    pub candidate: Side,
}

/// Answer of one of the two policies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// The verdict.
    pub verdict: Verdict,
    /// Reasons for the verdict.
    pub reasons: Vec<Reason>,
    /// Digest of the rules.
    pub policy: Digest,
}

/// Policy in force with candidates evaluated beside it.
#[derive(Debug)]
pub struct Shadowed {
    enforced: Arc<dyn Engine>,
    canaries: Vec<Arc<Watched>>,
    fail_open: Vec<TenantId>,
    changes: ChangeFeed,
    found: Arc<watch::Sender<u64>>,
    /// One task per candidate; dropped with this value.
    _judging: JoinSet<()>,
}

#[derive(Debug)]
struct Watched {
    canary: Canary,
    queue: mpsc::Sender<Box<Question>>,
    found: Mutex<Found>,
    /// Counter that grows with every answer.
    changes: Arc<watch::Sender<u64>>,
}

#[derive(Debug, Default)]
struct Found {
    counts: Counts,
    differences: VecDeque<Difference>,
}

#[derive(Debug)]
struct Question {
    input: Input,
    enforced: Option<Answer>,
    policy: Digest,
}

impl Shadowed {
    /// Starts one task per candidate. Needs a runtime.
    pub fn new(enforced: Arc<dyn Engine>, canaries: Vec<Canary>) -> Self {
        let open = canaries.iter().filter(|canary| canary.fail_open);
        let fail_open = open.flat_map(|canary| canary.tenants.clone()).collect();
        let mut judging = JoinSet::new();
        let found = Arc::new(watch::Sender::new(0));
        let start = |canary| start(canary, found.clone(), &mut judging);
        let canaries = canaries.into_iter().map(start).collect();
        let changes = ChangeFeed::of([&enforced]);
        Self { enforced, canaries, fail_open, changes, found, _judging: judging }
    }
}

fn start(
    canary: Canary,
    changes: Arc<watch::Sender<u64>>,
    judging: &mut JoinSet<()>,
) -> Arc<Watched> {
    let (queue, waiting) = mpsc::channel(MAX_QUEUED);
    let watched = Arc::new(Watched { canary, queue, found: Mutex::default(), changes });
    judging.spawn(judge(watched.clone(), waiting));
    watched
}

async fn judge(watched: Arc<Watched>, mut waiting: mpsc::Receiver<Box<Question>>) {
    while let Some(question) = waiting.recv().await {
        let answer = watched.canary.candidate.evaluate(&question.input).await;
        watched.compare(*question, answer);
        watched.changes.send_modify(|tick| *tick += 1);
    }
}

impl Watched {
    fn wants(&self, input: &Input) -> bool {
        self.canary.tenants.is_empty() || self.canary.tenants.contains(&input.tenant)
    }

    fn ask(&self, question: Question) {
        if self.queue.try_send(Box::new(question)).is_err() {
            self.found().counts.left_out += 1;
        }
    }

    fn compare(&self, question: Question, answer: Result<Answer, Unavailable>) {
        let candidate = match answer {
            Ok(answer) => answer,
            Err(unavailable) => {
                let name = &self.canary.name;
                tracing::info!(canary = name, error = %unavailable, "a candidate policy gave no answer");
                self.found().counts.unavailable += 1;
                return;
            }
        };
        let same = |enforced: &Answer| {
            enforced.verdict == candidate.verdict && enforced.obligations == candidate.obligations
        };
        if question.enforced.as_ref().is_some_and(same) {
            self.found().counts.same += 1;
            return;
        }
        self.differs(question, candidate);
    }

    fn differs(&self, question: Question, candidate: Answer) {
        let Question { input, enforced, policy } = question;
        let difference = Difference {
            at: input.time,
            call_id: input.call_id,
            tenant: input.tenant,
            tool: input.tool.name,
            enforced: enforced.map_or_else(|| Side::without_answer(policy), Side::from),
            candidate: Side::from(candidate),
        };
        tracing::info!(
            canary = self.canary.name,
            call_id = %difference.call_id,
            tenant = %difference.tenant,
            tool = %difference.tool,
            enforced = difference.enforced.verdict.name(),
            candidate = difference.candidate.verdict.name(),
            "a candidate policy differs"
        );
        let mut found = self.found();
        found.counts.different += 1;
        found.differences.truncate(MAX_DIFFERENCES - 1);
        found.differences.push_front(difference);
    }

    fn report(&self) -> CanaryReport {
        let Canary { name, tenants, candidate, fail_open } = &self.canary;
        let found = self.found();
        CanaryReport {
            name: name.clone(),
            candidate: candidate.name().to_owned(),
            revision: candidate.revision(),
            tenants: tenants.clone(),
            fail_open: *fail_open,
            counts: found.counts,
            differences: found.differences.iter().cloned().collect(),
        }
    }

    fn found(&self) -> std::sync::MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Side {
    /// Side of an engine without an answer: the call was held.
    fn without_answer(policy: Digest) -> Self {
        let message = "the policy in force gave no answer".to_owned();
        let reasons = vec![Reason { rule: POLICY_UNAVAILABLE.to_owned(), message }];
        Self { verdict: Verdict::Hold, reasons, policy }
    }
}

impl From<Answer> for Side {
    fn from(answer: Answer) -> Self {
        let Answer { verdict, reasons, policy, .. } = answer;
        Self { verdict, reasons, policy }
    }
}

#[async_trait]
impl Engine for Shadowed {
    fn name(&self) -> &str {
        self.enforced.name()
    }

    fn revision(&self) -> Digest {
        self.enforced.revision()
    }

    fn bundle(&self) -> Option<Arc<Bundle>> {
        self.enforced.bundle()
    }

    async fn evaluate(&self, input: &Input) -> Result<Answer, Unavailable> {
        let answer = self.enforced.evaluate(input).await;
        for watched in self.canaries.iter().filter(|watched| watched.wants(input)) {
            let enforced = answer.as_ref().ok().cloned();
            let policy = self.enforced.revision();
            watched.ask(Question { input: input.clone(), enforced, policy });
        }
        answer
    }

    fn answering(&self, input: &Input) -> String {
        self.enforced.answering(input)
    }

    fn parts(&self, input: &Input) -> Vec<Part> {
        self.enforced.parts(input)
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Status of the engine in force and of the candidates: a stale or unreachable candidate proves nothing.
    fn status(&self) -> Vec<Status> {
        let named = |watched: &Arc<Watched>| {
            let canary = &watched.canary;
            let status = canary.candidate.status().into_iter();
            let name = format!("canary {}", canary.name);
            status.map(move |status| Status { engine: name.clone(), ..status }).collect::<Vec<_>>()
        };
        let candidates = self.canaries.iter().flat_map(named);
        self.enforced.status().into_iter().chain(candidates).collect()
    }

    fn canaries(&self) -> Vec<CanaryReport> {
        self.canaries.iter().map(|watched| watched.report()).collect()
    }

    fn found(&self) -> watch::Receiver<u64> {
        self.found.subscribe()
    }

    fn fail_open(&self) -> Vec<TenantId> {
        self.fail_open.clone()
    }
}
