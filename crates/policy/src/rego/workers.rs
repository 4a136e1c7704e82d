//! Threads that evaluate.
//!
//! Evaluation is work for a processor, and a bad rule can make it long, so what is not done in a
//! moment where it is needed (see [`here`](super::here)) happens on threads of its own: a step that
//! the clock of the evaluator cannot interrupt then delays other evaluations, but never the server.
//! Both the threads and the queue before them are few; whoever
//! finds no place or waits too long has no answer, and the call is held.

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

/// How long one evaluation may take: a thousand times the usual, because the clock also runs while
/// a busy machine lets the thread wait.
pub(super) const LIMIT: Duration = Duration::from_millis(250);
/// How long a caller waits, with its place in the queue.
const PATIENCE: Duration = Duration::from_secs(1);
/// Most calls that wait for a thread.
const QUEUE: usize = 256;
/// One processor less would be one bad rule away from none.
const THREADS: usize = 2;
/// Rules that need each other nest on the stack; pages that nobody touches cost nothing.
pub(crate) const STACK: usize = 256 << 20;

/// What is to be judged, and who waits for it.
struct Job {
    document: String,
    reply: oneshot::Sender<Result<Answer, Unavailable>>,
}

/// The way to the threads. They end when it is dropped.
#[derive(Debug)]
pub(super) struct Workers {
    jobs: SyncSender<Job>,
}

impl Workers {
    /// Starts the threads.
    pub(super) fn start(engine: &regorus::Engine, policy: Digest) -> std::io::Result<Self> {
        let (jobs, queue) = sync_channel(QUEUE);
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

    /// Asks one of them.
    pub(super) async fn ask(&self, document: String) -> Result<Answer, Unavailable> {
        let (reply, answer) = oneshot::channel();
        self.jobs.try_send(Job { document, reply }).map_err(|refused| match refused {
            TrySendError::Full(_) => Unavailable::new(Trouble::Busy),
            TrySendError::Disconnected(_) => Unavailable::new(Trouble::Failed),
        })?;
        match tokio::time::timeout(PATIENCE, answer).await {
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
        // Whoever stopped waiting needs no answer.
        if job.reply.is_closed() {
            continue;
        }
        let answer = judge(&mut engine, &job.document, policy);
        if answer.is_err() {
            // Whatever it was in the middle of is not for the next document to find.
            engine = pristine.clone();
        }
        // If nobody waits any more, there is nobody to tell.
        let _ = job.reply.send(answer);
    }
}

/// What the rules say about one document, as text.
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
