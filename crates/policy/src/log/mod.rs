//! Decision log in OPA's format, so that readers of OPA's log can read it.
//!
//! Entries go to a file, one per line, or to a service in OPA's upload format: a gzipped list to
//! `/logs`. Entries for a service are spooled on disk first, so that neither an outage of the service
//! nor a restart loses one. When the disk cannot keep up, decisions wait for it.
//!
//! Invariant: an entry that could not be written is counted, logged as an error, and shown in the
//! status.

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

use self::{entry::Entry, spool::Writer};
use crate::{
    Answer, Bundle, CanaryReport, Engine, Input, Part, State, Status, Unavailable, rego::STACK,
};

/// Entries that may wait for the disk; beyond that, decisions wait.
const MAX_QUEUED: usize = 1024;

/// Configuration of the decision log.
#[derive(Debug, Clone)]
pub struct LogConfig {
    /// Destination of the entries.
    pub target: Target,
    /// JSON Pointers removed from every entry, such as `/input/args`.
    pub erase: Vec<String>,
    /// Labels of this server in every entry.
    pub labels: Vec<(String, String)>,
}

/// Destination of the entries.
#[derive(Debug, Clone)]
pub enum Target {
    /// File, one entry per line.
    File(PathBuf),
    /// Remote service.
    Service {
        /// Full URL: `https://logs.example/logs`.
        url: Url,
        /// Directory of entries that are not uploaded yet.
        spool: PathBuf,
    },
}

/// Failure to open the log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file or spool directory cannot be opened.
    #[error("cannot open the decision log `{}`", .path.display())]
    Open {
        /// Path of the file or directory.
        path: PathBuf,
        /// Cause of the failure.
        #[source]
        error: std::io::Error,
    },
    /// The address of the service cannot be used.
    #[error("the address of the decision log {0}")]
    Address(#[from] ringfence_egress::UrlProblem),
}

/// Number of entries by fate.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Written to disk.
    kept: AtomicU64,
    /// Accepted by the service.
    sent: AtomicU64,
    /// Lost, because they could not be written.
    lost: AtomicU64,
    /// Written without input and result, because the mask could not be evaluated.
    bare: AtomicU64,
    /// Consecutive failed uploads.
    failing: AtomicU64,
}

/// Entry on its way to the disk.
#[derive(Debug)]
struct Pending {
    entry: serde_json::Value,
    /// Rules in force, which may mask parts of it.
    bundle: Option<Arc<Bundle>>,
}

/// Engine whose decisions are logged.
#[derive(Debug)]
pub struct Logged {
    inner: Arc<dyn Engine>,
    config: LogConfig,
    counts: Arc<Counts>,
    number: AtomicU64,
    /// Sender to the log thread; dropping it ends the thread.
    queue: Option<mpsc::Sender<Pending>>,
    thread: Option<JoinHandle<()>>,
    sending: Option<AbortHandle>,
}

impl Logged {
    /// Opens the log. Needs a runtime.
    pub fn open(inner: Arc<dyn Engine>, config: LogConfig) -> Result<Self, LogError> {
        let counts = Arc::new(Counts::default());
        let (queue, waiting) = mpsc::channel(MAX_QUEUED);
        let keeper = Writer::open(&config.target, counts.clone())?;
        let sending = match &config.target {
            Target::File(_) => None,
            Target::Service { url, spool } => {
                let address = ringfence_egress::Target::parse(url.as_str())?;
                let sender = upload::Sender::new(address, spool.clone(), counts.clone());
                Some(tokio::spawn(sender.run(keeper.fresh())).abort_handle())
            }
        };
        // Masks are rules, and evaluating rules needs a deep stack.
        let thread = std::thread::Builder::new().name("policy-log".to_owned()).stack_size(STACK);
        let thread = thread
            .spawn(move || keeper.run(waiting))
            .map_err(|error| LogError::Open { path: config.target.path().to_owned(), error })?;
        let (queue, thread, number) = (Some(queue), Some(thread), AtomicU64::new(0));
        Ok(Self { inner, config, counts, number, queue, thread, sending })
    }

    async fn log(&self, input: &Input, answer: &Result<Answer, Unavailable>, took: u128) {
        let entry = Entry {
            input,
            answer,
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
    /// Writes the queued entries; entries for a service are uploaded after the next start.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // The thread ends with the queue; a panic there was logged.
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
        let answer = self.inner.evaluate(input).await;
        self.log(input, &answer, started.elapsed().as_nanos()).await;
        answer
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
