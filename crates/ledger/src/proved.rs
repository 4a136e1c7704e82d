//! Entries as they are kept, with the proof of where they stand: their own signature may be missing.

use ringfence_types::Digest;

use crate::{
    bundle::{Ground, Item, Shown},
    envelope::{self, Envelope},
    flaw::{Flaw, Place, Problem},
    log::Row,
    merkle,
    statement::Statement,
};

/// An entry as it is kept, and that it stands there, by a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proved {
    /// The entry.
    pub row: Row,
    /// By the checkpoint.
    pub proof: Vec<Digest>,
}

impl Proved {
    /// With its envelope; none if it has no signature.
    pub fn item(self) -> Option<Item> {
        let Row { index, sealed } = self.row;
        Some(Item { index, envelope: Envelope::of(&sealed)?, proof: self.proof })
    }
}

impl Ground {
    /// Checks entries as they are kept: each under the checkpoint, and signed by the key that was in
    /// force; or, if it is the end of a call, only said to be by that key.
    pub fn show_kept(&self, entries: &[Proved]) -> Result<Vec<Shown>, Flaw> {
        entries.iter().map(|proved| self.show_one(proved)).collect()
    }

    fn show_one(&self, proved: &Proved) -> Result<Shown, Flaw> {
        let Row { index, sealed } = &proved.row;
        let statement: Statement = match Envelope::of(sealed) {
            // A copy, because a key that stands among the entries adds nothing to those known.
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
