//! Stored entries with their inclusion proofs; the end of a call may be unsigned.

use ringfence_types::Digest;

use crate::{
    bundle::{Ground, Item, Shown},
    envelope::{self, Envelope},
    flaw::{Flaw, Place, Problem},
    log::Row,
    merkle,
    statement::Statement,
};

/// A stored entry with its inclusion proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proved {
    /// The stored entry.
    pub row: Row,
    /// Inclusion proof by the checkpoint.
    pub proof: Vec<Digest>,
}

impl Proved {
    /// The entry with its envelope; none if it has no signature.
    pub fn item(self) -> Option<Item> {
        let Row { index, sealed } = self.row;
        Some(Item { index, envelope: Envelope::of(&sealed)?, proof: self.proof })
    }
}

impl Ground {
    /// Checks stored entries: each under the checkpoint, and signed by the key in force; the end of
    /// a call may be unsigned and name that key.
    pub fn show_kept(&self, entries: &[Proved]) -> Result<Vec<Shown>, Flaw> {
        entries.iter().map(|proved| self.show_one(proved)).collect()
    }

    fn show_one(&self, proved: &Proved) -> Result<Shown, Flaw> {
        let Row { index, sealed } = &proved.row;
        let statement: Statement = match Envelope::of(sealed) {
            // A copy: a key among the entries adds nothing to the known keys.
            Some(envelope) => self.chain.clone().check(*index, &envelope)?,
            None => self.chain.check_unsigned(*index, sealed)?,
        };
        let leaf = envelope::leaf(&sealed.payload);
        let (size, root) = (self.checkpoint.size, self.checkpoint.root);
        merkle::verify_inclusion(leaf, *index, size, &proved.proof, root)
            .map_err(|mismatch| Place::Entry(*index).is(Problem::Inclusion(mismatch)))?;
        Shown::of(*index, statement, sealed.signature.is_some())
    }
}
