//! Growth of a log since an older checkpoint, verified with that checkpoint alone: by the
//! consistency proof of RFC 6962 that a server gives.

use ringfence_types::Digest;
use serde::Deserialize;

use crate::{
    checkpoint::Checkpoint,
    encoding,
    flaw::{Flaw, Place, Problem},
    key::PublicKey,
    merkle,
    note::Note,
};

/// A server's unverified answer about its growth.
#[derive(Debug, Clone, Deserialize)]
pub struct Growth {
    /// Hashes that lead from the older root to the newer one.
    #[serde(with = "encoding::hashes")]
    proof: Vec<Digest>,
    /// The newer checkpoint.
    checkpoint: String,
}

/// Verified growth of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grown {
    /// The older checkpoint.
    pub from: Checkpoint,
    /// The newer one.
    pub to: Checkpoint,
    /// The key that signed the newer one.
    pub key: PublicKey,
}

impl Growth {
    /// Verifies the growth since an older checkpoint. `keys` are those of the log, each with the
    /// index of the entry that names it, in order.
    pub fn verify(&self, older: &str, keys: &[(u64, PublicKey)]) -> Result<Grown, Flaw> {
        let (from, _) = signed_checkpoint(older, keys)?;
        let (to, key) = signed_checkpoint(&self.checkpoint, keys)?;
        if from.origin != to.origin {
            let (expected, found) = (from.origin, to.origin);
            return Err(Place::Checkpoint(to.size).is(Problem::Origin { expected, found }));
        }
        if to.size < from.size {
            return Err(Place::Entry(to.size).is(Problem::Truncated { size: to.size }));
        }
        let (old, new) = ((from.size, from.root), (to.size, to.root));
        // The empty log promises nothing.
        let held =
            if from.size == 0 { Ok(()) } else { merkle::verify_consistency(old, new, &self.proof) };
        match held {
            Ok(()) => Ok(Grown { from, to, key }),
            Err(_) => {
                let last = from.size.saturating_sub(1);
                Err(Place::Entries(0, last).is(Problem::Root { size: from.size }))
            }
        }
    }
}

/// A checkpoint signed by the key in force, and that key. `keys` are those of the log, each with
/// the index of the entry that names it, in order.
pub fn signed_checkpoint(
    text: &str,
    keys: &[(u64, PublicKey)],
) -> Result<(Checkpoint, PublicKey), Flaw> {
    let unreadable = || Place::Checkpoint(0).is(Problem::Form);
    let note = Note::parse(text).ok_or_else(unreadable)?;
    let checkpoint = Checkpoint::of(&note).ok_or_else(unreadable)?;
    // The entry that names a key is the last that the previous key signs.
    let is_in_force =
        |(named_at, _): &&(u64, PublicKey)| *named_at == 0 || *named_at < checkpoint.size;
    let key = keys.iter().rfind(is_in_force).map(|(_, key)| *key);
    match key.filter(|key| note.is_signed_by(&checkpoint.origin, key)) {
        Some(key) => Ok((checkpoint, key)),
        None => Err(Place::Checkpoint(checkpoint.size).is(Problem::Signature)),
    }
}
