//! Conditions under which entries are written: shared by all backends.

use ringfence_types::Sealed;

use crate::{CheckpointSigner, Error, Signed};

/// The ledger is not as its newest checkpoint says, or shorter than it was.
#[derive(Debug, thiserror::Error)]
#[error(
    "ledger modified outside this server: it has {found} entries, {signed} of them under its newest \
     checkpoint, and this server has seen {seen}"
)]
pub(crate) struct Foreign {
    found: u64,
    signed: u64,
    seen: u64,
}

/// An entry without a signature that no checkpoint would cover.
#[derive(Debug, thiserror::Error)]
#[error("an entry without a signature needs a checkpoint in its commit")]
struct Uncovered;

/// Checks that a ledger of so many entries is as its newest checkpoint says; gives the number of entries
/// that the signer has seen.
pub(crate) fn check_ledger(
    signer: &dyn CheckpointSigner,
    newest: Option<&Signed>,
    found: u64,
) -> Result<u64, Foreign> {
    let (signed, seen) = (newest.map_or(0, |newest| newest.size), signer.seen(newest));
    match found != signed || signed < seen {
        true => Err(Foreign { found, signed, seen }),
        false => Ok(seen),
    }
}

/// Refuses entries that could be changed later without notice.
pub(crate) fn check_signed(has_signer: bool, entries: &[Sealed]) -> Result<(), Error> {
    if has_signer || entries.iter().all(|entry| entry.signature.is_some()) {
        return Ok(());
    }
    Err(Error::backend("write an entry of the ledger")(Uncovered))
}
