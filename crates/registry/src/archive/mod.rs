//! Uploads as files in memory: tar, tar.gz and zip, or a plain list.
//!
//! Everything in an upload is hostile until it passed one gate: kind, path, collisions, sizes. One
//! bad entry refuses all of it, for a skill with a file left out is another skill.

mod tar;
mod zip;

use std::{collections::HashMap, io::Read};

use flate2::read::MultiGzDecoder;

use crate::{
    files::{FILE_BYTES, Files, Problem, TOTAL_BYTES, check_path, is_ignored},
    text::shown,
    upload::Upload,
};

/// The largest upload as it was sent.
const UPLOAD_BYTES: usize = 16 << 20;
/// The most entries, ignored ones and folders included.
const ENTRIES: usize = 1_024;
/// The most bytes of an unpacked tar: its files, and a header and padding for each entry.
const TAR_BYTES: u64 = TOTAL_BYTES + (ENTRIES as u64 + 20) * 1024;
/// How many times larger than itself an upload may become, beyond the first megabyte.
const RATIO: u64 = 200;
const RATIO_GRACE: u64 = 1 << 20;

/// Why an upload was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// One entry of it.
    #[error("`{entry}`: {problem}")]
    Entry {
        /// Its path, fit to be shown.
        entry: String,
        /// What is wrong with it.
        problem: Problem,
    },
    /// It is neither tar nor tar.gz nor zip.
    #[error("neither tar, tar.gz nor zip")]
    Format,
    /// It is damaged, or written so that two programs would read it differently.
    #[error("the archive is malformed: {0}")]
    Malformed(String),
    /// It is larger, or becomes larger, than a skill can be.
    #[error("the upload is too large: {0}")]
    Large(&'static str),
}

impl Refused {
    fn entry(name: &[u8], problem: Problem) -> Self {
        Self::Entry { entry: shown(&String::from_utf8_lossy(name)), problem }
    }
}

/// The files of an upload.
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
    if bytes.len() > UPLOAD_BYTES {
        return Err(Refused::Large("more than 16 MiB were sent"));
    }
    match bytes {
        [0x1f, 0x8b, ..] => tar::unpack(&gunzip(bytes)?, gate),
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => zip::unpack(bytes, gate),
        _ if tar::is_start(bytes) => tar::unpack(bytes, gate),
        _ => Err(Refused::Format),
    }
}

/// Decompresses to the largest tar that could be a skill, and no further.
fn gunzip(bytes: &[u8]) -> Result<Vec<u8>, Refused> {
    let most = TAR_BYTES.min(RATIO_GRACE.max(bytes.len() as u64 * RATIO));
    let mut plain = Vec::new();
    let read = MultiGzDecoder::new(bytes).take(most + 1).read_to_end(&mut plain);
    read.map_err(|error| Refused::Malformed(error.to_string()))?;
    if plain.len() as u64 > most {
        return Err(Refused::Large("it expands to more than a skill can be"));
    }
    Ok(plain)
}

/// What has been let through so far.
#[derive(Debug, Default)]
struct Gate {
    files: Files,
    entries: usize,
    /// Files and the folders they imply, by their path in one case of letters.
    seen: HashMap<String, Seen>,
}

#[derive(Debug)]
struct Seen {
    path: String,
    is_folder: bool,
}

impl Gate {
    /// A folder; only its name can be wrong.
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

    /// A file, whose content is read only if everything else about it is fine.
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

    /// How many bytes of a file to read: one more than it may have tells that it has too many.
    fn room(&self) -> u64 {
        FILE_BYTES.min(self.files.room()) + 1
    }

    fn count(&mut self) -> Result<(), Refused> {
        self.entries += 1;
        if self.entries > ENTRIES { Err(Refused::Large("more than 1024 entries")) } else { Ok(()) }
    }

    /// `./handler.py` is how tar names the files of the current folder.
    fn path(&self, name: &[u8]) -> Result<String, Problem> {
        let name = std::str::from_utf8(name).map_err(|_| Problem::Name)?;
        let path = name.strip_prefix("./").unwrap_or(name);
        check_path(path).map(|()| path.to_owned())
    }

    /// A path is had once, whatever its case, and a file is never also a folder.
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
        // A folder may be implied and named any number of times; a file may be there once.
        let repeated = !is_folder && !implied && self.files.get(path).is_some();
        if same && !repeated { Ok(()) } else { Err(Problem::Collision(shown(&seen.path))) }
    }
}

#[cfg(test)]
mod tests;
