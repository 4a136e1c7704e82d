//! Artifacts that receipts name by digest and that a bundle with artifacts lacks. They are
//! reported, so that readers know the bundle is incomplete.

use std::collections::BTreeSet;

use ringfence_types::{Digest, EntryKind, Stream};
use serde::Deserialize;

use crate::bundle::{Artifact, Shown};

/// An artifact that a receipt names by digest and that is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingArtifact {
    /// Index of the entry that names it.
    pub entry: u64,
    /// Its name: `args`, `asked_args`, `result`, `stdout` or `stderr`.
    pub name: &'static str,
    /// Its digest.
    pub digest: Digest,
}

/// Artifact digests of a receipt.
#[derive(Deserialize)]
struct Naming {
    args: Digest,
    asked_args: Option<Digest>,
    result: Option<Digest>,
    stdout: Stream,
    stderr: Stream,
}

/// Artifacts that these entries name and that are not `here`.
pub(crate) fn missing_artifacts(entries: &[Shown], here: &[Artifact]) -> Vec<MissingArtifact> {
    let here: BTreeSet<_> = here.iter().map(|artifact| artifact.digest).collect();
    let named = entries.iter().flat_map(|entry| {
        let of = |(name, digest)| MissingArtifact { entry: entry.index, name, digest };
        named(entry).into_iter().map(of)
    });
    named.filter(|named| !here.contains(&named.digest)).collect()
}

/// The artifacts that a receipt names; none for other entries.
fn named(entry: &Shown) -> Vec<(&'static str, Digest)> {
    let read = || serde_json::from_str::<Naming>(&entry.predicate).ok();
    let naming = (entry.kind == EntryKind::Call).then(read).flatten();
    let Some(naming) = naming else { return Vec::new() };
    let all = [
        ("args", Some(naming.args)),
        ("asked_args", naming.asked_args),
        ("result", naming.result),
        ("stdout", naming.stdout.digest),
        ("stderr", naming.stderr.digest),
    ];
    all.into_iter().filter_map(|(name, digest)| Some((name, digest?))).collect()
}
