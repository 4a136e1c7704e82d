//! Replay: the recorded decisions that would differ under proposed rules.
//!
//! A page of history is read while the one before it is evaluated, so memory is bounded by two
//! pages however long the history is. Masked documents stay masked: such decisions are evaluated as
//! they were stored, and counted.

mod tally;

use std::time::{Duration, Instant};

use ringfence_policy::{Answer, Bundle, InvalidBundle, Rejudge, Unavailable};
use ringfence_store::{DecisionQuery, Error, KeptDecision, PAGE};
use ringfence_types::{CallId, Digest, Reason, TenantId, Timestamp, Verdict};

use self::tally::Tally;
pub use self::tally::{Counted, Flips};
use crate::Engine;

/// Request for a replay: the rules, the decisions and the bounds.
#[derive(Debug, Clone)]
pub struct ReplayRequest {
    /// The proposed rules.
    pub bundle: Bundle,
    /// Filter of the decisions; its limit is ignored.
    pub history: DecisionQuery,
    /// Flips that are listed; all are counted.
    pub listed: usize,
    /// Decisions that are evaluated; at least one.
    pub max_decisions: usize,
    /// Approximate time limit.
    pub time_limit: Duration,
    /// Evaluating threads.
    pub threads: usize,
}

/// Result of a replay.
#[derive(Debug, Clone)]
pub struct Replay {
    /// Digest of the proposed rules.
    pub policy: Digest,
    /// Evaluated decisions.
    pub decisions: u64,
    /// Evaluated decisions with partly masked documents: the original rules saw the unmasked ones.
    pub redacted: u64,
    /// Evaluated decisions without an answer of the proposed rules: such calls would be held.
    pub unanswered: u64,
    /// Decisions allowed then and now, with different obligations.
    pub other_obligations: u64,
    /// Counted flips.
    pub flips: Flips,
    /// Listed flips, oldest first, as many as were asked for.
    pub listed: Vec<Flipped>,
    /// Position of the next decision, if there is more.
    pub next: Option<(Timestamp, u64)>,
    /// Time taken.
    pub took: Duration,
}

/// A decision that the proposed rules would change.
#[derive(Debug, Clone, PartialEq)]
pub struct Flipped {
    /// Id of the decision.
    pub decision: u64,
    /// The call.
    pub call: CallId,
    /// Tenant of the call.
    pub tenant: TenantId,
    /// The tool.
    pub tool: String,
    /// Time of the decision.
    pub at: Timestamp,
    /// Recorded verdict.
    pub was: Verdict,
    /// Recorded reasons.
    pub was_because: Vec<Reason>,
    /// Digest of the rules that decided.
    pub policy: Digest,
    /// Verdict of the proposed rules.
    pub would_be: Verdict,
    /// Reasons of the proposed rules.
    pub would_be_because: Vec<Reason>,
}

/// Reason why there was no replay.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The proposed rules cannot be used.
    #[error("the proposed rules cannot be used")]
    Bundle(#[from] InvalidBundle),
    /// A replay of another client is running.
    #[error("the past is being judged for another client")]
    Busy,
    /// The decisions cannot be read.
    #[error("the decisions cannot be read")]
    Store(#[from] Error),
}

impl Engine {
    /// Evaluates recorded decisions by proposed rules. Changes nothing.
    pub async fn replay(&self, request: ReplayRequest) -> Result<Replay, ReplayError> {
        let _turn = self.inner.replay_turn.try_acquire().map_err(|_| ReplayError::Busy)?;
        let started = Instant::now();
        let store = &self.inner.parts.store;
        let judge = load(request.bundle, request.threads).await?;
        let mut tally = Tally::new(request.listed);
        let mut left = request.max_decisions;
        let mut query = DecisionQuery { limit: left.clamp(1, PAGE), ..request.history };
        let mut page = store.decisions(query.clone()).await?;
        let mut next = None;
        while let Some(last) = page.last() {
            query.after = Some((last.kept.at, last.id));
            left = left.saturating_sub(page.len());
            // At least one, which is not evaluated: it shows whether there is more.
            query.limit = left.clamp(1, PAGE);
            let documents = page.iter().map(|kept| kept.kept.input.clone()).collect();
            let (answers, following) =
                tokio::join!(judged(&judge, documents), store.decisions(query.clone()));
            page.iter().zip(answers).for_each(|(kept, answer)| tally.add(kept, answer));
            page = following?;
            let is_enough = left == 0 || started.elapsed() >= request.time_limit;
            if is_enough && !page.is_empty() {
                next = query.after;
                break;
            }
        }
        Ok(tally.told(judge.revision(), next, started.elapsed()))
    }
}

/// Loads the rules on a blocking thread: it takes milliseconds, or seconds for unusual rules.
async fn load(bundle: Bundle, threads: usize) -> Result<Rejudge, ReplayError> {
    let loading = tokio::task::spawn_blocking(move || Rejudge::load(&bundle, threads));
    match loading.await {
        Ok(loaded) => Ok(loaded?),
        Err(stopped) => std::panic::resume_unwind(stopped.into_panic()),
    }
}

/// Evaluates a page, in as many batches as keep all threads busy to its end.
async fn judged(judge: &Rejudge, documents: Vec<String>) -> Vec<Result<Answer, Unavailable>> {
    let batch = documents.len().div_ceil(judge.threads() * 4).max(1);
    let mut documents = documents.into_iter();
    let mut pending = Vec::new();
    loop {
        let some: Vec<_> = documents.by_ref().take(batch).collect();
        if some.is_empty() {
            break;
        }
        pending.push(judge.judge(some));
    }
    let mut answers = Vec::new();
    for batch in pending {
        answers.extend(batch.await);
    }
    answers
}

/// Whether a stored document is partly masked.
fn is_redacted(kept: &KeptDecision) -> bool {
    Digest::of(kept.kept.input.as_bytes()) != kept.kept.decision.input
}
