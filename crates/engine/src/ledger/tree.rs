//! The ledger's tree as it is in memory, and the checkpoints over it: what the store asks for in every
//! commit in which the ledger grows.
//!
//! It is built from what this process wrote, and from what others wrote only as far as a checkpoint of
//! the same key is over it. So what is done to the database outside is never signed for.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use ringfence_ledger::{Signer, merkle::Builder};
use ringfence_store::{CheckpointSigner, Commitment, Error, Signed};
use ringfence_types::Digest;

use super::damaged;

/// Of the checkpoints that are signed within this time one stays: the newest is what counts.
const STAYS: Duration = Duration::from_secs(1);

/// The tree of the ledger; signs its checkpoints.
#[derive(Debug)]
pub(super) struct LogTree {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// As the newest checkpoint that was seen says.
    now: Edge,
    /// With the entries of a commit of which it is not known yet whether it is kept.
    next: Option<Edge>,
    signer: Arc<Signer>,
}

/// The tree, and when its newest checkpoints were signed.
#[derive(Debug, Clone, Default)]
struct Edge {
    builder: Builder,
    /// The checkpoint over it; empty if there is none.
    note: String,
    /// The newest, if this process signed it: its size, and when.
    newest: Option<(u64, Instant)>,
    /// When the newest of those that stay was signed.
    stayed: Option<Instant>,
}

impl LogTree {
    /// The tree under a checkpoint of this signer's key; of none over no entries.
    pub(super) fn new(signer: Arc<Signer>, builder: Builder, at: Option<Signed>) -> Self {
        let note = at.map(|signed| signed.note).unwrap_or_default();
        let now = Edge { builder, note, ..Edge::default() };
        Self { state: Mutex::new(State { now, next: None, signer }) }
    }

    /// From the next commit on another key signs, whose entry is in that commit.
    pub(super) fn succeed(&self, successor: Arc<Signer>) {
        self.lock().signer = successor;
    }

    /// Nothing under the lock leaves it half-changed: what a commit adds is beside it until it ended.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CheckpointSigner for LogTree {
    fn seen(&self, at: Option<&Signed>) -> u64 {
        let mut state = self.lock();
        state.settle(at);
        state.now.builder.size()
    }

    fn commit(
        &self,
        at: Option<&Signed>,
        missing: &[Digest],
        leaves: &[Digest],
    ) -> Result<Commitment, Error> {
        let mut state = self.lock();
        state.settle(at);
        let mut next = state.now.clone();
        if at.map_or("", |at| at.note.as_str()) != next.note {
            next.catch_up(at, missing, &state.signer)?;
        }
        let mut tiles = Vec::new();
        for leaf in leaves {
            let full = |tile: ringfence_ledger::merkle::Tile| {
                tiles.push((tile.id.level, tile.id.index, tile.bytes()));
            };
            next.builder.push(*leaf, full);
        }
        let size = next.builder.size();
        next.note = state.signer.checkpoint(size, next.builder.root()).render();
        let (note, replaces) = (next.note.clone(), next.signed(size, Instant::now()));
        state.next = Some(next);
        Ok(Commitment { size, note, tiles, replaces })
    }
}

impl State {
    /// What was signed last counts if it is the newest checkpoint of the store; else that commit was not
    /// kept.
    fn settle(&mut self, at: Option<&Signed>) {
        let Some(next) = self.next.take() else { return };
        if at.is_some_and(|at| at.note == next.note) {
            self.now = next;
        }
    }
}

impl Edge {
    /// Takes the entries of other processes, if the checkpoint over them is by our key.
    fn catch_up(
        &mut self,
        at: Option<&Signed>,
        missing: &[Digest],
        signer: &Signer,
    ) -> Result<(), Error> {
        let at = at.ok_or_else(damaged)?;
        let own = signer.own(&at.note).ok_or_else(damaged)?;
        // The processes that wrote these entries have put their tiles where they belong.
        missing.iter().for_each(|leaf| self.builder.push(*leaf, drop));
        let (size, root) = (self.builder.size(), self.builder.root());
        if (own.checkpoint().size, own.checkpoint().root) != (size, root) {
            return Err(damaged());
        }
        self.note.clone_from(&at.note);
        self.newest = None;
        Ok(())
    }

