//! Full scan of all sources.
//!
//! Precedence of names: built-in tools, then folders in the configured order, then embedded skills,
//! then uploads, then definitions of the store. A skill whose name is taken is listed as broken with the reason.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use ringfence_types::{Digest, Origin, Timestamp, ToolName, ToolRef, ToolStatus};

use crate::{
    catalogue::{Broken, Catalogue},
    config::EmbeddedSkill,
    entry::Entry,
    files::Files,
    folder::{self, Found},
    skill::{self, Guide, agent},
    standing::{DefinedTool, Inactive, Standing},
    text::{message, shown},
};

/// Sources of a scan.
#[derive(Debug)]
pub(crate) struct Sources {
    /// Built-in tools, already compiled; they never change.
    pub(crate) builtins: Vec<Arc<Entry>>,
    pub(crate) folders: Vec<PathBuf>,
    pub(crate) embedded: Vec<EmbeddedSkill>,
    pub(crate) uploads: PathBuf,
    /// Reasons of rejected skills, by digest: they load but cannot work.
    pub(crate) rejected: Mutex<HashMap<Digest, String>>,
    /// State of tools in the store.
    pub(crate) standing: RwLock<Arc<Standing>>,
}

/// Reads all sources. Unchanged tools are taken over from `previous`.
pub(crate) fn scan(sources: &Sources, previous: &Catalogue, now: Timestamp) -> Catalogue {
    let entries = sources.builtins.clone();
    let rejected = &*sources.rejected.lock().unwrap_or_else(PoisonError::into_inner);
    let (broken, names, guides) = (Vec::new(), Vec::new(), Vec::new());
    let mut scan = Scan { previous, rejected, now, entries, broken, names, guides };
    for place in &sources.folders {
        scan.place(place);
    }
    for embedded in &sources.embedded {
        scan.embedded(embedded);
    }
    scan.uploads(&sources.uploads);
    let standing = sources.standing.read().unwrap_or_else(PoisonError::into_inner).clone();
    scan.defined(&standing);
    let (entries, inactive) = split(scan.entries, &standing);
    Catalogue::new(entries, scan.broken, inactive, scan.guides)
}

/// Separates versions that cannot be called.
fn split(entries: Vec<Arc<Entry>>, standing: &Standing) -> (Vec<Arc<Entry>>, Vec<Inactive>) {
    let defined = standing.defined.iter().filter(|defined| !defined.status.is_active());
    let mut inactive: Vec<_> = defined
        .map(|defined| Inactive {
            tool: defined.tool.clone(),
            origin: defined.origin,
            status: defined.status,
            entry: None,
        })
        .collect();
    let mut active = Vec::with_capacity(entries.len());
    for entry in entries {
        match standing.status_of(&entry) {
            // A defined one is here because it is active.
            _ if !entry.tool.origin.is_born_active() => active.push(entry),
            ToolStatus::Active => active.push(entry),
            status => inactive.push(Inactive {
                tool: entry.tool.reference(),
                origin: entry.tool.origin,
                status,
                entry: Some(entry),
            }),
        }
    }
    (active, inactive)
}

struct Scan<'a> {
    previous: &'a Catalogue,
    rejected: &'a HashMap<Digest, String>,
    now: Timestamp,
    entries: Vec<Arc<Entry>>,
    broken: Vec<Broken>,
    /// Names of the folders on disk and of the skills in them.
    names: Vec<String>,
    guides: Vec<Guide>,
}

