//! Worker threads for evaluation.
//!
//! Evaluation is processor work, and a bad rule can make it long, so evaluations that are not done
//! [inline](super::inline) happen on separate threads: a step that the evaluator's timer cannot
//! interrupt then delays other evaluations, but never the server. Threads and queue are bounded; with
//! a full queue or after [`ANSWER_TIMEOUT`] there is no answer, and the call is held.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::Duration,
};

use regorus::{LimitError, Value};
use ringfence_types::Digest;
use tokio::sync::oneshot;

use super::{DECISION, answer};
use crate::{Answer, Trouble, Unavailable};

/// Time limit of one evaluation: a thousand times the usual duration, because the clock also runs
/// while a busy machine lets the thread wait.
pub(super) const EVALUATE_TIMEOUT: Duration = Duration::from_millis(250);
/// Time that a caller waits for an answer, queueing included.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// Calls that may wait for a thread.
const MAX_QUEUED: usize = 256;
/// Two, so that one runaway rule cannot block all evaluations.
const THREADS: usize = 2;
/// Stack size: dependent rules nest on the stack. Untouched pages cost nothing.
pub(crate) const STACK: usize = 256 << 20;

/// Document with the receiver of its answer.
struct Job {
    document: String,
    reply: oneshot::Sender<Result<Answer, Unavailable>>,
}

/// Handle of the threads, which end when it is dropped.
#[derive(Debug)]
pub(super) struct Workers {
    jobs: SyncSender<Job>,
}

impl Workers {
    /// Starts the threads.
    pub(super) fn start(engine: &regorus::Engine, policy: Digest) -> std::io::Result<Self> {
        let (jobs, queue) = sync_channel(MAX_QUEUED);
        let queue = Arc::new(Mutex::new(queue));
        for index in 0..THREADS {
            let (engine, queue) = (engine.clone(), Arc::clone(&queue));
            thread::Builder::new()
                .name(format!("policy-{index}"))
                .stack_size(STACK)
                .spawn(move || work(&engine, policy, &queue))?;
        }
        Ok(Self { jobs })
    }

    /// Answer of one of the threads.
    pub(super) async fn ask(&self, document: String) -> Result<Answer, Unavailable> {
        let (reply, answer) = oneshot::channel();
        self.jobs.try_send(Job { document, reply }).map_err(|refused| match refused {
            TrySendError::Full(_) => Unavailable::new(Trouble::Busy),
            TrySendError::Disconnected(_) => Unavailable::new(Trouble::Failed),
        })?;
        match tokio::time::timeout(ANSWER_TIMEOUT, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Unavailable::new(Trouble::Failed)),
            Err(_) => Err(Unavailable::new(Trouble::Slow)),
        }
    }
}

fn work(pristine: &regorus::Engine, policy: Digest, queue: &Mutex<Receiver<Job>>) {
    let mut engine = pristine.clone();
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
    while let Ok(job) = next() {
        // The receiver is gone, so the answer is not needed.
        if job.reply.is_closed() {
            continue;
        }
        let answer = judge(&mut engine, &job.document, policy);
        if answer.is_err() {
            // A failed evaluation may leave state in the engine.
            engine = pristine.clone();
        }
        // The receiver may be gone.
        let _ = job.reply.send(answer);
    }
}

/// Answer of the rules about one document, given as text.
pub(super) fn judge(
    engine: &mut regorus::Engine,
    document: &str,
    policy: Digest,
) -> Result<Answer, Unavailable> {
    let document = Value::from_json_str(document)
        .map_err(|error| Unavailable::because(Trouble::Failed, error))?;
    evaluate(engine, document).and_then(|value| answer::read(&value, policy))
}

/// Evaluates the decision about one document.
pub(super) fn evaluate(
    engine: &mut regorus::Engine,
    document: Value,
) -> Result<Value, Unavailable> {
    engine.set_input(document);
    let value = engine.eval_rule(DECISION.to_owned());
    for line in engine.take_prints().unwrap_or_default().iter().take(100) {
        tracing::debug!(line, "a rule printed");
    }
    value.map_err(|error| match error.downcast_ref::<LimitError>() {
        Some(_) => Unavailable::because(Trouble::Slow, error),
        None => Unavailable::because(Trouble::Failed, error),
    })
}
