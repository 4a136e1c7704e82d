//! Incremental tree that stores only its right edge.

use ringfence_types::Digest;

use super::{
    hash,
    tile::{TILE_WIDTH, Tile, TileId, fold},
};

/// The right edge of a tree: the partial tile of each level. A tile that becomes full leaves
/// through [`Builder::push`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Builder {
    size: u64,
    /// Partial tiles by level; each shorter than a full tile.
    edge: Vec<Vec<Digest>>,
    /// Roots of the complete subtrees, from left to right: one for each bit of `size`. Redundant
    /// with the edge, but a root is needed at every commit.
    peaks: Vec<Digest>,
}

impl Builder {
    /// The edge of a tree with that many leaves, from the hashes of its partial tiles, lowest
    /// first. None if the numbers do not match.
    pub fn resume(size: u64, edge: Vec<Vec<Digest>>) -> Option<Self> {
        let wanted = TileId::edge(size).into_iter().map(|id| id.map_or(0, |id| id.width as usize));
        let mut peaks: Vec<_> = edge.iter().flat_map(|tile| peaks(tile)).collect();
        peaks.reverse();
        edge.iter().map(Vec::len).eq(wanted).then_some(Self { size, edge, peaks })
    }

    /// Number of leaves.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The partial tiles of the right edge, lowest first.
    pub fn edge(&self) -> &[Vec<Digest>] {
        &self.edge
    }

    /// Adds a leaf, and hands out the tiles that it fills, lowest first.
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
            if tile.len() < TILE_WIDTH {
                return;
            }
            let hashes = std::mem::take(tile);
            hash = fold(&hashes);
            let index = (self.size >> (8 * (level + 1))) - 1;
            full(Tile {
                id: TileId { level: level as u8, index, width: TILE_WIDTH as u16 },
                hashes,
            });
            level += 1;
        }
    }

    /// Joins the leaf with every subtree of equal size to its left, like a carry.
    fn raise(&mut self, leaf: Digest) {
        let joined = self.peaks.len() - self.size.trailing_ones() as usize;
        let as_large = self.peaks.drain(joined..).rev();
        let peak = as_large.fold(leaf, |right, left| hash::node(left, right));
        self.peaks.push(peak);
    }

    /// Root of all leaves.
    pub fn root(&self) -> Digest {
        let parts = self.peaks.iter().rev().copied();
        parts.reduce(|right, left| hash::node(left, right)).unwrap_or_else(hash::empty)
    }
}

/// Roots of the complete subtrees of a partial tile, from right to left.
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
