//! Entries on disk: appended to one file, or in pieces that wait to be sent.

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

/// Most entries of one piece.
const ENTRIES: usize = 500;
/// Most bytes that wait for a service; what comes then is lost, which is said.
const MOST: u64 = 1 << 30;

/// How the name of a piece ends.
pub(super) const PIECE: &str = "ndjson";

/// Writes entries, on a thread of its own.
pub(super) struct Keeper {
    place: Place,
    counts: Arc<Counts>,
    masks: Masks,
    /// There is a new piece.
    fresh: Arc<Notify>,
}

enum Place {
    File(File),
    Pieces { folder: PathBuf, next: u64 },
}

impl Keeper {
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
        // What an earlier process left is sent first.
        fresh.notify_one();
        Ok(Self { place, counts, masks: Masks::default(), fresh })
    }

    pub(super) fn fresh(&self) -> Arc<Notify> {
        self.fresh.clone()
    }

    /// Until the queue is closed and empty.
    pub(super) fn run(mut self, mut waiting: mpsc::Receiver<Pending>) {
        while let Some(first) = waiting.blocking_recv() {
            let mut text = self.line(first);
            let mut entries = 1;
            while let (true, Ok(next)) = (entries < ENTRIES, waiting.try_recv()) {
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

impl Keeper {
    /// An entry, masked, as one line.
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
                if size(folder)? + text.len() as u64 > MOST {
                    return Err(io::Error::other("too many entries wait for the service"));
                }
                let piece = folder.join(format!("{next:020}"));
                *next += 1;
                // A piece that has its name is whole.
                fs::write(&piece, text)?;
                fs::rename(&piece, piece.with_extension(PIECE))
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

/// All pieces, oldest first.
pub(super) fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == PIECE) {
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
