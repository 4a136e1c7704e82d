//! A log of decisions in OPA's format, so that what reads OPA's reads ours.
//!
//! Entries go to a file, one per line, or to a service that takes them as OPA sends them: a gzipped
//! list to `/logs`. On the way to a service they are on disk first, so that neither a service that is
//! away nor a restart loses one. When the disk cannot keep up, decisions wait for it.
//!
//! Invariant: an entry that could not be kept is counted, logged as an error, and shown in the status.

mod entry;
mod mask;
mod spool;
mod upload;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::Instant,
};

use async_trait::async_trait;
use reqwest::Url;
use ringfence_types::{Digest, TenantId};
use tokio::{
    sync::{mpsc, watch},
    task::AbortHandle,
};

use self::{entry::Entry, spool::Keeper};
use crate::{
    Answer, Bundle, CanaryReport, Engine, Input, Part, State, Status, Unavailable, rego::STACK,
};

/// Entries on their way to the disk; more make decisions wait.
const QUEUE: usize = 1024;

/// Where decisions are logged.
#[derive(Debug, Clone)]
pub struct LogConfig {
    /// Where to.
    pub target: Target,
    /// What is left out of every entry, as JSON pointers such as `/input/args`.
    pub erase: Vec<String>,
    /// What is said of this server in every entry.
    pub labels: Vec<(String, String)>,
}

/// Where entries go.
#[derive(Debug, Clone)]
pub enum Target {
    /// Appended to a file, one per line.
    File(PathBuf),
    /// Sent to a service.
    Service {
        /// The whole address: `https://logs.example/logs`.
        url: Url,
        /// Where entries wait for it.
        spool: PathBuf,
    },
}

/// The log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// No place on disk.
    #[error("cannot open the decision log `{}`", .path.display())]
    Open {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// No client for the service.
    #[error("no client for the decision log")]
    Client(#[from] reqwest::Error),
}

/// What became of entries.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// On disk.
    kept: AtomicU64,
    /// Taken by the service.
    sent: AtomicU64,
    /// Could not be kept.
    lost: AtomicU64,
    /// Kept without input and result, because the rules could not say what to mask.
    bare: AtomicU64,
    /// Tries in a row in which the service did not take any.
    failing: AtomicU64,
}

/// An entry on its way to the disk.
#[derive(Debug)]
struct Pending {
    entry: serde_json::Value,
    /// The rules in force, which may mask some of it.
    bundle: Option<Arc<Bundle>>,
}

/// An engine whose decisions are logged.
#[derive(Debug)]
pub struct Logged {
    inner: Arc<dyn Engine>,
    config: LogConfig,
    counts: Arc<Counts>,
    number: AtomicU64,
    /// Taken when this is dropped, which ends the thread.
    queue: Option<mpsc::Sender<Pending>>,
    thread: Option<JoinHandle<()>>,
    sending: Option<AbortHandle>,
}

impl Logged {
    /// Needs a runtime.
    pub fn open(inner: Arc<dyn Engine>, config: LogConfig) -> Result<Self, LogError> {
        let counts = Arc::new(Counts::default());
        let (queue, waiting) = mpsc::channel(QUEUE);
        let keeper = Keeper::open(&config.target, counts.clone())?;
        let sending = match &config.target {
            Target::File(_) => None,
            Target::Service { url, spool } => {
                let sender = upload::Sender::new(url.clone(), spool.clone(), counts.clone())?;
                Some(tokio::spawn(sender.run(keeper.fresh())).abort_handle())
            }
        };
        // Masks are rules, and rules nest on the stack.
        let thread = std::thread::Builder::new().name("policy-log".to_owned()).stack_size(STACK);
        let thread = thread
            .spawn(move || keeper.run(waiting))
            .map_err(|error| LogError::Open { path: config.target.path().to_owned(), error })?;
        let (queue, thread, number) = (Some(queue), Some(thread), AtomicU64::new(0));
        Ok(Self { inner, config, counts, number, queue, thread, sending })
    }

    async fn log(&self, input: &Input, said: &Result<Answer, Unavailable>, took: u128) {
        let entry = Entry {
            input,
            said,
            took,
            engine: self.inner.answering(input),
            number: self.number.fetch_add(1, Relaxed) + 1,
        };
        let bundle = self.inner.parts(input).into_iter().find_map(|part| part.bundle);
        let pending = Pending { entry: entry.object(&self.config), bundle };
        let is_kept = match &self.queue {
            Some(queue) => queue.send(pending).await.is_ok(),
            None => false,
        };
        if !is_kept {
            self.counts.lost(1, "the thread that keeps them is gone");
        }
    }
}

impl Counts {
    fn lost(&self, entries: u64, why: &str) {
        self.lost.fetch_add(entries, Relaxed);
        tracing::error!(entries, why, "decisions are missing in the decision log");
    }
}

impl Target {
    fn path(&self) -> &std::path::Path {
        match self {
            Target::File(path) | Target::Service { spool: path, .. } => path,
        }
    }
}

impl Drop for Logged {
    /// What waits is written first; what waits for a service is sent after the next start.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // It ends with the queue; a panic there was logged.
            let _ = thread.join();
        }
        if let Some(sending) = &self.sending {
            sending.abort();
        }
    }
}

#[async_trait]
impl Engine for Logged {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn revision(&self) -> Digest {
        self.inner.revision()
    }

    fn bundle(&self) -> Option<Arc<Bundle>> {
        self.inner.bundle()
    }

    async fn evaluate(&self, input: &Input) -> Result<Answer, Unavailable> {
        let started = Instant::now();
        let said = self.inner.evaluate(input).await;
        self.log(input, &said, started.elapsed().as_nanos()).await;
        said
    }

    fn answering(&self, input: &Input) -> String {
        self.inner.answering(input)
    }

    fn parts(&self, input: &Input) -> Vec<Part> {
        self.inner.parts(input)
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.inner.changed()
    }

    fn status(&self) -> Vec<Status> {
        let count = |number: &AtomicU64| number.load(Relaxed);
        let Counts { kept, sent, lost, bare, failing } = &*self.counts;
        let mut problems = Vec::new();
        if count(lost) > 0 {
            problems.push(format!("{} entries could not be kept", count(lost)));
        }
        if count(bare) > 0 {
            let words =
                "entries have neither input nor result: the rules failed to say what to mask";
            problems.push(format!("{} {words}", count(bare)));
        }
        if count(failing) > 0 {
            let waiting = count(kept).saturating_sub(count(sent));
            problems.push(format!("the service takes no entries: {waiting} wait on disk"));
        }
        let state = if problems.is_empty() { State::Well } else { State::Troubled };
        let engine = "decision log".to_owned();
        let mut all = self.inner.status();
        all.push(Status { engine, revision: self.inner.revision(), state, problems });
        all
    }

    fn canaries(&self) -> Vec<CanaryReport> {
        self.inner.canaries()
    }

    fn found(&self) -> watch::Receiver<u64> {
        self.inner.found()
    }

    fn fail_open(&self) -> Vec<TenantId> {
        self.inner.fail_open()
    }
}