    /// Remembers a new checkpoint, and says which one it makes superfluous.
    fn signed(&mut self, size: u64, at: Instant) -> Option<u64> {
        let before = self.newest.replace((size, at));
        let (before, signed_at) = before?;
        if self.stayed.is_some_and(|stayed| signed_at.duration_since(stayed) < STAYS) {
            return Some(before);
        }
        self.stayed = Some(signed_at);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signer(seed: u8) -> Arc<Signer> {
        let key = ringfence_ledger::SigningKey::from_seed([seed; 32]);
        Arc::new(Signer::new(key, "ringfence/test".into()).unwrap())
    }

    fn tree(seed: u8) -> LogTree {
        LogTree::new(signer(seed), Builder::default(), None)
    }

    fn kept(made: &Commitment) -> Signed {
        Signed { size: made.size, note: made.note.clone() }
    }

    #[test]
    fn of_the_checkpoints_of_a_second_one_stays_and_the_newest_always_does() {
        let start = Instant::now();
        let mut edge = Edge::default();
        let mut kept = Vec::new();
        for (size, millis) in [(1, 0), (2, 300), (3, 900), (4, 1_100), (5, 1_200), (6, 2_500)] {
            let replaced = edge.signed(size, start + Duration::from_millis(millis));
            kept.retain(|size| Some(*size) != replaced);
            kept.push(size);
        }
        assert_eq!(kept, [1, 4, 6]);
    }

    #[test]
    fn what_was_not_kept_was_never_signed_for() {
        let tree = tree(3);
        let leaves = [Digest::of(b"a"), Digest::of(b"b")];
        let first = tree.commit(None, &[], &leaves).unwrap();
        assert_eq!(tree.seen(None), 0, "the store has no checkpoint: it was not kept");
        let again = tree.commit(None, &[], &leaves).unwrap();
        assert_eq!(again.note, first.note);
        assert_eq!(tree.seen(Some(&kept(&again))), 2);
    }

    #[test]
    fn two_processes_with_one_key_continue_each_other() {
        let (one, other) = (tree(3), tree(3));
        let leaves = [Digest::of(b"a"), Digest::of(b"b"), Digest::of(b"c")];
        let first = kept(&one.commit(None, &[], &leaves[..1]).unwrap());
        assert_eq!(other.seen(Some(&first)), 0);
        let second = kept(&other.commit(Some(&first), &leaves[..1], &leaves[1..2]).unwrap());
        // Its own commit is not the newest any more, so it is handed over like those of others.
        assert_eq!(one.seen(Some(&second)), 0);
        let third = one.commit(Some(&second), &leaves[..2], &leaves[2..]).unwrap();
        let alone = tree(3).commit(None, &[], &leaves).unwrap();
        assert_eq!((third.size, third.note), (3, alone.note));
    }

    #[test]
    fn nothing_is_signed_over_a_checkpoint_that_is_not_what_it_should_be() {
        let leaves = [Digest::of(b"a"), Digest::of(b"b")];
        let foreign = kept(&tree(4).commit(None, &[], &leaves[..1]).unwrap());
        tree(3).commit(Some(&foreign), &leaves[..1], &leaves[1..]).expect_err("by another key");
        let own = kept(&tree(3).commit(None, &[], &leaves[..1]).unwrap());
        tree(3).commit(Some(&own), &leaves[1..], &leaves[1..]).expect_err("over another entry");
        tree(3).commit(Some(&own), &[], &leaves[1..]).expect_err("over an entry that is gone");
        let ahead = tree(3);
        let both = kept(&ahead.commit(None, &[], &leaves).unwrap());
        assert_eq!(ahead.seen(Some(&both)), 2);
        ahead.commit(Some(&own), &[], &leaves[1..]).expect_err("shorter than it was seen");
        ahead.commit(None, &[], &leaves[1..]).expect_err("no checkpoint any more");
        tree(3).commit(Some(&own), &leaves[..1], &leaves[1..]).expect("the control");
    }
}
