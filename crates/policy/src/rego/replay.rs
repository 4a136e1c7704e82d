//! Replay: evaluation of past documents by rules that are not in force.
//!
//! It has its own threads, so that live decisions never queue behind history. Each thread has its
//! own copy of the rules and its own cache, so they share nothing while they work. Documents are
//! evaluated as the recorded text, including documents written by an older version.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
};

use ringfence_types::Digest;
use tokio::sync::oneshot;

use super::{Bundle, InvalidBundle, Problem, cache::Cache, compile_apart, reads::Reads, workers};
use crate::{Answer, Input, Trouble, Unavailable};

/// Batches that may wait for a thread: enough that no thread is ever idle.
const MAX_QUEUED: usize = 64;

/// Batch of documents with the receiver of its answers.
struct Job {
    documents: Vec<String>,
    reply: oneshot::Sender<Vec<Result<Answer, Unavailable>>>,
}

/// Rules that evaluate past documents. Its threads end when it is dropped.
#[derive(Debug)]
pub struct Rejudge {
    jobs: SyncSender<Job>,
    revision: Digest,
    threads: usize,
}

impl Rejudge {
    /// Loads a bundle on this many threads, or returns everything that is wrong with it.
    pub fn load(bundle: &Bundle, threads: usize) -> Result<Self, InvalidBundle> {
        let (engine, reads) = compile_apart(bundle)?;
        let (revision, threads) = (bundle.digest(), threads.max(1));
        let (jobs, queue) = sync_channel(MAX_QUEUED);
        let queue = Arc::new(Mutex::new(queue));
        for index in 0..threads {
            let judge = Judge::new(&engine, reads.clone(), revision);
            let queue = Arc::clone(&queue);
            let started = thread::Builder::new()
                .name(format!("policy-past-{index}"))
                .stack_size(workers::STACK)
                .spawn(move || judge.work(&queue));
            started.map_err(|error| {
                InvalidBundle(vec![Problem::in_file(".", format!("no thread for it: {error}"))])
            })?;
        }
        Ok(Self { jobs, revision, threads })
    }

    /// Revision of the rules.
    pub const fn revision(&self) -> Digest {
        self.revision
    }

    /// Number of threads.
    pub const fn threads(&self) -> usize {
        self.threads
    }

    /// Answers about each document, in order; the work begins before the future is polled. If the
    /// queue is full, there are no answers.
    pub fn judge(
        &self,
        documents: Vec<String>,
    ) -> impl Future<Output = Vec<Result<Answer, Unavailable>>> + Send + use<> {
        let count = documents.len();
        let (reply, answers) = oneshot::channel();
        // With a full queue the job and its sender are dropped, which ends the wait at once.
        drop(self.jobs.try_send(Job { documents, reply }));
        async move {
            let busy = || Err(Unavailable::new(Trouble::Busy));
            answers.await.unwrap_or_else(|_| (0..count).map(|_| busy()).collect())
        }
    }
}

/// Rules of one thread.
pub(super) struct Judge {
    pristine: regorus::Engine,
    engine: regorus::Engine,
    reads: Reads,
    cache: Cache,
    revision: Digest,
}

impl Judge {
    pub(super) fn new(engine: &regorus::Engine, reads: Reads, revision: Digest) -> Self {
        let (pristine, engine, cache) = (engine.clone(), engine.clone(), Cache::default());
        Self { pristine, engine, reads, cache, revision }
    }

    fn work(mut self, queue: &Mutex<Receiver<Job>>) {
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        while let Ok(job) = next() {
            let mut answers = Vec::with_capacity(job.documents.len());
            for document in &job.documents {
                if job.reply.is_closed() {
                    break;
                }
                answers.push(self.judge(document));
            }
            // The receiver may be gone.
            let _ = job.reply.send(answers);
        }
    }

    pub(super) fn judge(&mut self, document: &str) -> Result<Answer, Unavailable> {
        // A document of another version has no cache key and is evaluated without the cache.
        let input = serde_json::from_str::<Input>(document).ok();
        let key = input.and_then(|input| self.reads.see(&input).key());
        if let Some(answer) = key.as_ref().and_then(|key| self.cache.get(key)) {
            return Ok(answer);
        }
        let answer = workers::judge(&mut self.engine, document, self.revision);
        match (&answer, key) {
            (Ok(answer), Some(key)) => self.cache.put(key, answer),
            (Ok(_), None) => {}
            // A failed evaluation may leave state in the engine.
            (Err(_), _) => self.engine = self.pristine.clone(),
        }
        answer
    }
}
