//! The ledger's tree as it is in memory, and the checkpoints over it: what the store asks in every
//! commit in which the ledger grows.
//!
//! It is built from what this process wrote, and read from the store only once, at the start. So what
//! somebody else does to the database afterwards is not signed for.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use ringfence_ledger::{Signer, merkle::Builder};
use ringfence_store::{Commitment, Notary};
use ringfence_types::Digest;

/// Of the checkpoints that are signed within this time one stays: the newest is what counts.
const STAYS: Duration = Duration::from_secs(1);

/// The notary of the ledger.
#[derive(Debug)]
pub(super) struct Tree {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    now: Edge,
    /// With the entries of a commit that has not ended.
    next: Option<Edge>,
    signer: Arc<Signer>,
}

/// The tree, and when its newest checkpoints were signed.
#[derive(Debug, Clone, Default)]
struct Edge {
    builder: Builder,
    /// The newest, if this process signed it: its size, and when.
    newest: Option<(u64, Instant)>,
    /// When the newest of those that stay was signed.
    stayed: Option<Instant>,
}

impl Tree {
    pub(super) fn new(signer: Arc<Signer>, builder: Builder) -> Self {
        let now = Edge { builder, ..Edge::default() };
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

impl Notary for Tree {
    fn size(&self) -> u64 {
        self.lock().now.builder.size()
    }

    fn commit(&self, leaves: &[Digest]) -> Commitment {
        let mut state = self.lock();
        let mut next = state.now.clone();
        let mut tiles = Vec::new();
        for leaf in leaves {
            let full = |tile: ringfence_ledger::merkle::Tile| {
                tiles.push((tile.id.level, tile.id.index, tile.bytes()));
            };
            next.builder.push(*leaf, full);
        }
        let size = next.builder.size();
        let note = state.signer.checkpoint(size, next.builder.root()).render();
        let replaces = next.signed(size, Instant::now());
        state.next = Some(next);
        Commitment { size, note, tiles, replaces }
    }

    fn ended(&self, is_kept: bool) {
        let mut state = self.lock();
        if let Some(next) = state.next.take().filter(|_| is_kept) {
            state.now = next;
        }
    }
}

impl Edge {
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
        let key = ringfence_ledger::SigningKey::from_seed([3; 32]);
        let signer = Arc::new(Signer::new(key, "ringfence/test".into()).unwrap());
        let tree = Tree::new(signer, Builder::default());
        let leaves = [Digest::of(b"a"), Digest::of(b"b")];
        let first = tree.commit(&leaves);
        tree.ended(false);
        assert_eq!(tree.size(), 0);
        let again = tree.commit(&leaves);
        tree.ended(true);
        assert_eq!((tree.size(), again.size, again.note), (2, 2, first.note));
    }
}
