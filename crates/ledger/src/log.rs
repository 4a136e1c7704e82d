//! The whole log, entry by entry: nothing changed, nothing missing, nothing moved.
//!
//! Each entry is checked by itself; where they stand is checked by every checkpoint on the way, so
//! that what was moved is found between two checkpoints that are close together.

use std::collections::{BTreeMap, HashSet, VecDeque};

use ringfence_types::{Digest, EntryKind, Sealed};

use crate::{
    chain::Chain,
    checkpoint::Checkpoint,
    entry::about,
    envelope::Envelope,
    flaw::{Flaw, Place, Problem},
    merkle::{Builder, Tile},
    note::Note,
};

/// An entry as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Where it stands.
    pub index: u64,
    /// What is kept there.
    pub sealed: Sealed,
}

/// Checks a log as it is read.
#[derive(Debug, Default)]
pub struct LogCheck {
    chain: Option<Chain>,
    tree: Builder,
    /// Not reached yet, in order.
    ahead: VecDeque<(Checkpoint, Note)>,
    /// The last one that held: entries under it, and their root.
    held: Option<(u64, Digest)>,
    kinds: BTreeMap<EntryKind, u64>,
    /// Half of every leaf: enough to tell them apart. An entry that was copied to the end would be
    /// signed again by the next checkpoint, and nothing else would tell.
    seen: HashSet<[u8; 16]>,
}

/// A log that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audited {
    /// Entries.
    pub entries: u64,
    /// Of these, by kind.
    pub kinds: BTreeMap<EntryKind, u64>,
    /// The newest checkpoint that was checked: entries under it, and their root.
    pub checkpoint: Option<(u64, Digest)>,
    /// The keys; none if there are no entries.
    pub chain: Option<Chain>,
}

impl LogCheck {
    /// Takes a checkpoint that the log must agree with. They come in order of size, each before the
    /// entry after its last.
    pub fn expect(&mut self, note: &str) -> Result<(), Flaw> {
        let unreadable = || Place::Checkpoint(self.tree.size()).is(Problem::Form);
        let note = Note::parse(note).ok_or_else(unreadable)?;
        let checkpoint = Checkpoint::of(&note).ok_or_else(unreadable)?;
        let newest = self.ahead.back().map_or(self.tree.size(), |(last, _)| last.size);
        if checkpoint.size < newest.max(1) {
            return Err(Place::Checkpoint(checkpoint.size).is(Problem::Order));
        }
        self.ahead.push_back((checkpoint, note));
        self.compare()
    }

    /// Takes the next entry; tiles that it fills are handed out to be compared.
    pub fn row(&mut self, row: &Row, full: impl FnMut(Tile)) -> Result<(), Flaw> {
        let expected = self.tree.size();
        if row.index != expected {
            return Err(Place::Entry(expected).is(Problem::Missing { found: row.index }));
        }
        let envelope = Envelope::from(&row.sealed);
        self.check(row, &envelope)?;
        self.tree.push(row.sealed.leaf, full);
        *self.kinds.entry(row.sealed.kind).or_default() += 1;
        self.compare()
    }

    fn check(&mut self, row: &Row, envelope: &Envelope) -> Result<(), Flaw> {
        let flaw = |problem| Place::Entry(row.index).is(problem);
        let statement = match &mut self.chain {
            None => {
                let chain = Chain::begin(envelope)?;
                let statement = crate::Statement::parse(&envelope.payload);
                self.chain = Some(chain);
                statement.ok_or_else(|| flaw(Problem::Statement))?
            }
            Some(chain) => chain.check(row.index, envelope)?,
        };
        if envelope.leaf() != row.sealed.leaf {
            return Err(flaw(Problem::Leaf));
        }
        let half = row.sealed.leaf.as_bytes().first_chunk().expect("32 bytes have a first half");
        if !self.seen.insert(*half) {
            return Err(flaw(Problem::Repeated));
        }
        let kind = row.sealed.kind;
        let said = about(kind, &statement.predicate);
        if statement.kind() != Some(kind) || said.as_ref() != Some(&row.sealed.about) {
            return Err(flaw(Problem::Index));
        }
        Ok(())
    }

    /// Compares with every checkpoint that is due.
    fn compare(&mut self) -> Result<(), Flaw> {
        while let Some((checkpoint, note)) = self.ahead.front()
            && checkpoint.size == self.tree.size()
        {
            let size = checkpoint.size;
            let chain = self.chain.as_ref().expect("a log with entries has keys");
            if checkpoint.origin != chain.origin() {
                let expected = chain.origin().to_owned();
                let found = checkpoint.origin.clone();
                return Err(Place::Checkpoint(size).is(Problem::Origin { expected, found }));
            }
            chain.check_note(size, note)?;
            if checkpoint.root != self.tree.root() {
                let first = self.held.map_or(0, |(size, _)| size);
                return Err(Place::Entries(first, size - 1).is(Problem::Root { size }));
            }
            self.held = Some((size, checkpoint.root));
            self.ahead.pop_front();
        }
        Ok(())
    }

    /// There are no more entries.
    pub fn finish(self) -> Result<Audited, Flaw> {
        let entries = self.tree.size();
        if let Some((_, _)) = self.ahead.front() {
            return Err(Place::Entry(entries).is(Problem::Truncated { size: entries }));
        }
        Ok(Audited { entries, kinds: self.kinds, checkpoint: self.held, chain: self.chain })
    }
}