/// Skill on its way into the catalogue.
struct Candidate {
    name: String,
    path: Option<PathBuf>,
    origin: Origin,
    /// Registration time, if it is older than this process.
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
            let candidate = Candidate { name, path, origin: Origin::Folder, since: None };
            match files.as_ref().map(agent::guide) {
                Ok(Ok(Some(guide))) => self.guided(candidate, guide, files),
                // A `SKILL.md` beside a `skill.yaml` may be any text; alone it is the skill.
                Ok(Err(problems)) if !files.as_ref().is_ok_and(has_manifest) => {
                    self.broken(candidate, problems);
                }
                _ => {
                    self.take(candidate, files);
                }
            }
        }
    }

    /// Adds a folder with a guide, and its tool if it has one.
    fn guided(&mut self, candidate: Candidate, guide: Guide, files: Result<Files, Vec<String>>) {
        let is_tool = files.as_ref().is_ok_and(|all| has_manifest(all) || agent::runs_scripts(all));
        if is_tool {
            if let Some((name, digest)) = self.take(candidate, files) {
                self.guides.push(guide.of_tool(name, digest));
            }
            return;
        }
        let is_taken = self.entries.iter().any(|entry| entry.tool.name == guide.name)
            || self.guides.iter().any(|other| other.name == guide.name);
        match is_taken {
            true => {
                let problem = format!("the name `{}` is already taken", guide.name);
                self.broken(candidate, vec![problem]);
            }
            false => self.guides.push(guide),
        }
    }

    fn broken(&mut self, candidate: Candidate, problems: Vec<String>) {
        let Candidate { name, path, .. } = candidate;
        self.broken.push(Broken { name, folder: path, problems });
    }

    fn unreadable(&mut self, place: &Path, error: &std::io::Error) {
        let name = last_name(place);
        let problems = vec![format!("the folder of skills cannot be read: {error}")];
        self.broken.push(Broken { name, folder: Some(place.to_path_buf()), problems });
    }

    /// Adds an embedded skill. A folder of the same name replaces it even if that folder is broken:
    /// the operator put it there on purpose.
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

    /// Adds the active definitions of the store.
    fn defined(&mut self, standing: &Standing) {
        // By name: there may be thousands of them.
        let files: HashMap<_, _> =
            self.entries.iter().map(|entry| (entry.tool.name.clone(), holder(entry))).collect();
        let mut versions = HashSet::new();
        for defined in standing.defined.iter().filter(|defined| defined.status.is_active()) {
            let ToolRef { name, version, .. } = &defined.tool;
            let holder = match versions.insert((name.clone(), version.clone())) {
                true => files.get(name).cloned(),
                false => Some("another imported tool".to_owned()),
            };
            let entry = match holder {
                Some(holder) => {
                    Err(vec![format!("the name `{name}` is already taken by {holder}")])
                }
                None => self.defined_entry(defined),
            };
            match entry {
                Ok(entry) => self.entries.push(entry),
                Err(problems) => {
                    let name = defined.tool.name.to_string();
                    self.broken.push(Broken { name, folder: None, problems });
                }
            }
        }
    }

    fn defined_entry(&self, defined: &DefinedTool) -> Result<Arc<Entry>, Vec<String>> {
        let digest = defined.tool.digest;
        let is_same = |entry: &&Arc<Entry>| entry.grants() == Some(&defined.grants);
        if let Some(known) = self.previous.by_digest(digest).filter(is_same) {
            return Ok(Arc::clone(known));
        }
        let unreadable = || vec!["its stored definition cannot be read".to_owned()];
        let definition = defined.definition.as_ref().ok_or_else(unreadable)?;
        definition.entry(&defined.grants, digest, defined.created_at).map(Arc::new)
    }

    /// Adds a skill; returns its name and digest if it works.
    fn take(
        &mut self,
        candidate: Candidate,
        files: Result<Files, Vec<String>>,
    ) -> Option<(ToolName, Digest)> {
        let entry = files
            .and_then(|files| self.entry(&candidate, &files))
            .and_then(|entry| self.admit(&entry).map(|()| entry));
        match entry {
            Ok(entry) => {
                if candidate.origin == Origin::Folder {
                    self.names.push(entry.tool.name.as_str().to_owned());
                }
                let named = (entry.tool.name.clone(), entry.tool.digest);
                self.entries.push(entry);
                Some(named)
            }
            Err(problems) => {
                self.broken(candidate, problems);
                None
            }
        }
    }

    /// Entry of a candidate, compiled only if it is new.
    fn entry(&self, candidate: &Candidate, files: &Files) -> Result<Arc<Entry>, Vec<String>> {
        let runs_scripts = candidate.origin == Origin::Folder && agent::runs_scripts(files);
        let digest = if runs_scripts { agent::digest(files) } else { files.digest() };
        if let Some(problem) = self.rejected.get(&digest) {
            return Err(vec![message(problem)]);
        }
        let same = |entry: &&Arc<Entry>| {
            entry.tool.origin == candidate.origin && entry.folder == candidate.path
        };
        if let Some(known) = self.previous.known(digest).filter(same) {
            return Ok(Arc::clone(known));
        }
        let skill = if runs_scripts { agent::load(files)? } else { skill::load(files)? };
        let mut entry = Entry::skill(skill, candidate.origin, candidate.since.unwrap_or(self.now));
        entry.folder = candidate.path.clone();
        Ok(Arc::new(entry))
    }

    /// Refuses a candidate whose name is taken.
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

fn has_manifest(files: &Files) -> bool {
    files.get("skill.yaml").is_some()
}

/// Last component of a path: tenants see what is broken but not the paths of the host, which are
/// only logged.
fn last_name(path: &Path) -> String {
    path.file_name().map_or_else(|| "/".to_owned(), |name| shown(&name.to_string_lossy()))
}

/// Description of the tool that has a name.
pub(crate) fn holder(entry: &Entry) -> String {
    match (entry.tool.origin, &entry.folder) {
        (Origin::Builtin, _) => "a tool of the server itself".to_owned(),
        (Origin::Folder, Some(path)) => format!("the folder `{}`", last_name(path)),
        (Origin::Folder | Origin::Upload, _) => "a registered skill".to_owned(),
        _ => "an imported tool".to_owned(),
    }
}
