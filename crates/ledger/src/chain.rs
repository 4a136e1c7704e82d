//! Chain of ledger keys. The first entry of a log names its first key and is signed by it; every
//! later key is named by an entry that the previous key signed.

use ringfence_types::{Digest, EntryKind, Sealed};

use crate::{
    entry::{LedgerKey, said},
    envelope::Envelope,
    flaw::{Flaw, Place, Problem},
    key::PublicKey,
    note::Note,
    statement::Statement,
};

/// The keys of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    origin: String,
    /// The first entry that each key may sign, and the key. Never empty; in order.
    keys: Vec<(u64, PublicKey)>,
}

impl Chain {
    /// The chain that begins with the first entry of the log.
    pub fn begin(first: &Envelope) -> Result<Self, Flaw> {
        let place = || Place::Entry(0);
        let statement = statement(0, &first.payload)?;
        let LedgerKey { origin, public, id, replaces } =
            key(&statement).ok_or_else(|| place().is(Problem::Statement))?;
        if id != public.id() || replaces.is_some() {
            return Err(place().is(Problem::Statement));
        }
        let chain = Self { origin, keys: vec![(0, public)] };
        chain.check_signature(0, first)?;
        Ok(chain)
    }

    /// Name of the log.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The keys so far, with the first entry that each may sign.
    pub fn keys(&self) -> impl Iterator<Item = (u64, &PublicKey)> {
        self.keys.iter().map(|(from, key)| (*from, key))
    }

    /// The key in force for the entry with this index, and for a checkpoint over that many entries.
    pub fn at(&self, index: u64) -> &PublicKey {
        let after = self.keys.partition_point(|(from, _)| *from <= index);
        &self.keys[after.saturating_sub(1)].1
    }

    /// Checks an entry other than the first, and adds the key that it names, if any.
    pub fn check(&mut self, index: u64, envelope: &Envelope) -> Result<Statement, Flaw> {
        let statement = statement(index, &envelope.payload)?;
        match statement.kind() {
            Some(EntryKind::Call) => self.check_end(index, envelope)?,
            _ => self.check_signature(index, envelope)?,
        }
        if statement.kind() == Some(EntryKind::CheckpointKey) {
            self.extend(index, &statement)?;
        }
        Ok(statement)
    }

    /// Checks an entry without a signature: the end of a call, under the key in force.
    pub fn check_unsigned(&self, index: u64, sealed: &Sealed) -> Result<Statement, Flaw> {
        let statement = statement(index, &sealed.payload)?;
        self.check_signer(index, sealed.signer)?;
        match statement.kind() {
            Some(EntryKind::Call) => Ok(statement),
            _ => Err(Place::Entry(index).is(Problem::Unsigned)),
        }
    }

    /// Checks that the key in force has signed a checkpoint over that many entries.
    pub fn check_note(&self, size: u64, note: &Note) -> Result<(), Flaw> {
        match note.is_signed_by(&self.origin, self.at(size)) {
            true => Ok(()),
            false => Err(Place::Checkpoint(size).is(Problem::Signature)),
        }
    }

    fn extend(&mut self, index: u64, statement: &Statement) -> Result<(), Flaw> {
        let flaw = |problem| Place::Entry(index).is(problem);
        let LedgerKey { origin, public, id, replaces } =
            key(statement).ok_or_else(|| flaw(Problem::Statement))?;
        if origin != self.origin {
            return Err(flaw(Problem::Origin { expected: self.origin.clone(), found: origin }));
        }
        if id != public.id() || replaces != Some(self.at(index).id()) {
            return Err(flaw(Problem::Statement));
        }
        self.keys.push((index + 1, public));
        Ok(())
    }

    fn check_signature(&self, index: u64, envelope: &Envelope) -> Result<(), Flaw> {
        self.check_signer(index, envelope.signer)?;
        Self::check_made_by(self.at(index), index, envelope)
    }

    /// Checks the signature of a call's end, which is made when a proof is asked for: by the key of
    /// its time, or a later one.
    fn check_end(&self, index: u64, envelope: &Envelope) -> Result<(), Flaw> {
        let before = self.keys.partition_point(|(from, _)| *from <= index).saturating_sub(1);
        let mut since = self.keys[before..].iter().map(|(_, key)| key);
        match since.find(|key| key.id() == envelope.signer) {
            Some(key) => Self::check_made_by(key, index, envelope),
            None => self.check_signature(index, envelope),
        }
    }

    fn check_made_by(key: &PublicKey, index: u64, envelope: &Envelope) -> Result<(), Flaw> {
        match envelope.is_signed_by(key) {
            true => Ok(()),
            false => Err(Place::Entry(index).is(Problem::Signature)),
        }
    }

    fn check_signer(&self, index: u64, found: Digest) -> Result<(), Flaw> {
        let expected = self.at(index).id();
        match expected == found {
            true => Ok(()),
            false => Err(Place::Entry(index).is(Problem::Key { expected, found })),
        }
    }
}

fn statement(index: u64, payload: &str) -> Result<Statement, Flaw> {
    let statement = Statement::parse(payload);
    statement
        .filter(|statement| statement.kind().is_some())
        .ok_or_else(|| Place::Entry(index).is(Problem::Statement))
}

fn key(statement: &Statement) -> Option<LedgerKey> {
    let is_key = statement.kind() == Some(EntryKind::CheckpointKey);
    is_key.then(|| said(&statement.predicate)).flatten()
}
