//! Evaluation on the thread of whoever asks.
//!
//! Handing a document to another thread and back costs several times what most rules take. So
//! rules that are [brief](super::brief) are evaluated where they are needed, for a moment. What is
//! not done by then is tried once more, because a busy machine can make anything slow, and then goes
//! to the [`Workers`](super::workers::Workers), and so do the next ones for a while.
//!
//! Invariant: no evaluation holds the caller's thread for much longer than twice a [`MOMENT`].

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

/// How long an evaluation may take here: a hundred times the usual.
const MOMENT: Duration = Duration::from_millis(1);
/// Steps between looks at the clock. None takes long.
const STEPS: u32 = 8;
/// Larger documents are read by the workers.
pub(super) const DOCUMENT_BYTES: usize = 16 << 10;
/// Most engines that are kept for the next evaluation: one for each core of a large machine.
const IDLE: usize = 64;

/// Engines with the same rules.
#[derive(Debug)]
pub(super) struct Here {
    pristine: Engine,
    idle: Mutex<Vec<Engine>>,
    pace: Pace,
    policy: Digest,
}

impl Here {
    /// From rules that are brief.
    pub(super) fn new(engine: &Engine, policy: Digest) -> Self {
        let mut pristine = engine.clone();
        pristine.set_execution_timer_config(ExecutionTimerConfig {
            limit: MOMENT,
            check_interval: NonZeroU32::new(STEPS).unwrap_or(NonZeroU32::MIN),
        });
        Self { pristine, idle: Mutex::default(), pace: Pace::default(), policy }
    }

    /// What the rules say, unless it is for the workers to find out.
    pub(super) fn evaluate(&self, document: &Value) -> Option<Result<Answer, Unavailable>> {
        if !self.pace.is_fit() {
            return None;
        }
        let answer = self.attempt(document).or_else(|| self.attempt(document));
        if answer.is_none() {
            self.pace.was_slow();
        }
        answer
    }

    /// Nothing if it is not done in a moment.
    fn attempt(&self, document: &Value) -> Option<Result<Answer, Unavailable>> {
        let mut engine = self.idle().pop().unwrap_or_else(|| self.pristine.clone());
        match workers::evaluate(&mut engine, document.clone()) {
            Ok(value) => {
                self.keep(engine);
                Some(answer::read(&value, self.policy))
            }
            // Whatever the engine was in the middle of is not for the next document to find.
            Err(unavailable) if unavailable.trouble == Trouble::Slow => None,
            Err(unavailable) => Some(Err(unavailable)),
        }
    }

    fn keep(&self, engine: Engine) {
        let mut idle = self.idle();
        if idle.len() < IDLE {
            idle.push(engine);
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Engine>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether rules were done in time lately.
#[derive(Debug, Default)]
struct Pace {
    /// Evaluations that still go to the workers.
    apart: AtomicU32,
}

impl Pace {
    /// How many go there after one that was not done in time.
    const APART: u32 = 256;

    fn is_fit(&self) -> bool {
        // Most of the time there is nothing to write, and no core takes it from another.
        self.apart.load(Ordering::Relaxed) == 0 || {
            let less = |left: u32| left.checked_sub(1);
            self.apart.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_err()
        }
    }

    fn was_slow(&self) {
        self.apart.store(Self::APART, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_were_slow_are_for_the_workers_for_a_while() {
        let pace = Pace::default();
        assert!(pace.is_fit());
        pace.was_slow();
        assert!((0..Pace::APART).all(|_| !pace.is_fit()));
        assert!(pace.is_fit(), "it is tried again");
    }
}
