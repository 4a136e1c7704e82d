//! Heads: the newest checkpoint, stored outside the database in `ledger.head` beside the key, and
//! where the operator configures it.
//!
//! At a start the log must continue every head that is found, so that an older database or another
//! history is detected. Heads are written in the background, after their commit: no call waits for
//! one, and none is ever ahead of the database. A server that is killed leaves a head that is at
//! most [`WRITE_INTERVAL`] and one write behind.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use prometheus_client::{metrics::counter::Counter, registry::Registry};
use reqwest::{StatusCode, Url};
use ringfence_engine::LogScan;
use ringfence_ledger::{Checkpoint, Note, PublicKey, signed_checkpoint};
use ringfence_store::{Signed, Store};
use tokio::{sync::watch, task::JoinHandle};

use crate::failure::Failure;

/// Time between two writes of a head, while entries come.
const WRITE_INTERVAL: Duration = Duration::from_millis(500);

/// Timeout of a request to `ledger.head_url`.
const URL_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum bytes of a head.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// Additional places of heads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heads {
    /// Another file, on another disk or in a protected directory.
    pub(crate) path: Option<PathBuf>,
    /// URL that takes heads by PUT and returns them by GET.
    pub(crate) url: Option<Url>,
}

/// Path of the head beside the key.
pub(super) fn path(data: &Path) -> PathBuf {
    data.join("ledger.head")
}

/// One place of a head.
#[derive(Debug, Clone)]
enum HeadPlace {
    File(PathBuf),
    Url(Url, reqwest::Client),
}

impl HeadPlace {
    /// Name for messages; a URL may have a secret in its path or query.
    fn name(&self) -> String {
        match self {
            Self::File(path) => format!("`{}`", path.display()),
            Self::Url(url, _) => format!("ledger.head_url ({})", url.host_str().unwrap_or("-")),
        }
    }

    async fn read(&self) -> io::Result<Option<String>> {
        match self {
            Self::File(path) => match fs::read_to_string(path) {
                Ok(text) => Ok(Some(text)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            },
            Self::Url(url, http) => {
                let answer = http.get(url.clone()).send().await.map_err(without_url)?;
                if matches!(answer.status(), StatusCode::NOT_FOUND | StatusCode::NO_CONTENT) {
                    return Ok(None);
                }
                let mut answer = answer.error_for_status().map_err(without_url)?;
                let mut bytes = Vec::new();
                while let Some(part) = answer.chunk().await.map_err(without_url)? {
                    bytes.extend_from_slice(&part);
                    if bytes.len() > MAX_HEAD_BYTES {
                        return Err(io::Error::other("the answer is too large for a checkpoint"));
                    }
                }
                String::from_utf8(bytes).map(Some).map_err(io::Error::other)
            }
        }
    }

    async fn write(&self, note: &str) -> io::Result<()> {
        match self {
            Self::File(path) => {
                let (path, note) = (path.clone(), note.to_owned());
                let written = tokio::task::spawn_blocking(move || replace(&path, &note)).await;
                written.unwrap_or_else(|_| Err(io::Error::other("interrupted")))
            }
            Self::Url(url, http) => {
                let request = http.put(url.clone()).header("content-type", "text/plain");
                let answer = request.body(note.to_owned()).send().await.map_err(without_url)?;
                answer.error_for_status().map(drop).map_err(without_url)
            }
        }
    }
}

fn without_url(error: reqwest::Error) -> io::Error {
    io::Error::other(error.without_url())
}

/// Replaces a file atomically, also across a crash of the machine. An old version that comes back
/// then does no harm: it is of the same log.
fn replace(path: &Path, note: &str) -> io::Result<()> {
    use io::Write as _;
    let fresh = path.with_extension("head.new");
    let mut file = fs::File::create(&fresh)?;
    file.write_all(note.as_bytes())?;
    file.sync_data()?;
    fs::rename(&fresh, path)
}

/// A head that was found.
#[derive(Debug)]
pub(super) struct FoundHead {
    /// Name of its place.
    name: String,
    note: String,
    size: u64,
}

/// The heads that were found at a start.
#[derive(Debug, Default)]
pub(super) struct FoundHeads {
    heads: Vec<FoundHead>,
}

/// A log that does not continue a head.
#[derive(Debug)]
pub(super) struct Departed {
    /// The head, as a signed note.
    pub(super) note: String,
    /// Description of the problem.
    pub(super) causes: Vec<String>,
}

impl Heads {
    fn places(&self, data: &Path) -> Result<Vec<HeadPlace>, Failure> {
        let mut places = vec![HeadPlace::File(path(data))];
        places.extend(self.path.clone().map(HeadPlace::File));
        if let Some(url) = &self.url {
            // The client library has no TLS provider of its own.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let http = reqwest::Client::builder()
                .user_agent(concat!("ringfence/", env!("CARGO_PKG_VERSION")))
                .timeout(URL_TIMEOUT)
                .redirect(reqwest::redirect::Policy::none())
                .no_proxy()
                .build()
                .map_err(|error| Failure::because("cannot prepare ledger.head_url", &error))?;
            places.push(HeadPlace::Url(url.clone(), http));
        }
        Ok(places)
    }

