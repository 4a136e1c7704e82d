//! Inline evaluation, on the caller's thread.
//!
//! Handing a document to another thread and back costs several times what most rules take. So rules
//! that are [inline-safe](super::inline_safe) are evaluated inline, within [`INLINE_TIMEOUT`]. An
//! evaluation that times out is tried once more, because a busy machine can make anything slow; then
//! it and the next ones go to the [`Workers`](super::workers::Workers).
//!
//! Invariant: no evaluation holds the caller's thread for much longer than twice [`INLINE_TIMEOUT`].

use std::{
    num::NonZeroU32,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use regorus::{Engine, Value, utils::limits::ExecutionTimerConfig};
use ringfence_types::Digest;

use super::{answer, workers};
use crate::{Answer, Trouble, Unavailable};

/// Time limit of one inline evaluation: a hundred times the usual duration.
const INLINE_TIMEOUT: Duration = Duration::from_millis(1);
/// Steps between reads of the clock; each step is short.
const CLOCK_INTERVAL: u32 = 8;
/// Size limit of documents evaluated inline; larger ones go to the workers.
pub(super) const MAX_DOCUMENT_BYTES: usize = 16 << 10;
/// Idle engines kept for reuse: one for each core of a large machine.
const MAX_IDLE_ENGINES: usize = 64;

/// Pool of engines with the same rules.
#[derive(Debug)]
pub(super) struct Inline {
    pristine: Engine,
    idle: Mutex<Vec<Engine>>,
    backoff: Backoff,
    policy: Digest,
}

impl Inline {
    /// Evaluator of rules that are inline-safe.
    pub(super) fn new(engine: &Engine, policy: Digest) -> Self {
        let mut pristine = engine.clone();
        pristine.set_execution_timer_config(ExecutionTimerConfig {
            limit: INLINE_TIMEOUT,
            check_interval: NonZeroU32::new(CLOCK_INTERVAL).unwrap_or(NonZeroU32::MIN),
        });
        Self { pristine, idle: Mutex::default(), backoff: Backoff::default(), policy }
    }

    /// Answer of the rules; `None` if the workers must evaluate.
    pub(super) fn evaluate(&self, document: &Value) -> Option<Result<Answer, Unavailable>> {
        if !self.backoff.may_try_inline() {
            return None;
        }
        let answer = self.attempt(document).or_else(|| self.attempt(document));
        if answer.is_none() {
            self.backoff.start();
        }
        answer
    }

    /// One attempt; `None` if it exceeds the time limit.
    fn attempt(&self, document: &Value) -> Option<Result<Answer, Unavailable>> {
        let mut engine = self.idle().pop().unwrap_or_else(|| self.pristine.clone());
        match workers::evaluate(&mut engine, document.clone()) {
            Ok(value) => {
                self.keep(engine);
                Some(answer::read(&value, self.policy))
            }
            // The engine is dropped, because a timed-out evaluation may leave state in it.
            Err(unavailable) if unavailable.trouble == Trouble::Slow => None,
            Err(unavailable) => Some(Err(unavailable)),
        }
    }

    fn keep(&self, engine: Engine) {
        let mut idle = self.idle();
        if idle.len() < MAX_IDLE_ENGINES {
            idle.push(engine);
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Engine>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Back-off after evaluations that timed out.
#[derive(Debug, Default)]
struct Backoff {
    /// Evaluations that still go to the workers.
    remaining: AtomicU32,
}

impl Backoff {
    /// Evaluations that go to the workers after a timeout.
    const WORKER_EVALUATIONS: u32 = 256;

    fn may_try_inline(&self) -> bool {
        // Usually a read only, so that cores do not contend for the cache line.
        self.remaining.load(Ordering::Relaxed) == 0 || {
            let less = |left: u32| left.checked_sub(1);
            self.remaining.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_err()
        }
    }

    fn start(&self) {
        self.remaining.store(Self::WORKER_EVALUATIONS, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_were_slow_are_for_the_workers_for_a_while() {
        let backoff = Backoff::default();
        assert!(backoff.may_try_inline());
        backoff.start();
        assert!((0..Backoff::WORKER_EVALUATIONS).all(|_| !backoff.may_try_inline()));
        assert!(backoff.may_try_inline(), "it is tried again");
    }
}
