//! Policies that are tried beside the one in force.
//!
//! A candidate judges the same documents, off the path of the calls: its question goes into a bounded
//! queue, or is counted as left out. What it says is compared with what was in force, and changes
//! nothing.
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
    Answer, Bundle, Engine, Input, POLICY_UNAVAILABLE, Part, Status, Unavailable, ticks::Ticks,
};

/// Most documents that wait for one candidate.
const QUEUE: usize = 1024;
/// Most differences kept of one candidate; the newest.
const KEPT: usize = 500;

/// A policy to be tried.
#[derive(Debug, Clone)]
pub struct Canary {
    /// What it is called in lists.
    pub name: String,
    /// Whose calls it judges; everybody's if there is none.
    pub tenants: Vec<TenantId>,
    /// What is tried.
    pub candidate: Arc<dyn Engine>,
    /// Whether calls of exactly these tenants run while the policy in force gives no answer.
    pub fail_open: bool,
}

/// What was found about one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CanaryReport {
    /// What it is called.
    pub name: String,
    /// The engine that is tried.
    pub candidate: String,
    /// Of its rules.
    pub revision: Digest,
    /// Whose calls it judges; everybody's if there is none.
    pub tenants: Vec<TenantId>,
    /// Whether calls of these tenants run while the policy in force gives no answer.
    pub fail_open: bool,
    /// What came of its questions.
    pub counts: Counts,
    /// The newest differences first, at most 500.
    pub differences: Vec<Difference>,
}

/// What came of the questions to a candidate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// It says the same.
    pub same: u64,
    /// It says something else.
    pub different: u64,
    /// It gave no answer.
    pub unavailable: u64,
    /// It was not asked, because too many waited.
    pub left_out: u64,
}

/// A call about which two policies differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// When it was judged.
    pub at: Timestamp,
    /// Which call.
    pub call_id: CallId,
    /// Whose.
    pub tenant: TenantId,
    /// Of which tool.
    pub tool: ToolName,
    /// What was in force.
    pub enforced: Side,
    /// What was tried.
    pub candidate: Side,
}

/// What one of two policies says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// The answer.
    pub verdict: Verdict,
    /// Why.
    pub reasons: Vec<Reason>,
    /// Of the rules.
    pub policy: Digest,
}

/// The policy in force, with others tried beside it.
#[derive(Debug)]
pub struct Shadowed {
    enforced: Arc<dyn Engine>,
    canaries: Vec<Arc<Watched>>,
    fail_open: Vec<TenantId>,
    ticks: Ticks,
    found: Arc<watch::Sender<u64>>,
    /// One per candidate; they end with this value.
    _judging: JoinSet<()>,
}

#[derive(Debug)]
struct Watched {
    canary: Canary,
    queue: mpsc::Sender<Box<Question>>,
    found: Mutex<Found>,
    /// Ticks with every answer.
    ticks: Arc<watch::Sender<u64>>,
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
    /// Needs a runtime.
    pub fn new(enforced: Arc<dyn Engine>, canaries: Vec<Canary>) -> Self {
        let open = canaries.iter().filter(|canary| canary.fail_open);
        let fail_open = open.flat_map(|canary| canary.tenants.clone()).collect();
        let mut judging = JoinSet::new();
        let found = Arc::new(watch::Sender::new(0));
        let start = |canary| start(canary, found.clone(), &mut judging);
        let canaries = canaries.into_iter().map(start).collect();
        let ticks = Ticks::of([&enforced]);
        Self { enforced, canaries, fail_open, ticks, found, _judging: judging }
    }
}

fn start(
    canary: Canary,
    ticks: Arc<watch::Sender<u64>>,
    judging: &mut JoinSet<()>,
) -> Arc<Watched> {
    let (queue, waiting) = mpsc::channel(QUEUE);
    let watched = Arc::new(Watched { canary, queue, found: Mutex::default(), ticks });
    judging.spawn(judge(watched.clone(), waiting));
    watched
}

async fn judge(watched: Arc<Watched>, mut waiting: mpsc::Receiver<Box<Question>>) {
    while let Some(question) = waiting.recv().await {
        let said = watched.canary.candidate.evaluate(&question.input).await;
        watched.compare(*question, said);
        watched.ticks.send_modify(|tick| *tick += 1);
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

    fn compare(&self, question: Question, said: Result<Answer, Unavailable>) {
        let candidate = match said {
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
        found.differences.truncate(KEPT - 1);
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
    /// The call was held, because nobody answered.
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
        let said = self.enforced.evaluate(input).await;
        for watched in self.canaries.iter().filter(|watched| watched.wants(input)) {
            let enforced = said.as_ref().ok().cloned();
            let policy = self.enforced.revision();
            watched.ask(Question { input: input.clone(), enforced, policy });
        }
        said
    }

    fn answering(&self, input: &Input) -> String {
        self.enforced.answering(input)
    }

    fn parts(&self, input: &Input) -> Vec<Part> {
        self.enforced.parts(input)
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.ticks.subscribe()
    }

    /// Those of the candidates too: one that is stale or down is tried for nothing.
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