    /// All readable heads. A URL that does not answer is reported and skipped: the server must not
    /// depend on it, and the file beside the key is compared in any case.
    pub(super) async fn read(&self, data: &Path) -> Result<FoundHeads, Failure> {
        let mut heads = Vec::new();
        for place in self.places(data)? {
            let name = place.name();
            let note = match (place.read().await, &place) {
                (Ok(Some(note)), _) => note,
                (Ok(None), _) => continue,
                (Err(error), HeadPlace::Url(..)) => {
                    tracing::warn!(%error, "{name} does not give the newest checkpoint");
                    continue;
                }
                (Err(error), HeadPlace::File(_)) => {
                    let message = format!("cannot read the newest checkpoint in {name}");
                    return Err(Failure::because(message, &error));
                }
            };
            let read = Note::parse(&note).and_then(|note| Checkpoint::of(&note));
            let Some(checkpoint) = read else {
                let cause =
                    "it is not a checkpoint of a log: damaged, or modified outside this server";
                return Err(refused(&name, vec![cause.to_owned()]).hint(move_away(&name)));
            };
            heads.push(FoundHead { name, note, size: checkpoint.size });
        }
        Ok(FoundHeads { heads })
    }

    /// Writes the newest checkpoint to all places, now.
    pub(super) async fn write(&self, data: &Path, store: &dyn Store) -> Result<(), Failure> {
        let newest = store.checkpoint().await;
        let newest = newest.map_err(|error| Failure::because("cannot read the ledger", &error))?;
        let Some(Signed { note, .. }) = newest else { return Ok(()) };
        for place in self.places(data)? {
            place.write(&note).await.map_err(|error| {
                let message = format!("cannot keep the newest checkpoint in {}", place.name());
                Failure::because(message, &error)
            })?;
        }
        Ok(())
    }
}

impl FoundHeads {
    /// Whether the head beside the key is missing. That is only a warning: a person who can remove
    /// the file can also read the key beside it, and data of earlier versions has none.
    pub(super) fn is_missing(&self, data: &Path) -> bool {
        let name = HeadPlace::File(path(data)).name();
        !self.heads.iter().any(|head| head.name == name)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// The head with the most entries.
    pub(super) fn newest(&self) -> Option<&str> {
        self.heads.iter().max_by_key(|head| head.size).map(|head| head.note.as_str())
    }

    /// Sizes at which the log is compared.
    pub(super) fn sizes(&self) -> Vec<u64> {
        self.heads.iter().map(|head| head.size).collect()
    }

    /// Compares the log with every head: of the same log, signed by its keys, and of the same
    /// history. A forged head is an error; a formerly valid one is [`Departed`].
    pub(super) fn compare(
        &self,
        scan: &LogScan,
        at_hand: &PublicKey,
    ) -> Result<Option<Departed>, Failure> {
        for head in &self.heads {
            if let Some(departed) = head.compare(scan, at_hand)? {
                return Ok(Some(departed));
            }
        }
        Ok(None)
    }
}

impl FoundHead {
    fn compare(&self, scan: &LogScan, at_hand: &PublicKey) -> Result<Option<Departed>, Failure> {
        let Self { name, note: text, size } = self;
        let note = Note::parse(text).ok_or_else(|| refused(name, Vec::new()))?;
        let head = Checkpoint::of(&note).ok_or_else(|| refused(name, Vec::new()))?;
        // A database older than the newest key does not name that key.
        let is_signed = signed_checkpoint(text, &scan.authority.signers).is_ok()
            || note.is_signed_by(&head.origin, at_hand);
        if !is_signed {
            let cause =
                "no key of this log has signed it: of another log, or modified outside this server";
            return Err(refused(name, vec![cause.to_owned()]).hint(move_away(name)));
        }
        let found = scan.size();
        let causes = if found < *size {
            vec![
                format!("the ledger in the database has {found} entries, {name} is over {size}"),
                "an older database was put back, or entries were deleted".to_owned(),
            ]
        } else if scan.root_at(*size) != Some(head.root) {
            vec![
                format!("the first {size} entries are not those that {name} commits to"),
                "another history was written after an older database was put back, or the log \
                 was rewritten"
                    .to_owned(),
            ]
        } else {
            return Ok(None);
        };
        Ok(Some(Departed { note: text.clone(), causes }))
    }
}

fn refused(name: &str, causes: Vec<String>) -> Failure {
    Failure::listing(format!("the newest checkpoint in {name} cannot be used"), causes)
}

fn move_away(name: &str) -> String {
    format!(
        "put {name} back from a copy; if you know why it differs, check the log with `ringfence \
         verify --log --checkpoint` and one you kept elsewhere, and move it away"
    )
}

impl Departed {
    /// The reason why the server does not start, and the next step.
    pub(super) fn failure(mut self) -> Failure {
        self.causes.push(
            "keys that were revoked and approvals that were used since would count again"
                .to_owned(),
        );
        Failure::listing("the ledger is not a continuation of its newest checkpoint", self.causes)
            .hint(
                "put the newest database back; or, to go on with this one, revoke again what has to \
                 be and accept it on record: ringfence ledger accept-rollback",
            )
    }
}

/// Background task that writes heads.
#[derive(Debug)]
pub(crate) struct HeadKeeper {
    tasks: Vec<JoinHandle<()>>,
    stop: watch::Sender<bool>,
}

impl HeadKeeper {
    /// Starts it; each place has its own task, so that a slow one delays no other.
    pub(crate) fn start(
        heads: &Heads,
        data: &Path,
        store: &Arc<dyn Store>,
        registry: &mut Registry,
    ) -> Result<Self, Failure> {
        let failed = Counter::default();
        let about = "Newest checkpoints that could not be kept outside the database";
        registry.register("ringfence_ledger_head_failures", about, failed.clone());
        let stop = watch::Sender::new(false);
        let tasks = heads.places(data)?.into_iter().map(|place| {
            let (store, stop) = (store.clone(), stop.subscribe());
            tokio::spawn(keep(place, store, failed.clone(), stop))
        });
        Ok(Self { tasks: tasks.collect(), stop })
    }

