//! Encoder on threads of its own, behind a bounded queue.
//!
//! A thread takes everything that waits, up to a batch, so that batches grow with the load and a single
//! text never waits for others. Models are loaded at first use and dropped when idle.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::Duration,
};

use tokio::sync::oneshot;

use crate::{Encoder, Error, Library, State, catalogue, normalise};

/// Bounds of an embedder.
#[derive(Debug, Clone)]
pub struct EmbedderConfig {
    /// Threads that encode.
    pub threads: usize,
    /// Texts that may wait; more are refused.
    pub queue: usize,
    /// Texts that are encoded together at most.
    pub batch: usize,
    /// Time without work after which loaded models are dropped.
    pub idle: Duration,
    /// Model that is used where no other is named.
    pub model: String,
}

impl Default for EmbedderConfig {
    fn default() -> Self {
        Self {
            threads: 1,
            queue: 1_024,
            batch: 32,
            idle: Duration::from_secs(600),
            model: catalogue::DEFAULT_MODEL.to_owned(),
        }
    }
}

/// Vector of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedding {
    /// The vector.
    pub vector: Vec<f32>,
    /// Name of the model.
    pub model: &'static str,
}

/// Sentence vectors for the whole server. Cheap to clone; threads end with the last clone.
#[derive(Debug, Clone)]
pub struct Embedder {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    library: Library,
    config: EmbedderConfig,
    /// Queue of the threads, which start with the first text.
    queue: Mutex<Option<SyncSender<Job>>>,
}

#[derive(Debug)]
struct Job {
    model: &'static str,
    text: String,
    reply: oneshot::Sender<Result<Vec<f32>, Error>>,
}

impl Embedder {
    /// Embedder over the models of a library. Nothing is loaded yet.
    pub fn new(library: Library, config: EmbedderConfig) -> Self {
        Self { shared: Arc::new(Shared { library, config, queue: Mutex::default() }) }
    }

    /// The library of its models.
    pub fn library(&self) -> &Library {
        &self.shared.library
    }

    /// Name of the model that is used where no other is named.
    pub fn default_model(&self) -> &str {
        &self.shared.config.model
    }

    /// Whether the weights of the default model are there.
    pub fn is_ready(&self) -> bool {
        self.shared.library.state(self.default_model()).is_ok_and(|state| state == State::Ready)
    }

    /// Vector of a text by a model, or by the default one. Dropping the future gives up waiting.
    pub async fn embed(
        &self,
        model: Option<&str>,
        text: &str,
        is_normalised: bool,
    ) -> Result<Embedding, Error> {
        let model = catalogue::find(model.unwrap_or(self.default_model()))?.name;
        let (reply, answer) = oneshot::channel();
        self.send(Job { model, text: text.to_owned(), reply })?;
        let mut vector = answer.await.map_err(|_| Error::Stopped)??;
        if is_normalised {
            normalise(&mut vector);
        }
        Ok(Embedding { vector, model })
    }

    fn send(&self, job: Job) -> Result<(), Error> {
        let mut queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = match &*queue {
            Some(sender) => sender.try_send(job),
            None => {
                let sender = self.start();
                queue.insert(sender).try_send(job)
            }
        };
        sent.map_err(|error| match error {
            TrySendError::Full(_) => Error::Busy,
            TrySendError::Disconnected(_) => Error::Stopped,
        })
    }

    fn start(&self) -> SyncSender<Job> {
        let config = &self.shared.config;
        let (sender, receiver) = sync_channel(config.queue.max(1));
        let receiver = Arc::new(Mutex::new(receiver));
        for number in 0..config.threads.max(1) {
            let worker = Worker {
                library: self.shared.library.clone(),
                config: config.clone(),
                jobs: receiver.clone(),
                loaded: BTreeMap::new(),
            };
            let name = format!("models-{number}");
            // Without threads every text is answered with `Stopped`.
            let _ = thread::Builder::new().name(name).spawn(move || worker.run());
        }
        sender
    }
}

#[derive(Debug)]
struct Worker {
    library: Library,
    config: EmbedderConfig,
    jobs: Arc<Mutex<Receiver<Job>>>,
    loaded: BTreeMap<&'static str, Encoder>,
}

impl Worker {
    fn run(mut self) {
        while let Some(batch) = self.next() {
            let mut by_model: BTreeMap<_, Vec<Job>> = BTreeMap::new();
            // A caller that gave up has dropped its end.
            for job in batch.into_iter().filter(|job| !job.reply.is_closed()) {
                by_model.entry(job.model).or_default().push(job);
            }
            for (model, jobs) in by_model {
                self.encode(model, jobs);
            }
        }
    }

    /// The next batch: waits for one text, then takes all that wait already. None after the end.
    fn next(&mut self) -> Option<Vec<Job>> {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let first = loop {
            match jobs.recv_timeout(self.config.idle) {
                Ok(job) => break job,
                Err(RecvTimeoutError::Timeout) => self.loaded.clear(),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        };
        let others = self.config.batch.saturating_sub(1);
        Some(std::iter::once(first).chain(jobs.try_iter().take(others)).collect())
    }

    fn encode(&mut self, model: &'static str, jobs: Vec<Job>) {
        let encoder = match self.loaded.entry(model) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => match self.library.open(model) {
                Ok(encoder) => entry.insert(encoder),
                Err(error) => {
                    // The caller may have gone.
                    return jobs.into_iter().for_each(|job| {
                        let _ = job.reply.send(Err(error.clone()));
                    });
                }
            },
        };
        let texts: Vec<_> = jobs.iter().map(|job| job.text.as_str()).collect();
        let vectors = encoder.encode(&texts);
        for (job, vector) in jobs.into_iter().zip(vectors) {
            let _ = job.reply.send(Ok(vector));
        }
    }
}
