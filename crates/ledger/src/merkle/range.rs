//! Subtrees and tiles of roots and proofs.
//!
//! Every hash of a proof covers a range of leaves, and every such range is a row of complete
//! subtrees. So a proof is planned in numbers first; the plan lists the tiles to read, and the
//! caller reads them.

use std::collections::BTreeSet;

use ringfence_types::Digest;

use super::{hash, tile::TileId};

/// A complete subtree: the `index`th of those with `2^level` leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Subtree {
    pub(super) level: u8,
    pub(super) index: u64,
}

/// Leaves from the first up to, not including, the second.
type Range = (u64, u64);

/// Source of hashes of complete subtrees.
pub trait Nodes {
    /// Hash of the `index`th complete subtree with `2^level` leaves; none if it is unknown.
    fn node(&self, level: u8, index: u64) -> Option<Digest>;
}

/// Root of the first `size` leaves; none if hashes are missing.
pub fn root(nodes: &impl Nodes, size: u64) -> Option<Digest> {
    if size == 0 {
        return Some(hash::empty());
    }
    hash_range(nodes, (0, size))
}

/// Proof that leaf `index` is among the first `size` leaves. None if it is not, or if hashes are
/// missing.
pub fn inclusion(nodes: &impl Nodes, index: u64, size: u64) -> Option<Vec<Digest>> {
    let ranges = inclusion_ranges(index, size)?;
    ranges.into_iter().map(|range| hash_range(nodes, range)).collect()
}

/// Proof that the first `old` leaves of a tree with `size` leaves are unchanged. None if `old` is
/// zero or larger than `size`, or if hashes are missing.
pub fn consistency(nodes: &impl Nodes, old: u64, size: u64) -> Option<Vec<Digest>> {
    let ranges = consistency_ranges(old, size)?;
    ranges.into_iter().map(|range| hash_range(nodes, range)).collect()
}

/// Tiles to read for an inclusion proof.
pub fn tiles_for_inclusion(index: u64, size: u64) -> Vec<TileId> {
    tiles(inclusion_ranges(index, size).unwrap_or_default(), size)
}

/// Tiles to read for a consistency proof.
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
    // A complete old tree from the first leaf on is known to the verifier.
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

/// Complete subtrees of a range, from left to right.
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
