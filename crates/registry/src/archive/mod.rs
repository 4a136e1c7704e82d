//! Unpacking of uploads in memory: tar, tar.gz and zip, or a plain list.
//!
//! Every entry is hostile until it passed the checks of kind, path, collisions and sizes. One bad
//! entry refuses the upload, because a skill with a file left out is another skill.

mod tar;
mod zip;

use std::{collections::HashMap, io::Read};

use flate2::read::MultiGzDecoder;

use crate::{
    files::{Files, MAX_FILE_BYTES, MAX_TOTAL_BYTES, Problem, check_path, is_ignored},
    text::shown,
    upload::Upload,
};

/// Size limit of an upload as sent.
const MAX_UPLOAD_BYTES: usize = 16 << 20;
/// Entries in an archive, including ignored ones and folders.
const MAX_ENTRIES: usize = 1_024;
/// Size limit of an unpacked tar: its files, and a header and padding for each entry.
const MAX_TAR_BYTES: u64 = MAX_TOTAL_BYTES + (MAX_ENTRIES as u64 + 20) * 1024;
/// Expansion limit of an upload, beyond the first megabyte.
const MAX_RATIO: u64 = 200;
const RATIO_GRACE: u64 = 1 << 20;

/// Reason why an upload was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Problem of one entry.
    #[error("`{entry}`: {problem}")]
    Entry {
        /// Printable path of the entry.
        entry: String,
        /// Problem of the entry.
        problem: Problem,
    },
    /// Neither tar nor tar.gz nor zip.
    #[error("neither tar, tar.gz nor zip")]
    Format,
    /// Damaged, or written so that two programs would read it differently.
    #[error("the archive is malformed: {0}")]
    Malformed(String),
    /// Larger than a skill can be, as sent or unpacked.
    #[error("the upload is too large: {0}")]
    Large(&'static str),
}

impl Refused {
    fn entry(name: &[u8], problem: Problem) -> Self {
        Self::Entry { entry: shown(&String::from_utf8_lossy(name)), problem }
    }
}

/// Files of an upload.
pub(crate) fn unpack(upload: Upload) -> Result<Files, Refused> {
    let mut gate = Gate::default();
    match upload {
        Upload::Files(files) => {
            for (path, content) in files {
                gate.file(path.as_bytes(), || Ok(content))?;
            }
        }
        Upload::Archive(bytes) => archive(&bytes, &mut gate)?,
    }
    Ok(gate.files.unwrapped())
}

fn archive(bytes: &[u8], gate: &mut Gate) -> Result<(), Refused> {
    if bytes.len() > MAX_UPLOAD_BYTES {
        return Err(Refused::Large("more than 16 MiB were sent"));
    }
    match bytes {
        [0x1f, 0x8b, ..] => tar::unpack(&gunzip(bytes)?, gate),
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => zip::unpack(bytes, gate),
        _ if tar::is_start(bytes) => tar::unpack(bytes, gate),
        _ => Err(Refused::Format),
    }
}

/// Decompresses up to the size limit of a tar.
fn gunzip(bytes: &[u8]) -> Result<Vec<u8>, Refused> {
    let most = MAX_TAR_BYTES.min(RATIO_GRACE.max(bytes.len() as u64 * MAX_RATIO));
    let mut plain = Vec::new();
    let read = MultiGzDecoder::new(bytes).take(most + 1).read_to_end(&mut plain);
    read.map_err(|error| Refused::Malformed(error.to_string()))?;
    if plain.len() as u64 > most {
        return Err(Refused::Large("it expands to more than a skill can be"));
    }
    Ok(plain)
}

/// Entries admitted so far.
#[derive(Debug, Default)]
struct Gate {
    files: Files,
    entries: usize,
    /// Files and the folders they imply, by case-folded path.
    seen: HashMap<String, Seen>,
}

#[derive(Debug)]
struct Seen {
    path: String,
    is_folder: bool,
}

impl Gate {
    /// Checks a folder; only its name can be wrong.
    fn folder(&mut self, name: &[u8]) -> Result<(), Refused> {
        let trimmed = name.strip_suffix(b"/").unwrap_or(name);
        // An archive of a folder's content begins with the folder itself.
        if matches!(trimmed, b"." | b"") && name != b"/" {
            return self.count();
        }
        let path = self.path(trimmed).map_err(|problem| Refused::entry(name, problem))?;
        self.count()?;
        self.claim(&path, true).map_err(|problem| Refused::entry(name, problem))
    }

    /// Adds a file, whose content is read only if everything else about it is valid.
    fn file(
        &mut self,
        name: &[u8],
        content: impl FnOnce() -> Result<Vec<u8>, Refused>,
    ) -> Result<(), Refused> {
        let refused = |problem| Refused::entry(name, problem);
        self.count()?;
        let path = self.path(name).map_err(refused)?;
        self.claim(&path, false).map_err(refused)?;
        if path.split('/').any(is_ignored) {
            return Ok(());
        }
        let content = content()?;
        self.files.add(&path, content).map_err(refused)
    }

    /// Number of bytes to read of a file: one over the limit, to detect excess.
    fn room(&self) -> u64 {
        MAX_FILE_BYTES.min(self.files.room()) + 1
    }

    fn count(&mut self) -> Result<(), Refused> {
        self.entries += 1;
        if self.entries > MAX_ENTRIES {
            Err(Refused::Large("more than 1024 entries"))
        } else {
            Ok(())
        }
    }

    /// Path of an entry without `./`, which tar puts before files of the current folder.
    fn path(&self, name: &[u8]) -> Result<String, Problem> {
        let name = std::str::from_utf8(name).map_err(|_| Problem::Name)?;
        let path = name.strip_prefix("./").unwrap_or(name);
        check_path(path).map(|()| path.to_owned())
    }

    /// Claims a path: once, ignoring case, and never both as a file and as a folder.
    fn claim(&mut self, path: &str, is_folder: bool) -> Result<(), Problem> {
        for (end, _) in path.match_indices('/') {
            self.claim_one(&path[..end], true, true)?;
        }
        self.claim_one(path, is_folder, false)
    }

    fn claim_one(&mut self, path: &str, is_folder: bool, implied: bool) -> Result<(), Problem> {
        let new = || Seen { path: path.to_owned(), is_folder };
        let seen = self.seen.entry(path.to_lowercase()).or_insert_with(new);
        let same = seen.path == path && seen.is_folder == is_folder;
        // A folder may be implied and named any number of times, a file only once.
        let repeated = !is_folder && !implied && self.files.get(path).is_some();
        if same && !repeated { Ok(()) } else { Err(Problem::Collision(shown(&seen.path))) }
    }
}

#[cfg(test)]
mod tests;
