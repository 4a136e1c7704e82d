//! The seam: whatever knows the rules.

use std::{
    error, fmt,
    sync::{Arc, LazyLock},
};

use async_trait::async_trait;
use ringfence_types::{Digest, Obligations, Reason, TenantId, Verdict};
use tokio::sync::watch;

use crate::{Bundle, CanaryReport, Input, Status};

/// Something that judges documents.
///
/// Contract (checked by [`contract::run`](crate::contract::run) for every engine):
/// - *pure*: under the same rules, the same document has the same answer;
/// - *closed*: what the rules leave undefined, or what is not understood, is [`Unavailable`] or a
///   deny, never an allow;
/// - *explicit*: an engine that has no opinion says so with [`Trouble::Abstained`], which is no
///   allow either: a call about which nobody has an opinion is held;
/// - *bounded*: it answers or gives up within [`contract::PATIENCE`](crate::contract::PATIENCE),
///   whatever the document holds and whatever the rules do, and blocks no other task meanwhile;
/// - *named*: an answer carries the digest of the rules that gave it;
/// - *seen*: its status names every engine that it asks, and [`Engine::changed`] can be waited for.
#[async_trait]
pub trait Engine: fmt::Debug + Send + Sync + 'static {
    /// What it is called in decisions.
    fn name(&self) -> &str;

    /// Of the rules in force, as far as known: what a decision names when there is no answer.
    fn revision(&self) -> Digest;

    /// The rules in force, where they are files that this process has: what it takes to explain an
    /// answer. An engine in front of another passes its rules on.
    fn bundle(&self) -> Option<Arc<Bundle>> {
        None
    }

    /// What the rules say about this document.
    async fn evaluate(&self, input: &Input) -> Result<Answer, Unavailable>;

    /// What a decision about this document is signed with: engines that ask others say which.
    fn answering(&self, _input: &Input) -> String {
        self.name().to_owned()
    }

    /// Who is asked about this document, each with its rules where this process has them.
    fn parts(&self, _input: &Input) -> Vec<Part> {
        let (engine, revision) = (self.name().to_owned(), self.revision());
        vec![Part { engine, revision, bundle: self.bundle() }]
    }

    /// Ticks when a document may have another answer than before: the rules changed, or an engine
    /// that gave no answer is well again. Whoever holds calls asks again then. It may tick without
    /// need, never more often than a few times in a second.
    fn changed(&self) -> watch::Receiver<u64> {
        NEVER.subscribe()
    }

    /// How it is, and how each engine is that it asks.
    fn status(&self) -> Vec<Status> {
        vec![Status::well(self.name(), self.revision())]
    }

    /// What was found about policies that are tried beside the one in force, since this began.
    fn canaries(&self) -> Vec<CanaryReport> {
        Vec::new()
    }

    /// Ticks when more was found.
    fn found(&self) -> watch::Receiver<u64> {
        NEVER.subscribe()
    }

    /// Tenants whose calls run although there was no answer, because an operator chose that.
    fn fail_open(&self) -> Vec<TenantId> {
        Vec::new()
    }
}

/// One of those who are asked about a document.
#[derive(Debug, Clone)]
pub struct Part {
    /// What it is called.
    pub engine: String,
    /// Of its rules, as far as known.
    pub revision: Digest,
    /// Its rules; none where they are elsewhere.
    pub bundle: Option<Arc<Bundle>>,
}

/// For what never ticks.
static NEVER: LazyLock<watch::Sender<u64>> = LazyLock::new(|| watch::Sender::new(0));

/// What the rules said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The answer.
    pub verdict: Verdict,
    /// Why.
    pub reasons: Vec<Reason>,
    /// What an allowed call must keep to.
    pub obligations: Obligations,
    /// How many different people must approve a held call; one if it does not say.
    pub approvals: Option<u32>,
    /// Of the rules that said so.
    pub policy: Digest,
}

/// There is no answer. The call is parked, not denied: nobody decided about it.
#[derive(Debug, thiserror::Error)]
#[error("{trouble}")]
pub struct Unavailable {
    /// What is wrong, as anyone may know it.
    pub trouble: Trouble,
    /// The cause, for operators: it may quote rules.
    #[source]
    pub cause: Option<Box<dyn error::Error + Send + Sync>>,
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Trouble {
    /// Evaluation was cut off.
    #[error("the policy took too long")]
    Slow,
    /// More calls wait for an answer than may wait.
    #[error("too many calls wait for the policy")]
    Busy,
    /// The rules say nothing.
    #[error("the policy has no decision for this call")]
    Undefined,
    /// The rules say something that is not a decision.
    #[error("the policy gave an answer that is not a decision")]
    Malformed,
    /// Evaluation failed.
    #[error("the policy failed")]
    Failed,
    /// The engine that knows the rules does not answer.
    #[error("the policy cannot be reached")]
    Down,
    /// The rules have no opinion, and say so.
    #[error("the policy has no opinion about this call")]
    Abstained,
}

impl Unavailable {
    /// Without more to say.
    pub const fn new(trouble: Trouble) -> Self {
        Self { trouble, cause: None }
    }

    /// Because of something.
    pub fn because(
        trouble: Trouble,
        cause: impl Into<Box<dyn error::Error + Send + Sync>>,
    ) -> Self {
        Self { trouble, cause: Some(cause.into()) }
    }
}
