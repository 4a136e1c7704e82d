//! Memoised calls in a bundle: the receipt of the call whose result was reused must be in the
//! bundle, with the same result.

use std::collections::BTreeSet;

use ringfence_types::{Digest, EntryKind, Memoised};
use serde::Deserialize;

use crate::{
    bundle::{Item, Manifest, Shown},
    flaw::{Flaw, Place, Problem},
};

/// Memo part of a receipt.
#[derive(Deserialize)]
struct MemoPart {
    result: Option<Digest>,
    memoised: Option<Memoised>,
}

/// The receipt in an entry; none in other entries.
fn memo_part(entry: &Shown) -> Option<MemoPart> {
    let is_receipt = entry.kind == EntryKind::Call;
    is_receipt.then(|| serde_json::from_str(&entry.predicate).ok()).flatten()
}

/// Entries that are in the bundle because a selected call reuses their result.
pub(crate) fn memo_sources(
    items: &[Item],
    entries: &[Shown],
    manifest: &Manifest,
) -> Result<BTreeSet<u64>, Flaw> {
    let mut memo_sources = BTreeSet::new();
    for later in entries.iter().filter(|entry| entry.check_belongs(manifest).is_ok()) {
        let Some(MemoPart { result, memoised: Some(memoised) }) = memo_part(later) else {
            continue;
        };
        let here = items.iter().zip(entries).find(|(item, _)| item.index == memoised.entry);
        let is_it = here.is_some_and(|(item, earlier)| {
            item.envelope.leaf() == memoised.leaf
                && earlier.about.call == Some(memoised.call)
                && earlier.about.tenant == later.about.tenant
                && memo_part(earlier).is_some_and(|memo_part| memo_part.result == result)
        });
        if !is_it {
            return Err(Place::Entry(later.index).is(Problem::Original(memoised.entry)));
        }
        memo_sources.insert(memoised.entry);
    }
    Ok(memo_sources)
}
