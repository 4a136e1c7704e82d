//! A tree that grows leaf by leaf and keeps only its right edge.

use ringfence_types::Digest;

use super::{
    hash,
    tile::{TILE, Tile, TileId, fold},
};

/// The right edge of a tree: of each level of tiles the one that is not full yet. A tile that
/// becomes full leaves through [`Builder::push`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Builder {
    size: u64,
    /// By level of tiles; each shorter than a full tile.
    edge: Vec<Vec<Digest>>,
    /// The complete subtrees that all leaves make, from left to right: one for each bit of `size`.
    /// Made from the edge too, but a root is asked for at every commit.
    peaks: Vec<Digest>,
}

impl Builder {
    /// The edge of a tree with so many leaves, from the hashes of its partial tiles, lowest first.
    /// None if they are not those of such a tree.
    pub fn resume(size: u64, edge: Vec<Vec<Digest>>) -> Option<Self> {
        let wanted = TileId::edge(size).into_iter().map(|id| id.map_or(0, |id| id.width as usize));
        let mut peaks: Vec<_> = edge.iter().flat_map(|tile| peaks(tile)).collect();
        peaks.reverse();
        edge.iter().map(Vec::len).eq(wanted).then_some(Self { size, edge, peaks })
    }

    /// Leaves so far.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The partial tiles of the right edge, lowest first.
    pub fn edge(&self) -> &[Vec<Digest>] {
        &self.edge
    }

    /// Adds a leaf, and hands out the tiles that it filled, lowest first.
    pub fn push(&mut self, leaf: Digest, mut full: impl FnMut(Tile)) {
        self.raise(leaf);
        self.size += 1;
        let (mut level, mut hash) = (0, leaf);
        loop {
            if self.edge.len() == level {
                self.edge.push(Vec::new());
            }
            let tile = &mut self.edge[level];
            tile.push(hash);
            if tile.len() < TILE {
                return;
            }
            let hashes = std::mem::take(tile);
            hash = fold(&hashes);
            let index = (self.size >> (8 * (level + 1))) - 1;
            full(Tile { id: TileId { level: level as u8, index, width: TILE as u16 }, hashes });
            level += 1;
        }
    }

    /// Joins the leaf with every subtree to its left that is as large, like a carry.
    fn raise(&mut self, leaf: Digest) {
        let joined = self.peaks.len() - self.size.trailing_ones() as usize;
        let as_large = self.peaks.drain(joined..).rev();
        let peak = as_large.fold(leaf, |right, left| hash::node(left, right));
        self.peaks.push(peak);
    }

    /// The root of all leaves so far.
    pub fn root(&self) -> Digest {
        let parts = self.peaks.iter().rev().copied();
        parts.reduce(|right, left| hash::node(left, right)).unwrap_or_else(hash::empty)
    }
}

/// The complete subtrees of a tile that is not full, from right to left.
fn peaks(tile: &[Digest]) -> Vec<Digest> {
    let mut rest = tile;
    let mut found = Vec::new();
    while !rest.is_empty() {
        let size = 1 << rest.len().trailing_zeros();
        let (before, last) = rest.split_at(rest.len() - size);
        found.push(fold(last));
        rest = before;
    }
    found
}
