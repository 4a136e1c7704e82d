//! Registry: one current catalogue, replaced as a whole.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use ringfence_types::{Clock, Digest, Tool};
use tokio::sync::{Semaphore, watch};

use crate::{
    catalogue::Catalogue,
    config::{Config, Error},
    entry::Entry,
    scan::{self, Sources},
    standing::Standing,
    upload,
};

/// Registry of tools. Clones share their state.
#[derive(Debug, Clone)]
pub struct Registry {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) sources: Sources,
    pub(crate) clock: Arc<dyn Clock>,
    /// Locked only to clone the `Arc`.
    current: RwLock<Arc<Catalogue>>,
    /// Locked while sources are read or uploads change, so that no scan sees half of a change and
    /// no older scan replaces a newer one.
    pub(crate) writer: Mutex<()>,
    changes: watch::Sender<u64>,
    /// Permits for concurrent unpacking of uploads; each may need some tens of megabytes.
    pub(crate) unpacking: Arc<Semaphore>,
}

impl Registry {
    /// Reads all tools. Broken skills never fail it; they are listed.
    pub fn open(config: Config) -> Result<Self, Error> {
        let builtins = builtins(config.builtins)?;
        upload::prepare(&config.uploads)
            .map_err(|error| Error::Uploads { path: config.uploads.clone(), error })?;
        let sources = Sources {
            builtins,
            folders: config.folders,
            embedded: config.embedded,
            uploads: config.uploads,
            rejected: Mutex::default(),
            standing: RwLock::default(),
        };
        let inner = Inner {
            sources,
            clock: config.clock,
            current: RwLock::default(),
            writer: Mutex::default(),
            changes: watch::Sender::new(0),
            unpacking: Arc::new(Semaphore::new(2)),
        };
        let registry = Self { inner: Arc::new(inner) };
        registry.rescan();
        Ok(registry)
    }

    /// Current snapshot.
    pub fn catalogue(&self) -> Arc<Catalogue> {
        Arc::clone(&self.inner.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counter of catalogue changes, for waiting on the next one.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changes.subscribe()
    }

    /// Rescans all sources now. Blocks on files.
    pub fn rescan(&self) {
        let _alone = self.inner.writer.lock().unwrap_or_else(PoisonError::into_inner);
        self.inner.rescan();
    }
}

impl Registry {
    /// Takes over the state of tools that the store has. Blocks on files.
    pub fn set_standing(&self, standing: Standing) {
        let kept = &self.inner.sources.standing;
        *kept.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(standing);
        self.rescan();
    }

    /// The state of tools that was taken over last.
    pub fn standing(&self) -> Arc<Standing> {
        self.inner.sources.standing.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Rejected skills that are remembered; beyond that, the list starts anew.
const MAX_REJECTED: usize = 1_000;

impl Registry {
    /// Lists the skill of this digest as broken from now on, because a closer look than a scan found
    /// that it cannot work. Blocks on files.
    pub fn reject(&self, digest: Digest, problem: String) {
        let rejected = &self.inner.sources.rejected;
        let mut rejected = rejected.lock().unwrap_or_else(PoisonError::into_inner);
        if rejected.len() >= MAX_REJECTED {
            rejected.clear();
        }
        rejected.insert(digest, problem);
        drop(rejected);
        self.rescan();
    }
}

impl Inner {
    /// Rescans all sources; the caller holds `writer`.
    pub(crate) fn rescan(&self) {
        let previous = Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner));
        let next = scan::scan(&self.sources, &previous, self.clock.now());
        if next.is_same(&previous) {
            return;
        }
        note(&previous, &next);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        self.changes.send_modify(|count| *count += 1);
    }
}

/// Logs changes and broken skills, because a missing tool is noticed late.
fn note(before: &Catalogue, now: &Catalogue) {
    let (tools, broken) = (now.entries().len(), now.broken().len());
    match before.entries().is_empty() {
        true => tracing::info!(tools, broken, "the tools are loaded"),
        false => note_changes(before, now),
    }
    for skill in now.broken().iter().filter(|skill| !before.broken().contains(skill)) {
        let folder = skill.folder.as_ref().map(|folder| folder.display().to_string());
        let problems = skill.problems.join("; ");
        tracing::warn!(skill = skill.name, folder, problems, "broken skill");
    }
}

fn note_changes(before: &Catalogue, now: &Catalogue) {
    let find = |all: &Catalogue, entry: &Entry| {
        all.get(entry.tool.name.as_str(), Some(&entry.tool.version)).cloned()
    };
    let tell = |entry: &Entry, change: &str| {
        let (tool, version) = (entry.tool.name.as_str(), entry.tool.version.as_str());
        tracing::info!(tool, version, change, "a tool changed");
    };
    for entry in now.entries() {
        match find(before, entry) {
            None => tell(entry, "added"),
            Some(old) if old.tool.digest != entry.tool.digest => tell(entry, "changed"),
            Some(_) => {}
        }
    }
    let removed = before.entries().iter().filter(|entry| find(now, entry).is_none());
    removed.for_each(|entry| tell(entry, "removed"));
}

fn builtins(tools: Vec<Tool>) -> Result<Vec<Arc<Entry>>, Error> {
    let mut entries: Vec<Arc<Entry>> = Vec::new();
    for tool in tools {
        let name = tool.name.to_string();
        if entries.iter().any(|known| known.tool.reference() == tool.reference()) {
            return Err(Error::Builtin { name, problems: vec!["there are two of it".to_owned()] });
        }
        let entry = Entry::builtin(tool).map_err(|problems| Error::Builtin { name, problems })?;
        entries.push(Arc::new(entry));
    }
    Ok(entries)
}
