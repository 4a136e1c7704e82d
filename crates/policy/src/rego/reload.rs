//! Folder of rules that is reloaded while it is in force.
//!
//! The folder is polled. Once two reads agree and differ from the rules in force, the new rules are
//! loaded and put in force in one step. Invalid rules change nothing but the status, which reports
//! them until the folder is valid again.
//!
//! Invariant: there are always complete rules in force.

use std::{
    future::Future,
    path::{Path, PathBuf},
    pin::pin,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use async_trait::async_trait;
use ringfence_types::Digest;
use tokio::sync::watch;

use super::{Bundle, InvalidBundle, Rego};
use crate::{Answer, Engine, Input, State, Status, Unavailable};

/// Polling interval. Saved rules are in force after about twice as long.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Rules from a folder.
#[derive(Debug)]
pub struct Folder {
    name: String,
    path: PathBuf,
    current: RwLock<Arc<Rego>>,
    found: Mutex<Found>,
    changes: watch::Sender<u64>,
}

/// Result of the last read of the folder.
#[derive(Debug, Default)]
struct Found {
    /// Last read, until a second one agrees with it.
    fresh: Option<Result<Digest, InvalidBundle>>,
    /// Problems of the rules in the folder, if they are not in force.
    problems: Option<InvalidBundle>,
    /// Digest of the refused rules, if they could be read at all.
    bad: Option<Digest>,
    /// Number of times that rules were put in force, and that they were refused.
    loaded: u64,
    refused: u64,
}

impl Folder {
    /// Loads the folder for the first time. Reads files, so it may block.
    pub fn open(name: &str, path: &Path) -> Result<Self, InvalidBundle> {
        let rego = Rego::load(&Bundle::from_folder(path)?)?;
        Ok(Self {
            name: name.to_owned(),
            path: path.to_owned(),
            current: RwLock::new(Arc::new(rego)),
            found: Mutex::default(),
            changes: watch::Sender::new(0),
        })
    }

    /// Polls for changes until `stop` completes.
    pub async fn watch(self: Arc<Self>, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => return,
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
            let folder = self.clone();
            // Reading may block; a panicked poll is followed by the next one.
            let _ = tokio::task::spawn_blocking(move || folder.look()).await;
        }
    }

    /// Reads the folder once. New rules are put in force when a second read agrees.
    pub fn look(&self) {
        let read = Bundle::from_folder(&self.path);
        let seen = read.as_ref().map(Bundle::digest).map_err(Clone::clone);
        let is_settled = {
            let mut found = self.found();
            let is_settled = found.fresh.as_ref() == Some(&seen);
            found.fresh = Some(seen);
            is_settled
        };
        if is_settled {
            self.settle(read);
        }
    }

    fn settle(&self, read: Result<Bundle, InvalidBundle>) {
        match read {
            Ok(bundle) if bundle.digest() == self.current().revision() => self.is_as_in_force(),
            Ok(bundle) if self.is_known_bad(bundle.digest()) => {}
            Ok(bundle) => match Rego::load(&bundle) {
                Ok(rego) => self.put(rego),
                Err(invalid) => self.refuse(invalid, Some(bundle.digest())),
            },
            Err(invalid) => self.refuse(invalid, None),
        }
    }

    fn put(&self, rego: Rego) {
        let revision = rego.revision();
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rego);
        {
            let mut found = self.found();
            found.problems = None;
            found.loaded += 1;
        }
        tracing::info!(policy = self.name, %revision, "new rules are in force");
        self.changes.send_modify(|count| *count += 1);
    }

    fn refuse(&self, invalid: InvalidBundle, of: Option<Digest>) {
        let mut found = self.found();
        found.bad = of;
        if found.problems.as_ref() == Some(&invalid) {
            return;
        }
        tracing::error!(
            policy = self.name,
            folder = %self.path.display(),
            problems = %invalid,
            "the changed rules cannot be used: the older ones stay in force"
        );
        found.problems = Some(invalid);
        found.refused += 1;
    }

    /// Clears the problems: the folder holds the rules in force again.
    fn is_as_in_force(&self) {
        if self.found().problems.take().is_some() {
            tracing::info!(
                policy = self.name,
                "the folder holds the rules that are in force again"
            );
        }
    }

    /// Whether these rules were refused already, so that they are not loaded again.
    fn is_known_bad(&self, digest: Digest) -> bool {
        let found = self.found();
        found.problems.is_some() && found.bad == Some(digest)
    }

    fn current(&self) -> Arc<Rego> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn found(&self) -> std::sync::MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of times that rules were put in force since the start, and that they were refused.
    pub fn reloads(&self) -> (u64, u64) {
        let found = self.found();
        (found.loaded, found.refused)
    }
}

#[async_trait]
impl Engine for Folder {
    fn name(&self) -> &str {
        &self.name
    }

    fn revision(&self) -> Digest {
        self.current().revision()
    }

    fn bundle(&self) -> Option<Arc<Bundle>> {
        self.current().bundle()
    }

    async fn evaluate(&self, input: &Input) -> Result<Answer, Unavailable> {
        // Held until the answer is there: replaced rules finish the evaluations that they began.
        let rego = self.current();
        rego.evaluate(input).await
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn status(&self) -> Vec<Status> {
        let problems = self.found().problems.clone();
        let problems = problems.map(|invalid| invalid.0).unwrap_or_default();
        let state = if problems.is_empty() { State::Well } else { State::Stale };
        let problems = problems.iter().map(ToString::to_string).collect();
        vec![Status { engine: self.name.clone(), revision: self.revision(), state, problems }]
    }
}
