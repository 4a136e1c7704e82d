//! Rules from a folder that are replaced while they are in force.
//!
//! The folder is read again every moment; once it has been the same twice and is not what is in
//! force, it is loaded and put in force in one step. Rules that cannot be used change nothing but
//! the status, which says so until the folder is good again.
//!
//! Invariant: there are always rules in force, and they are whole.

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

/// How often the folder is read. Someone who saves a rule waits about twice as long.
const LOOK: Duration = Duration::from_millis(500);

/// Rules from a folder.
#[derive(Debug)]
pub struct Folder {
    name: String,
    path: PathBuf,
    current: RwLock<Arc<Rego>>,
    found: Mutex<Found>,
    ticks: watch::Sender<u64>,
}

/// What the folder held when it was last read.
#[derive(Debug, Default)]
struct Found {
    /// What was last seen, until it was seen twice.
    fresh: Option<Result<Digest, InvalidBundle>>,
    /// Why what is there now is not in force.
    problems: Option<InvalidBundle>,
    /// What was refused, if it could be read at all.
    bad: Option<Digest>,
    /// How often rules were put in force, and how often they were refused.
    loaded: u64,
    refused: u64,
}

impl Folder {
    /// Loads it for the first time. Reads files; call it where that may block.
    pub fn open(name: &str, path: &Path) -> Result<Self, InvalidBundle> {
        let rego = Rego::load(&Bundle::from_folder(path)?)?;
        Ok(Self {
            name: name.to_owned(),
            path: path.to_owned(),
            current: RwLock::new(Arc::new(rego)),
            found: Mutex::default(),
            ticks: watch::Sender::new(0),
        })
    }

    /// Picks up changes until `stop` completes.
    pub async fn watch(self: Arc<Self>, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => return,
                () = tokio::time::sleep(LOOK) => {}
            }
            let folder = self.clone();
            // Reading may block; a look that panicked is followed by the next one.
            let _ = tokio::task::spawn_blocking(move || folder.look()).await;
        }
    }

    /// Reads the folder once. What is new is put in force when it is found unchanged again.
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
        self.ticks.send_modify(|count| *count += 1);
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

    /// Whoever undid a mistake has put it right.
    fn is_as_in_force(&self) {
        if self.found().problems.take().is_some() {
            tracing::info!(
                policy = self.name,
                "the folder holds the rules that are in force again"
            );
        }
    }

    /// Loading is not repeated for what was refused.
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

    /// How often rules were put in force since the first time, and how often they were refused.
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
        // Held until the answer is there: rules that are replaced meanwhile finish what they began.
        let rego = self.current();
        rego.evaluate(input).await
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.ticks.subscribe()
    }

    fn status(&self) -> Vec<Status> {
        let problems = self.found().problems.clone();
        let problems = problems.map(|invalid| invalid.0).unwrap_or_default();
        let state = if problems.is_empty() { State::Well } else { State::Stale };
        let problems = problems.iter().map(ToString::to_string).collect();
        vec![Status { engine: self.name.clone(), revision: self.revision(), state, problems }]
    }
}
