//! Immutable snapshot of all tools.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use ringfence_types::{Digest, ToolStatus};

use crate::{entry::Entry, skill::Guide, standing::Inactive};

/// Snapshot of all tools. It never changes: hold it for as long as one answer needs it.
#[derive(Debug, Default)]
pub struct Catalogue {
    /// Sorted by name, then version; no two share both.
    entries: Vec<Arc<Entry>>,
    by_digest: HashMap<Digest, usize>,
    broken: Vec<Broken>,
    /// Sorted by name, then version.
    inactive: Vec<Inactive>,
    /// Sorted by name.
    guides: Vec<Guide>,
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
    pub(crate) fn new(
        mut entries: Vec<Arc<Entry>>,
        mut broken: Vec<Broken>,
        mut inactive: Vec<Inactive>,
        mut guides: Vec<Guide>,
    ) -> Self {
        // Without a copy per comparison: there may be tens of thousands of them.
        inactive.sort_by(|Inactive { tool: one, .. }, Inactive { tool: other, .. }| {
            let names = one.name.cmp(&other.name).then_with(|| one.version.cmp(&other.version));
            names.then_with(|| one.digest.as_bytes().cmp(other.digest.as_bytes()))
        });
        guides.sort_by(|one, other| one.name.cmp(&other.name));
        entries.sort_by(|one, other| {
            (&one.tool.name, one.version()).cmp(&(&other.tool.name, other.version()))
        });
        broken.sort_by(|one, other| (&one.name, &one.folder).cmp(&(&other.name, &other.folder)));
        let digests = entries.iter().enumerate();
        let by_digest = digests.map(|(index, entry)| (entry.tool.digest, index)).collect();
        Self { entries, by_digest, broken, inactive, guides }
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

    /// Entry with exactly this definition, also of a tool that cannot be called.
    pub(crate) fn known(&self, digest: Digest) -> Option<&Arc<Entry>> {
        let inactive = || {
            let entries = self.inactive.iter().filter_map(|inactive| inactive.entry.as_ref());
            entries.into_iter().find(|entry| entry.tool.digest == digest)
        };
        self.by_digest(digest).or_else(inactive)
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

    /// Texts for models, of folders with a `SKILL.md`; sorted by name.
    pub fn guides(&self) -> &[Guide] {
        &self.guides
    }

    /// Versions that exist and cannot be called, sorted by name, then version.
    pub fn inactive(&self) -> &[Inactive] {
        &self.inactive
    }

    /// Versions of this name that cannot be called.
    pub fn inactive_versions(&self, name: &str) -> &[Inactive] {
        let start = self.inactive.partition_point(|one| one.tool.name.as_str() < name);
        let rest = &self.inactive[start..];
        &rest[..rest.partition_point(|one| one.tool.name.as_str() == name)]
    }

    /// A version of this name that cannot be called: exactly this one, or the newest.
    pub fn find_inactive(&self, name: &str, version: Option<&str>) -> Option<&Inactive> {
        let is_it =
            |inactive: &&Inactive| version.is_none_or(|version| inactive.tool.version == version);
        // A withdrawn version is told last: what waits for a decision is what can be helped.
        let all = || self.inactive_versions(name).iter().filter(is_it);
        all().rfind(|inactive| inactive.status != ToolStatus::Revoked).or_else(|| all().next_back())
    }

    /// Whether both snapshots have the same tools and broken skills.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let same = |(one, other): (&Arc<Entry>, &Arc<Entry>)| {
            one.tool == other.tool && one.folder == other.folder && one.grants() == other.grants()
        };
        self.broken == other.broken
            && self.inactive == other.inactive
            && self.guides == other.guides
            && self.entries.len() == other.entries.len()
            && self.entries.iter().zip(&other.entries).all(same)
    }
}
