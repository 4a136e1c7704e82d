//! Everything there is, read anew and put together.
//!
//! Who wins a name: tools of the binary, then folders in the order configured, then skills compiled
//! in, then uploads. Whoever loses is listed as broken with the reason.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use ringfence_types::{Digest, Origin, Timestamp};

use crate::{
    catalogue::{Broken, Catalogue},
    config::EmbeddedSkill,
    entry::Entry,
    files::Files,
    folder::{self, Found},
    skill,
    text::{message, shown},
};

/// What a scan needs to know.
#[derive(Debug)]
pub(crate) struct Sources {
    /// Already compiled; they never change.
    pub(crate) builtins: Vec<Arc<Entry>>,
    pub(crate) folders: Vec<PathBuf>,
    pub(crate) embedded: Vec<EmbeddedSkill>,
    pub(crate) uploads: PathBuf,
    /// Skills that load and cannot work all the same, by digest: why.
    pub(crate) rejected: Mutex<HashMap<Digest, String>>,
}

/// Reads everything. What did not change since `previous` is taken over from it.
pub(crate) fn scan(sources: &Sources, previous: &Catalogue, now: Timestamp) -> Catalogue {
    let entries = sources.builtins.clone();
    let rejected = &*sources.rejected.lock().unwrap_or_else(PoisonError::into_inner);
    let (broken, names) = (Vec::new(), Vec::new());
    let mut scan = Scan { previous, rejected, now, entries, broken, names };
    for place in &sources.folders {
        scan.place(place);
    }
    for embedded in &sources.embedded {
        scan.embedded(embedded);
    }
    scan.uploads(&sources.uploads);
    Catalogue::new(scan.entries, scan.broken)
}

struct Scan<'a> {
    previous: &'a Catalogue,
    rejected: &'a HashMap<Digest, String>,
    now: Timestamp,
    entries: Vec<Arc<Entry>>,
    broken: Vec<Broken>,
    /// Names of the folders on disk and of the skills in them.
    names: Vec<String>,
}

/// One skill on its way into the catalogue.
struct Candidate {
    name: String,
    path: Option<PathBuf>,
    origin: Origin,
    /// When it became known, where that is older than this process.
    since: Option<Timestamp>,
}

impl Scan<'_> {
    fn place(&mut self, place: &Path) {
        let found = match folder::read_all(place) {
            Ok(found) => found,
            Err(error) => return self.unreadable(place, &error),
        };
        for Found { name, path, files } in found {
            self.names.push(name.clone());
            let path = Some(path);
            self.take(Candidate { name, path, origin: Origin::Folder, since: None }, files);
        }
    }

    fn unreadable(&mut self, place: &Path, error: &std::io::Error) {
        let name = last_name(place);
        let problems = vec![format!("the folder of skills cannot be read: {error}")];
        self.broken.push(Broken { name, folder: Some(place.to_path_buf()), problems });
    }

    /// A folder of the same name replaces it even if that folder is broken: whoever put it there
    /// does not want the other.
    fn embedded(&mut self, embedded: &EmbeddedSkill) {
        let mut files = Files::default();
        let mut problems = Vec::new();
        for (path, content) in embedded.files {
            let added = files.add(path, content.to_vec());
            problems.extend(added.err().map(|problem| format!("{}: {problem}", shown(path))));
        }
        let files = if problems.is_empty() { Ok(files) } else { Err(problems) };
        if self.names.iter().any(|name| name == embedded.name) {
            return;
        }
        let name = embedded.name.to_owned();
        self.take(Candidate { name, path: None, origin: Origin::Builtin, since: None }, files);
    }

    fn uploads(&mut self, place: &Path) {
        let stored = match crate::upload::stored(place) {
            Ok(stored) => stored,
            Err(error) => return self.unreadable(place, &error),
        };
        for upload in stored {
            let name = upload.digest.hex();
            let unchanged = upload.files.and_then(|files| match files.digest() == upload.digest {
                true => Ok(files),
                false => Err(vec!["its files were changed after it was registered".to_owned()]),
            });
            let (path, since) = (Some(upload.path), upload.since);
            self.take(Candidate { name, path, origin: Origin::Upload, since }, unchanged);
        }
    }

    fn take(&mut self, candidate: Candidate, files: Result<Files, Vec<String>>) {
        let entry = files
            .and_then(|files| self.entry(&candidate, &files))
            .and_then(|entry| self.admit(&entry).map(|()| entry));
        match entry {
            Ok(entry) => {
                if candidate.origin == Origin::Folder {
                    self.names.push(entry.tool.name.as_str().to_owned());
                }
                self.entries.push(entry);
            }
            Err(problems) => {
                let Candidate { name, path, .. } = candidate;
                self.broken.push(Broken { name, folder: path, problems });
            }
        }
    }

    /// Compiled anew only if it is new.
    fn entry(&self, candidate: &Candidate, files: &Files) -> Result<Arc<Entry>, Vec<String>> {
        if let Some(problem) = self.rejected.get(&files.digest()) {
            return Err(vec![message(problem)]);
        }
        let same = |entry: &&Arc<Entry>| {
            entry.tool.origin == candidate.origin && entry.folder == candidate.path
        };
        if let Some(known) = self.previous.by_digest(files.digest()).filter(same) {
            return Ok(Arc::clone(known));
        }
        let skill = skill::load(files)?;
        let mut entry = Entry::skill(skill, candidate.origin, candidate.since.unwrap_or(self.now));
        entry.folder = candidate.path.clone();
        Ok(Arc::new(entry))
    }

    /// Whether the name is free for it.
    fn admit(&self, entry: &Entry) -> Result<(), Vec<String>> {
        let (name, version) = (&entry.tool.name, &entry.tool.version);
        let namesakes = self.entries.iter().filter(|other| other.tool.name == *name);
        for other in namesakes {
            let problem = match (entry.tool.origin, other.tool.origin) {
                _ if *version == other.tool.version => {
                    format!("`{name}` {version} is already taken by {}", holder(other))
                }
                (Origin::Folder | Origin::Builtin, Origin::Folder)
                | (Origin::Upload, Origin::Upload) => continue,
                _ => format!("the name `{name}` is already taken by {}", holder(other)),
            };
            return Err(vec![problem]);
        }
        Ok(())
    }
}

/// Every tenant is told what is broken, but not where things are on the host; the log has that.
fn last_name(path: &Path) -> String {
    path.file_name().map_or_else(|| "/".to_owned(), |name| shown(&name.to_string_lossy()))
}

/// Who has a name, as people know it.
pub(crate) fn holder(entry: &Entry) -> String {
    match (entry.tool.origin, &entry.folder) {
        (Origin::Builtin, _) => "a tool of the server itself".to_owned(),
        (Origin::Folder, Some(path)) => format!("the folder `{}`", last_name(path)),
        _ => "a registered skill".to_owned(),
    }
}
