//! Which parts of the tree a root or a proof is made of.
//!
//! Every hash of a proof covers a range of leaves, and every such range is a row of complete
//! subtrees. So a proof is planned in numbers first; then it is known which tiles must be read, and
//! reading them is somebody else's business.

use std::collections::BTreeSet;

use ringfence_types::Digest;

use super::{hash, tile::TileId};

/// A complete subtree: the `index`th of those with `2^level` leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Subtree {
    pub(super) level: u8,
    pub(super) index: u64,
}

/// Leaves from the first up to the second.
type Range = (u64, u64);

/// Knows hashes of complete subtrees.
pub trait Nodes {
    /// Of the `index`th complete subtree with `2^level` leaves; none if it is not known.
    fn node(&self, level: u8, index: u64) -> Option<Digest>;
}

/// The root of the first `size` leaves, if the nodes know enough.
pub fn root(nodes: &impl Nodes, size: u64) -> Option<Digest> {
    if size == 0 {
        return Some(hash::empty());
    }
    hash_range(nodes, (0, size))
}

/// The proof that leaf `index` is among the first `size` leaves. None if it is not, or if the nodes
/// do not know enough.
pub fn inclusion(nodes: &impl Nodes, index: u64, size: u64) -> Option<Vec<Digest>> {
    let ranges = inclusion_ranges(index, size)?;
    ranges.into_iter().map(|range| hash_range(nodes, range)).collect()
}

/// The proof that the first `old` leaves of a tree with `size` leaves are what they were. None if
/// there were none then or are fewer now, or if the nodes do not know enough.
pub fn consistency(nodes: &impl Nodes, old: u64, size: u64) -> Option<Vec<Digest>> {
    let ranges = consistency_ranges(old, size)?;
    ranges.into_iter().map(|range| hash_range(nodes, range)).collect()
}

/// What must be read to make the proof of inclusion.
pub fn tiles_for_inclusion(index: u64, size: u64) -> Vec<TileId> {
    tiles(inclusion_ranges(index, size).unwrap_or_default(), size)
}

/// What must be read to make the proof of consistency.
pub fn tiles_for_consistency(old: u64, size: u64) -> Vec<TileId> {
    tiles(consistency_ranges(old, size).unwrap_or_default(), size)
}

fn tiles(ranges: Vec<Range>, size: u64) -> Vec<TileId> {
    let subtrees = ranges.into_iter().flat_map(subtrees);
    let tiles: BTreeSet<_> = subtrees.map(|subtree| TileId::holding(subtree, size)).collect();
    tiles.into_iter().collect()
}

/// RFC 6962, section 2.1.1.
fn inclusion_ranges(index: u64, size: u64) -> Option<Vec<Range>> {
    if index >= size {
        return None;
    }
    let (mut low, mut high) = (0, size);
    let mut ranges = Vec::new();
    while high - low > 1 {
        let middle = low + split(high - low);
        if index < middle {
            ranges.push((middle, high));
            high = middle;
        } else {
            ranges.push((low, middle));
            low = middle;
        }
    }
    ranges.reverse();
    Some(ranges)
}

/// RFC 6962, section 2.1.2.
fn consistency_ranges(old: u64, size: u64) -> Option<Vec<Range>> {
    if old == 0 || old > size {
        return None;
    }
    let (mut low, mut high) = (0, size);
    let mut ranges = Vec::new();
    while old != high {
        let middle = low + split(high - low);
        if old <= middle {
            ranges.push((middle, high));
            high = middle;
        } else {
            ranges.push((low, middle));
            low = middle;
        }
    }
    // The old tree itself, if it is a complete one from the first leaf on, is known to the reader.
    if low > 0 {
        ranges.push((low, high));
    }
    ranges.reverse();
    Some(ranges)
}

/// The largest power of two below `size`, which is above 1.
const fn split(size: u64) -> u64 {
    1 << (u64::BITS - 1 - (size - 1).leading_zeros())
}

/// The complete subtrees that a range is made of, from left to right.
fn subtrees((mut low, high): Range) -> Vec<Subtree> {
    let mut found = Vec::new();
    while low < high {
        let fits = u64::BITS - 1 - (high - low).leading_zeros();
        let level = low.trailing_zeros().min(fits);
        found.push(Subtree { level: level as u8, index: low >> level });
        low += 1 << level;
    }
    found
}

fn hash_range(nodes: &impl Nodes, range: Range) -> Option<Digest> {
    let mut parts = subtrees(range).into_iter().rev();
    let known = |part: Subtree| nodes.node(part.level, part.index);
    let last = known(parts.next()?)?;
    parts.try_fold(last, |right, part| Some(hash::node(known(part)?, right)))
}
