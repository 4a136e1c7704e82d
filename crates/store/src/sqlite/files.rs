//! A folder of files named by the digest of what is in them.
//!
//! A file is written under another name, brought to disk and only then given its own, so what is
//! there is whole. That other name stays until the transaction is over: after a crash it tells
//! which files may belong to no row, without a look at all the others.

use std::{
    collections::HashMap,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt, FileExt as _, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use ringfence_types::Digest;

/// The folder.
#[derive(Debug)]
pub(super) struct Files {
    whole: PathBuf,
    incoming: PathBuf,
    next: AtomicU64,
    /// Digests that transactions under way refer to.
    held: Mutex<HashMap<Digest, Use>>,
}

/// Uses of one digest, from the first transaction that refers to it to the end of the last.
#[derive(Debug, Default)]
struct Use {
    count: usize,
    /// One of them made the file.
    made: bool,
    /// One of them was committed.
    kept: bool,
}

impl Files {
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        let (whole, incoming) = (folder.join("whole"), folder.join("incoming"));
        for directory in [&whole, &incoming] {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        File::open(folder)?.sync_all()?;
        Ok(Self { whole, incoming, next: AtomicU64::new(0), held: Mutex::default() })
    }

    /// To be read only: nothing is made, so the folder may be a read-only copy.
    pub(super) fn to_read(folder: &Path) -> Self {
        let (whole, incoming) = (folder.join("whole"), folder.join("incoming"));
        Self { whole, incoming, next: AtomicU64::new(0), held: Mutex::default() }
    }

    /// Exactly `length` bytes from `start`.
    pub(super) fn read(&self, digest: Digest, start: u64, length: u64) -> io::Result<Vec<u8>> {
        let length = usize::try_from(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let file = File::open(self.path(digest))?;
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, start)?;
        Ok(bytes)
    }

    /// Digests whose files may belong to no row.
    pub(super) fn unsettled(&self) -> io::Result<Vec<Digest>> {
        let mut digests = Vec::new();
        for entry in fs::read_dir(&self.incoming)? {
            let name = entry?.file_name();
            let hex = name.to_str().and_then(|name| name.split('-').next()).unwrap_or_default();
            digests.extend(format!("sha256:{hex}").parse::<Digest>().ok());
        }
        digests.sort_unstable();
        digests.dedup();
        Ok(digests)
    }

    /// Removes a file that belongs to no row.
    pub(super) fn settle(&self, digest: Digest, exists: bool) -> io::Result<()> {
        if exists { Ok(()) } else { remove(&self.path(digest)) }
    }

    /// Only when nothing is under way.
    pub(super) fn forget_markers(&self) -> io::Result<()> {
        fs::read_dir(&self.incoming)?.try_for_each(|entry| remove(&entry?.path()))
    }

    fn path(&self, digest: Digest) -> PathBuf {
        self.whole.join(digest.hex())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Digest, Use>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Files that a transaction under way refers to. Dropped when it is over; unless it was committed,
/// what it made goes.
#[derive(Debug)]
pub(super) struct Held {
    files: Arc<Files>,
    /// Each with the name that it was written under.
    names: Vec<(Digest, PathBuf)>,
    committed: bool,
}

impl Held {
    pub(super) fn write(files: Arc<Files>, blobs: &[(Digest, Vec<u8>)]) -> io::Result<Self> {
        let mut held = Held { files, names: Vec::new(), committed: false };
        for (digest, bytes) in blobs {
            held.add(*digest, bytes)?;
        }
        File::open(&held.files.whole)?.sync_all()?;
        Ok(held)
    }

    fn add(&mut self, digest: Digest, bytes: &[u8]) -> io::Result<()> {
        let files = &self.files;
        let number = files.next.fetch_add(1, Ordering::Relaxed);
        let incoming = files.incoming.join(format!("{}-{number}", digest.hex()));
        // Before the look at the file: from here on it is not removed.
        files.lock().entry(digest).or_default().count += 1;
        self.names.push((digest, incoming.clone()));
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&incoming)?;
        let whole = files.path(digest);
        if whole.exists() {
            return Ok(());
        }
        file.write_all(bytes)?;
        file.sync_all()?;
        match fs::hard_link(&incoming, &whole) {
            Ok(()) => files.lock().entry(digest).or_default().made = true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The transaction was committed.
    pub(super) fn keep(mut self) {
        self.committed = true;
    }

    fn release(&self, digest: Digest, incoming: &Path) -> io::Result<()> {
        let mut held = self.files.lock();
        let Some(used) = held.get_mut(&digest) else { return Ok(()) };
        used.count -= 1;
        used.kept |= self.committed;
        if used.count == 0 {
            let abandoned = used.made && !used.kept;
            held.remove(&digest);
            if abandoned {
                remove(&self.files.path(digest))?;
            }
        }
        remove(incoming)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for (digest, incoming) in &self.names {
            if let Err(error) = self.release(*digest, incoming) {
                // It wastes room until the next start, which tries again.
                tracing::warn!(%error, %digest, "a blob's leftovers could not be removed");
            }
        }
    }
}

/// Files that a transaction under way may take the rows of. Each has a marker, so that a crash after the
/// commit leaves no file unnoticed.
#[derive(Debug)]
pub(super) struct Doomed {
    files: Arc<Files>,
    markers: HashMap<Digest, PathBuf>,
}

impl Doomed {
    pub(super) fn mark(files: Arc<Files>, digests: Vec<Digest>) -> io::Result<Self> {
        let mut doomed = Self { files, markers: HashMap::new() };
        for digest in digests {
            let number = doomed.files.next.fetch_add(1, Ordering::Relaxed);
            let marker = doomed.files.incoming.join(format!("{}-{number}", digest.hex()));
            File::create_new(&marker)?;
            doomed.markers.insert(digest, marker);
        }
        File::open(&doomed.files.incoming)?.sync_all()?;
        Ok(doomed)
    }

    /// Removes the files whose rows are gone. Runs after the commit and before the next transaction, so a row
    /// of the same digest is not there again; but a transaction that waits may count on the file, and then it
    /// goes only if that one is not committed.
    pub(super) fn remove(mut self, gone: impl Iterator<Item = Digest>) {
        for digest in gone {
            let mut held = self.files.lock();
            if let Some(used) = held.get_mut(&digest) {
                used.made = true;
            } else if let Err(error) = remove(&self.files.path(digest)) {
                // The marker stays: the next start tries again.
                self.markers.remove(&digest);
                tracing::warn!(%error, %digest, "a blob could not be removed");
            }
        }
    }
}

impl Drop for Doomed {
    fn drop(&mut self) {
        for marker in self.markers.values() {
            if let Err(error) = remove(marker) {
                tracing::warn!(%error, "a marker of a blob could not be removed");
            }
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
