//! The ledger's tree in memory, and the checkpoints over it, which the store asks for in every
//! commit in which the ledger grows.
//!
//! The tree grows by entries that this process wrote, and by entries of other processes only under
//! a checkpoint of the same key. So changes made to the database from outside are never signed.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use ringfence_ledger::{Signer, merkle::Builder};
use ringfence_store::{CheckpointSigner, Commitment, Error, Signed};
use ringfence_types::Digest;

use super::damaged;

/// Interval of the checkpoints that the store keeps for good; later ones replace each other within
/// it.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(1);

/// The tree of the ledger; signs its checkpoints.
#[derive(Debug)]
pub(super) struct LogTree {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The tree under the newest checkpoint that was seen.
    now: SignedTree,
    /// The tree with the entries of a commit that is not confirmed yet.
    next: Option<SignedTree>,
    signer: Arc<Signer>,
}

/// The tree, and when its newest checkpoints were signed.
#[derive(Debug, Clone, Default)]
struct SignedTree {
    builder: Builder,
    /// The checkpoint over it; empty without one.
    note: String,
    /// Size and time of the newest checkpoint, if this process signed it.
    newest: Option<(u64, Instant)>,
    /// Time of the newest checkpoint that is kept for good.
    kept_at: Option<Instant>,
}

impl LogTree {
    /// The tree under a checkpoint of this signer's key, or an empty tree.
    pub(super) fn new(signer: Arc<Signer>, builder: Builder, at: Option<Signed>) -> Self {
        let note = at.map(|signed| signed.note).unwrap_or_default();
        let now = SignedTree { builder, note, ..SignedTree::default() };
        Self { state: Mutex::new(State { now, next: None, signer }) }
    }

    /// Changes the signer from the next commit on; that commit has the entry about the new key.
    pub(super) fn set_signer(&self, successor: Arc<Signer>) {
        self.lock().signer = successor;
    }

    /// The state. A poisoned lock is usable: the additions of a commit are separate until it has
    /// ended.
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
    /// Confirms the last signed checkpoint if it is the newest one of the store; otherwise its
    /// commit failed and is forgotten.
    fn settle(&mut self, at: Option<&Signed>) {
        let Some(next) = self.next.take() else { return };
        if at.is_some_and(|at| at.note == next.note) {
            self.now = next;
        }
    }
}

impl SignedTree {
    /// Adds the entries of other processes, if our key signed the checkpoint over them.
    fn catch_up(
        &mut self,
        at: Option<&Signed>,
        missing: &[Digest],
        signer: &Signer,
    ) -> Result<(), Error> {
        let at = at.ok_or_else(damaged)?;
        let own = signer.own(&at.note).ok_or_else(damaged)?;
        // The processes that wrote these entries have stored their tiles.
        missing.iter().for_each(|leaf| self.builder.push(*leaf, drop));
        let (size, root) = (self.builder.size(), self.builder.root());
        if (own.checkpoint().size, own.checkpoint().root) != (size, root) {
            return Err(damaged());
        }
        self.note.clone_from(&at.note);
        self.newest = None;
        Ok(())
    }

    /// Notes a new checkpoint, and returns the size of the one it replaces.
    fn signed(&mut self, size: u64, at: Instant) -> Option<u64> {
        let before = self.newest.replace((size, at));
        let (before, signed_at) = before?;
        if self
            .kept_at
            .is_some_and(|kept_at| signed_at.duration_since(kept_at) < CHECKPOINT_INTERVAL)
        {
            return Some(before);
        }
        self.kept_at = Some(signed_at);
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
        let mut edge = SignedTree::default();
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
        assert_eq!(tree.seen(None), 0, "the store has no checkpoint: the commit failed");
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
