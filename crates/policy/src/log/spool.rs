//! Entries on disk: appended to one file, or spooled in chunks for upload.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering::Relaxed},
};

use tokio::sync::{Notify, mpsc};

use super::{
    Counts, LogError, Pending, Target,
    mask::{Masks, Unmasked},
};

/// Entries in one chunk.
const MAX_CHUNK_ENTRIES: usize = 500;
/// Size limit of the spool; further entries are lost and counted.
const MAX_SPOOL_BYTES: u64 = 1 << 30;

/// File extension of a chunk.
pub(super) const CHUNK_EXTENSION: &str = "ndjson";

/// Writer of entries, on its own thread.
pub(super) struct Writer {
    place: Place,
    counts: Arc<Counts>,
    masks: Masks,
    /// Notification that a chunk was written.
    fresh: Arc<Notify>,
}

enum Place {
    File(File),
    Pieces { folder: PathBuf, next: u64 },
}

impl Writer {
    pub(super) fn open(target: &Target, counts: Arc<Counts>) -> Result<Self, LogError> {
        let path = target.path();
        let place = match target {
            Target::File(path) => {
                OpenOptions::new().create(true).append(true).open(path).map(Place::File)
            }
            Target::Service { spool, .. } => pieces(spool),
        };
        let place = place.map_err(|error| LogError::Open { path: path.to_owned(), error })?;
        let fresh = Arc::new(Notify::new());
        // Chunks left by an earlier process are uploaded first.
        fresh.notify_one();
        Ok(Self { place, counts, masks: Masks::default(), fresh })
    }

    pub(super) fn fresh(&self) -> Arc<Notify> {
        self.fresh.clone()
    }

    /// Writes entries until the queue is closed and empty.
    pub(super) fn run(mut self, mut waiting: mpsc::Receiver<Pending>) {
        while let Some(first) = waiting.blocking_recv() {
            let mut text = self.line(first);
            let mut entries = 1;
            while let (true, Ok(next)) = (entries < MAX_CHUNK_ENTRIES, waiting.try_recv()) {
                text += &self.line(next);
                entries += 1;
            }
            match self.place.keep(&text) {
                Ok(()) => {
                    self.counts.kept.fetch_add(entries as u64, Relaxed);
                    self.fresh.notify_one();
                }
                Err(error) => self.counts.lost(entries as u64, &error.to_string()),
            }
        }
    }
}

impl Writer {
    /// Masked entry as one line.
    fn line(&mut self, pending: Pending) -> String {
        let Pending { mut entry, bundle } = pending;
        let masked = bundle.map(|bundle| self.masks.apply(&bundle, &mut entry));
        if let Some(Err(Unmasked(why))) = masked {
            self.counts.bare.fetch_add(1, Relaxed);
            tracing::error!(why, "a decision is logged without input and result");
        }
        entry.to_string() + "\n"
    }
}

impl Place {
    fn keep(&mut self, text: &str) -> io::Result<()> {
        match self {
            Place::File(file) => file.write_all(text.as_bytes()),
            Place::Pieces { folder, next } => {
                if size(folder)? + text.len() as u64 > MAX_SPOOL_BYTES {
                    return Err(io::Error::other("too many entries wait for the service"));
                }
                let piece = folder.join(format!("{next:020}"));
                *next += 1;
                // A chunk is complete once it has its final name.
                fs::write(&piece, text)?;
                fs::rename(&piece, piece.with_extension(CHUNK_EXTENSION))
            }
        }
    }
}

fn pieces(folder: &Path) -> io::Result<Place> {
    fs::create_dir_all(folder)?;
    let numbers = list(folder)?.into_iter().filter_map(|path| {
        path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse::<u64>().ok())
    });
    let next = numbers.max().map_or(0, |last| last + 1);
    Ok(Place::Pieces { folder: folder.to_owned(), next })
}

/// All chunks, oldest first.
pub(super) fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == CHUNK_EXTENSION) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn size(folder: &Path) -> io::Result<u64> {
    let paths = list(folder)?;
    Ok(paths.iter().filter_map(|path| path.metadata().ok()).map(|meta| meta.len()).sum())
}
