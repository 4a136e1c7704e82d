//! Immutable snapshot of all tools.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use ringfence_types::Digest;

use crate::entry::Entry;

/// Snapshot of all tools. It never changes: hold it for as long as one answer needs it.
#[derive(Debug, Default)]
pub struct Catalogue {
    /// Sorted by name, then version; no two share both.
    entries: Vec<Arc<Entry>>,
    by_digest: HashMap<Digest, usize>,
    broken: Vec<Broken>,
}

/// Skill that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Name of the folder.
    pub name: String,
    /// Path of the folder; `None` if the skill is part of the binary.
    pub folder: Option<PathBuf>,
    /// All problems of the skill.
    pub problems: Vec<String>,
}

impl Catalogue {
    pub(crate) fn new(mut entries: Vec<Arc<Entry>>, mut broken: Vec<Broken>) -> Self {
        entries.sort_by(|one, other| {
            (&one.tool.name, one.version()).cmp(&(&other.tool.name, other.version()))
        });
        broken.sort_by(|one, other| (&one.name, &one.folder).cmp(&(&other.name, &other.folder)));
        let digests = entries.iter().enumerate();
        let by_digest = digests.map(|(index, entry)| (entry.tool.digest, index)).collect();
        Self { entries, by_digest, broken }
    }

    /// Tool of this name: exactly this version, or the newest if no version is given.
    pub fn get(&self, name: &str, version: Option<&str>) -> Option<&Arc<Entry>> {
        let versions = self.versions(name);
        match version {
            Some(version) => versions.iter().find(|entry| entry.tool.version == version),
            None => versions.last(),
        }
    }

    /// All versions of one tool, oldest first.
    pub fn versions(&self, name: &str) -> &[Arc<Entry>] {
        let start = self.entries.partition_point(|entry| entry.tool.name.as_str() < name);
        let rest = &self.entries[start..];
        &rest[..rest.partition_point(|entry| entry.tool.name.as_str() == name)]
    }

    /// Tool with exactly this definition.
    pub fn by_digest(&self, digest: Digest) -> Option<&Arc<Entry>> {
        self.by_digest.get(&digest).map(|index| &self.entries[*index])
    }

    /// All tools, sorted by name, then version.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// The newest version of each tool, sorted by name.
    pub fn newest(&self) -> impl Iterator<Item = &Arc<Entry>> {
        let by_name = self.entries.chunk_by(|one, other| one.tool.name == other.tool.name);
        by_name.filter_map(<[_]>::last)
    }

    /// All broken skills, sorted by name.
    pub fn broken(&self) -> &[Broken] {
        &self.broken
    }

    /// Whether both snapshots have the same tools and broken skills.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let same = |(one, other): (&Arc<Entry>, &Arc<Entry>)| {
            one.tool == other.tool && one.folder == other.folder
        };
        self.broken == other.broken
            && self.entries.len() == other.entries.len()
            && self.entries.iter().zip(&other.entries).all(same)
    }
}