    /// Writes the last heads and ends.
    pub(crate) async fn close(self) {
        self.stop.send_replace(true);
        for task in self.tasks {
            // A request has its own timeout, so this ends.
            let _ = task.await;
        }
    }
}

async fn keep(
    place: HeadPlace,
    store: Arc<dyn Store>,
    failed: Counter,
    mut stop: watch::Receiver<bool>,
) {
    let mut grown = store.grown();
    let (mut kept, mut is_failing) = (0, false);
    loop {
        let is_last = *stop.borrow();
        let written = match store.checkpoint().await {
            Ok(Some(newest)) if newest.size == kept => Ok(kept),
            Ok(Some(Signed { size, note })) => place.write(&note).await.map(|()| size),
            Ok(None) => Ok(0),
            Err(error) => Err(io::Error::other(error)),
        };
        match written {
            Ok(size) => {
                if is_failing {
                    tracing::info!("{} has the newest checkpoint again", place.name());
                }
                (kept, is_failing) = (size, false);
            }
            Err(error) => {
                failed.inc();
                if !is_failing {
                    tracing::warn!(%error, "{} does not keep the newest checkpoint", place.name());
                }
                is_failing = true;
            }
        }
        if is_last {
            return;
        }
        let next = async {
            tokio::time::sleep(WRITE_INTERVAL).await;
            if !is_failing {
                // The store outlives this task.
                let _ = grown.wait_for(|size| *size != kept).await;
            }
        };
        tokio::select! {
            () = next => {}
            _ = stop.changed() => {}
        }
    }
}
