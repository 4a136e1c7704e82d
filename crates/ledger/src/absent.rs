//! What receipts name by digest and a file with bytes does not hold. It is told, so that whoever reads
//! the file does not take what is there for all there was.

use std::collections::BTreeSet;

use ringfence_types::{Digest, EntryKind, Stream};
use serde::Deserialize;

use crate::bundle::{Artifact, Shown};

/// Something that a receipt names by digest, and that is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absent {
    /// The entry that names it.
    pub entry: u64,
    /// What it is: `args`, `asked_args`, `result`, `stdout` or `stderr`.
    pub name: &'static str,
    /// Its digest.
    pub digest: Digest,
}

/// What matters here of a receipt.
#[derive(Deserialize)]
struct Naming {
    args: Digest,
    asked_args: Option<Digest>,
    result: Option<Digest>,
    stdout: Stream,
    stderr: Stream,
}

/// What these entries name and is not `here`.
pub(crate) fn absent(entries: &[Shown], here: &[Artifact]) -> Vec<Absent> {
    let here: BTreeSet<_> = here.iter().map(|artifact| artifact.digest).collect();
    let named = entries.iter().flat_map(|entry| {
        let of = |(name, digest)| Absent { entry: entry.index, name, digest };
        named(entry).into_iter().map(of)
    });
    named.filter(|named| !here.contains(&named.digest)).collect()
}

/// The bytes that a receipt names; none of any other entry.
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
