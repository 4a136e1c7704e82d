//! Engine trait: the seam to everything that evaluates rules.

use std::{
    error, fmt,
    sync::{Arc, LazyLock},
};

use async_trait::async_trait;
use ringfence_types::{Digest, Obligations, Reason, TenantId, Verdict};
use tokio::sync::watch;

use crate::{Bundle, CanaryReport, Input, Status};

/// Evaluator of policy documents.
///
/// Contract (checked by [`contract::run`](crate::contract::run) for every engine):
/// - *pure*: under the same rules, the same document has the same answer;
/// - *closed*: undefined rules and malformed answers are [`Unavailable`] or a deny, never an allow;
/// - *explicit*: an engine without an opinion says so with [`Trouble::Abstained`]; if all engines
///   abstain, the call is held;
/// - *bounded*: it answers or gives up within
///   [`contract::EVALUATE_TIMEOUT`](crate::contract::EVALUATE_TIMEOUT), whatever the document holds
///   and whatever the rules do, and blocks no other task meanwhile;
/// - *named*: an answer carries the digest of the rules that gave it;
/// - *observable*: its status names every engine that it asks, and [`Engine::changed`] can be awaited.
#[async_trait]
pub trait Engine: fmt::Debug + Send + Sync + 'static {
    /// Name of the engine in decisions.
    fn name(&self) -> &str;

    /// Revision of the rules in force, as far as known; recorded when there is no answer.
    fn revision(&self) -> Digest;

    /// Rules in force, if this process has their files; needed to explain an answer. An engine in
    /// front of another passes its rules on.
    fn bundle(&self) -> Option<Arc<Bundle>> {
        None
    }

    /// Answer of the rules about this document.
    async fn evaluate(&self, input: &Input) -> Result<Answer, Unavailable>;

    /// Engine name recorded with a decision about this document; combined engines name their parts.
    fn answering(&self, _input: &Input) -> String {
        self.name().to_owned()
    }

    /// Engines asked about this document, each with its rules where this process has them.
    fn parts(&self, _input: &Input) -> Vec<Part> {
        let (engine, revision) = (self.name().to_owned(), self.revision());
        vec![Part { engine, revision, bundle: self.bundle() }]
    }

    /// Counter that grows when a document may have another answer than before: the rules changed, or
    /// an engine without answers recovered. Held calls are then rechecked. It may grow needlessly, but
    /// never more often than a few times per second.
    fn changed(&self) -> watch::Receiver<u64> {
        NEVER.subscribe()
    }

    /// Status of this engine and of each engine that it asks.
    fn status(&self) -> Vec<Status> {
        vec![Status::well(self.name(), self.revision())]
    }

    /// Results of the candidate policies since the start.
    fn canaries(&self) -> Vec<CanaryReport> {
        Vec::new()
    }

    /// Counter that grows with every candidate result.
    fn found(&self) -> watch::Receiver<u64> {
        NEVER.subscribe()
    }

    /// Tenants whose calls run without an answer, as configured by an operator.
    fn fail_open(&self) -> Vec<TenantId> {
        Vec::new()
    }
}

/// One engine asked about a document.
#[derive(Debug, Clone)]
pub struct Part {
    /// Name of the engine.
    pub engine: String,
    /// Revision of its rules, as far as known.
    pub revision: Digest,
    /// Its rules; `None` if they are in another process.
    pub bundle: Option<Arc<Bundle>>,
}

/// Sender of a channel that never changes.
static NEVER: LazyLock<watch::Sender<u64>> = LazyLock::new(|| watch::Sender::new(0));

/// Answer of the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The verdict.
    pub verdict: Verdict,
    /// Reasons for the verdict.
    pub reasons: Vec<Reason>,
    /// Obligations of an allowed call.
    pub obligations: Obligations,
    /// Number of different people who must approve a held call; one if absent.
    pub approvals: Option<u32>,
    /// Digest of the rules that answered.
    pub policy: Digest,
}

/// Missing answer. The call is held, not denied, because no decision was made.
#[derive(Debug, thiserror::Error)]
#[error("{trouble}")]
pub struct Unavailable {
    /// Kind of failure, safe to show to anyone.
    pub trouble: Trouble,
    /// Cause for operators; it may quote rules.
    #[source]
    pub cause: Option<Box<dyn error::Error + Send + Sync>>,
}

/// Kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Trouble {
    /// Evaluation exceeded its time limit.
    #[error("the policy took too long")]
    Slow,
    /// Too many calls wait for an answer.
    #[error("too many calls wait for the policy")]
    Busy,
    /// The decision rule is undefined.
    #[error("the policy has no decision for this call")]
    Undefined,
    /// The answer is not a decision.
    #[error("the policy gave an answer that is not a decision")]
    Malformed,
    /// Evaluation failed.
    #[error("the policy failed")]
    Failed,
    /// The engine is unreachable.
    #[error("the policy cannot be reached")]
    Down,
    /// The rules abstain explicitly.
    #[error("the policy has no opinion about this call")]
    Abstained,
}

impl Unavailable {
    /// Failure without a cause.
    pub const fn new(trouble: Trouble) -> Self {
        Self { trouble, cause: None }
    }

    /// Failure with a cause.
    pub fn because(
        trouble: Trouble,
        cause: impl Into<Box<dyn error::Error + Send + Sync>>,
    ) -> Self {
        Self { trouble, cause: Some(cause.into()) }
    }
}
