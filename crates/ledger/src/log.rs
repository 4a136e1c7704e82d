//! Verification of the whole log, entry by entry: nothing changed, missing or moved.
//!
//! Each entry is checked by its signature or, without one, by the checkpoint over it, which must
//! exist. The order is checked by every checkpoint on the way, so that a moved entry is located
//! between two close checkpoints.

use std::collections::{BTreeMap, HashSet, VecDeque};

use ringfence_types::{Digest, EntryKind, Sealed};

use crate::{
    chain::Chain,
    checkpoint::Checkpoint,
    entry::about,
    envelope::{self, Envelope},
    flaw::{Flaw, Place, Problem},
    merkle::{Builder, Tile},
    note::Note,
    statement::Statement,
};

/// A stored entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Index in the log.
    pub index: u64,
    /// The entry at that index.
    pub sealed: Sealed,
}

/// Check of a log while it is read.
#[derive(Debug, Default)]
pub struct LogCheck {
    chain: Option<Chain>,
    tree: Builder,
    /// Checkpoints that are not reached yet, in order.
    ahead: VecDeque<(Checkpoint, Note)>,
    /// The last verified checkpoint: number of entries, and root.
    held: Option<(u64, Digest)>,
    kinds: BTreeMap<EntryKind, u64>,
    /// Number of entries without a signature, and the last of them.
    unsigned: (u64, Option<u64>),
    /// Half of every leaf hash, to detect repeated entries: an entry copied to the end would be
    /// signed again by the next checkpoint, and nothing else would show it.
    seen: HashSet<[u8; 16]>,
}

/// A verified log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audited {
    /// Number of entries.
    pub entries: u64,
    /// Numbers by kind.
    pub kinds: BTreeMap<EntryKind, u64>,
    /// Entries without a signature of their own yet; the checkpoint covers them.
    pub unsigned: u64,
    /// The newest verified checkpoint: number of entries, and root.
    pub checkpoint: Option<(u64, Digest)>,
    /// The keys; none for an empty log.
    pub chain: Option<Chain>,
}

impl LogCheck {
    /// Adds a checkpoint that the log must agree with. Checkpoints come in order of size, each
    /// before the entry after its last.
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

    /// Checks the next entry; full tiles are handed out for comparison.
    pub fn row(&mut self, row: &Row, full: impl FnMut(Tile)) -> Result<(), Flaw> {
        let expected = self.tree.size();
        if row.index != expected {
            return Err(Place::Entry(expected).is(Problem::Missing { found: row.index }));
        }
        self.check(row)?;
        self.tree.push(row.sealed.leaf, full);
        *self.kinds.entry(row.sealed.kind).or_default() += 1;
        self.compare()
    }

    fn check(&mut self, row: &Row) -> Result<(), Flaw> {
        let flaw = |problem| Place::Entry(row.index).is(problem);
        let statement = self.statement(row)?;
        if envelope::leaf(&row.sealed.payload) != row.sealed.leaf {
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

    /// The statement of an entry, checked by its signature or by its key.
    fn statement(&mut self, row: &Row) -> Result<Statement, Flaw> {
        let Row { index, sealed } = row;
        let flaw = |problem| Place::Entry(*index).is(problem);
        match (&mut self.chain, Envelope::of(sealed)) {
            (None, None) => Err(flaw(Problem::Unsigned)),
            (None, Some(first)) => {
                self.chain = Some(Chain::begin(&first)?);
                Statement::parse(&first.payload).ok_or_else(|| flaw(Problem::Statement))
            }
            (Some(chain), Some(envelope)) => chain.check(*index, &envelope),
            (Some(chain), None) => {
                self.unsigned = (self.unsigned.0 + 1, Some(*index));
                chain.check_unsigned(*index, sealed)
            }
        }
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

    /// Result after the last entry.
    pub fn finish(self) -> Result<Audited, Flaw> {
        let entries = self.tree.size();
        if let Some((_, _)) = self.ahead.front() {
            return Err(Place::Entry(entries).is(Problem::Truncated { size: entries }));
        }
        let covered = self.held.map_or(0, |(size, _)| size);
        let (unsigned, last) = self.unsigned;
        if let Some(last) = last.filter(|last| *last >= covered) {
            return Err(Place::Entry(last).is(Problem::Unsigned));
        }
        let Self { kinds, held: checkpoint, chain, .. } = self;
        Ok(Audited { entries, kinds, unsigned, checkpoint, chain })
    }
}
