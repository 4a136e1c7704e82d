//! Judging the past again: which decisions of history would be others under proposed rules.
//!
//! A page of history is read while the one before it is judged, so memory is bounded by two pages
//! however long the history is. What is masked in a document stays masked: such decisions are
//! judged as they were kept, and counted.

mod tally;

use std::time::{Duration, Instant};

use ringfence_policy::{Answer, Bundle, InvalidBundle, Rejudge, Unavailable};
use ringfence_store::{DecisionQuery, Error, KeptDecision, PAGE};
use ringfence_types::{CallId, Digest, Reason, TenantId, Timestamp, Verdict};

use self::tally::Tally;
pub use self::tally::{Counted, Flips};
use crate::Engine;

/// What is to be judged again, by which rules, and how much of it.
#[derive(Debug, Clone)]
pub struct ReplayRequest {
    /// The proposed rules.
    pub bundle: Bundle,
    /// Which decisions. Its limit is not looked at.
    pub history: DecisionQuery,
    /// Most flips that are listed one by one; all of them are counted.
    pub listed: usize,
    /// Most decisions that are judged; at least one.
    pub most: usize,
    /// Ends after about this time.
    pub longest: Duration,
    /// How many threads judge.
    pub threads: usize,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Replay {
    /// Of the proposed rules.
    pub policy: Digest,
    /// Decisions that were judged again.
    pub decisions: u64,
    /// Of these, those whose documents are masked in part: the rules may have seen other words.
    pub redacted: u64,
    /// Of these, those that the proposed rules gave no answer about: such calls would be held.
    pub unanswered: u64,
    /// Allowed then and now, but under other obligations.
    pub other_obligations: u64,
    /// What would flip, counted.
    pub flips: Flips,
    /// What would flip, oldest first, as many as were asked for.
    pub listed: Vec<Flipped>,
    /// Where to go on, if there is more.
    pub next: Option<(Timestamp, u64)>,
    /// How long it took.
    pub took: Duration,
}

/// A decision that would be another.
#[derive(Debug, Clone, PartialEq)]
pub struct Flipped {
    /// The decision.
    pub decision: u64,
    /// The call.
    pub call: CallId,
    /// Whose.
    pub tenant: TenantId,
    /// The tool.
    pub tool: String,
    /// When it was decided.
    pub at: Timestamp,
    /// What was decided.
    pub was: Verdict,
    /// Why.
    pub was_because: Vec<Reason>,
    /// By which rules.
    pub policy: Digest,
    /// What would be decided.
    pub would_be: Verdict,
    /// Why.
    pub would_be_because: Vec<Reason>,
}

/// Why nothing was judged again.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The proposed rules cannot be used.
    #[error("the proposed rules cannot be used")]
    Bundle(#[from] InvalidBundle),
    /// The past is being judged for another client.
    #[error("the past is being judged for another client")]
    Busy,
    /// The past cannot be read.
    #[error("the decisions cannot be read")]
    Store(#[from] Error),
}

impl Engine {
    /// Judges decisions of the past by proposed rules. Changes nothing.
    pub async fn replay(&self, request: ReplayRequest) -> Result<Replay, ReplayError> {
        let _turn = self.inner.replay_turn.try_acquire().map_err(|_| ReplayError::Busy)?;
        let started = Instant::now();
        let store = &self.inner.parts.store;
        let judge = load(request.bundle, request.threads).await?;
        let mut tally = Tally::new(request.listed);
        let mut left = request.most;
        let mut query = DecisionQuery { limit: left.clamp(1, PAGE), ..request.history };
        let mut page = store.decisions(query.clone()).await?;
        let mut next = None;
        while let Some(last) = page.last() {
            query.after = Some((last.kept.at, last.id));
            left = left.saturating_sub(page.len());
            // One at least, which is not judged: it shows whether there is more.
            query.limit = left.clamp(1, PAGE);
            let documents = page.iter().map(|kept| kept.kept.input.clone()).collect();
            let (answers, following) =
                tokio::join!(judged(&judge, documents), store.decisions(query.clone()));
            page.iter().zip(answers).for_each(|(kept, answer)| tally.add(kept, answer));
            page = following?;
            let is_enough = left == 0 || started.elapsed() >= request.longest;
            if is_enough && !page.is_empty() {
                next = query.after;
                break;
            }
        }
        Ok(tally.told(judge.revision(), next, started.elapsed()))
    }
}

/// Loading takes some milliseconds, or seconds if the rules are strange.
async fn load(bundle: Bundle, threads: usize) -> Result<Rejudge, ReplayError> {
    let loading = tokio::task::spawn_blocking(move || Rejudge::load(&bundle, threads));
    match loading.await {
        Ok(loaded) => Ok(loaded?),
        Err(stopped) => std::panic::resume_unwind(stopped.into_panic()),
    }
}

/// A page, in as many batches as keep all threads at work to its end.
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

/// Whether a document that was kept is masked in part.
fn is_redacted(kept: &KeptDecision) -> bool {
    Digest::of(kept.kept.input.as_bytes()) != kept.kept.decision.input
}
