//! Calls for which nothing ran: a bundle that holds one also holds the receipt of the call whose result
//! it was given, and they say the same.

use std::collections::BTreeSet;

use ringfence_types::{Digest, EntryKind, Memoised};
use serde::Deserialize;

use crate::{
    bundle::{Item, Manifest, Shown},
    flaw::{Flaw, Place, Problem},
};

/// What matters here of a receipt.
#[derive(Deserialize)]
struct Said {
    result: Option<Digest>,
    memoised: Option<Memoised>,
}

/// The receipt in an entry; none in one that is no receipt.
fn said(entry: &Shown) -> Option<Said> {
    let is_receipt = entry.kind == EntryKind::Call;
    is_receipt.then(|| serde_json::from_str(&entry.predicate).ok()).flatten()
}

/// The entries that are here because a call that the bundle is about was given their result.
pub(crate) fn originals(
    items: &[Item],
    entries: &[Shown],
    manifest: &Manifest,
) -> Result<BTreeSet<u64>, Flaw> {
    let mut originals = BTreeSet::new();
    for later in entries.iter().filter(|entry| entry.check_belongs(manifest).is_ok()) {
        let Some(Said { result, memoised: Some(memoised) }) = said(later) else { continue };
        let here = items.iter().zip(entries).find(|(item, _)| item.index == memoised.entry);
        let is_it = here.is_some_and(|(item, earlier)| {
            item.envelope.leaf() == memoised.leaf
                && earlier.about.call == Some(memoised.call)
                && earlier.about.tenant == later.about.tenant
                && said(earlier).is_some_and(|said| said.result == result)
        });
        if !is_it {
            return Err(Place::Entry(later.index).is(Problem::Original(memoised.entry)));
        }
        originals.insert(memoised.entry);
    }
    Ok(originals)
}
