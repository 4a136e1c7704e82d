//! Verification of proofs: RFC 9162, sections 2.1.3.2 and 2.1.4.2.

use ringfence_types::Digest;

use super::hash::node;

/// Reason why a proof fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// It has too many or too few hashes for these numbers.
    #[error("the proof has the wrong length")]
    Length,
    /// It leads to another root.
    #[error("the proof leads to another root")]
    Root,
}

/// Verifies that a leaf is at `index` of the tree with this size and root.
pub fn verify_inclusion(
    leaf: Digest,
    index: u64,
    size: u64,
    proof: &[Digest],
    root: Digest,
) -> Result<(), Mismatch> {
    if index >= size {
        return Err(Mismatch::Length);
    }
    let (mut at, mut last, mut hash) = (index, size - 1, leaf);
    for sibling in proof {
        if last == 0 {
            return Err(Mismatch::Length);
        }
        if at & 1 == 1 || at == last {
            hash = node(*sibling, hash);
            // A last leaf without a sibling moves up until it has one.
            while at & 1 == 0 && at != 0 {
                (at, last) = (at >> 1, last >> 1);
            }
        } else {
            hash = node(hash, *sibling);
        }
        (at, last) = (at >> 1, last >> 1);
    }
    finish(last, hash == root)
}

/// Verifies that the tree of the new size and root begins with all of the old one.
pub fn verify_consistency(
    old: (u64, Digest),
    new: (u64, Digest),
    proof: &[Digest],
) -> Result<(), Mismatch> {
    let ((old_size, old_root), (new_size, new_root)) = (old, new);
    if old_size == 0 || old_size > new_size {
        return Err(Mismatch::Length);
    }
    if old_size == new_size {
        return match proof {
            [] => finish(0, old_root == new_root),
            _ => Err(Mismatch::Length),
        };
    }
    // For a complete old tree the first hash of the proof is the old root, which is left out.
    let (first, rest) = match old_size.is_power_of_two() {
        true => (old_root, proof),
        false => proof.split_first().map(|(first, rest)| (*first, rest)).ok_or(Mismatch::Length)?,
    };
    let (mut at, mut last) = (old_size - 1, new_size - 1);
    while at & 1 == 1 {
        (at, last) = (at >> 1, last >> 1);
    }
    let (mut from_old, mut from_new) = (first, first);
    for hash in rest {
        if last == 0 {
            return Err(Mismatch::Length);
        }
        if at & 1 == 1 || at == last {
            (from_old, from_new) = (node(*hash, from_old), node(*hash, from_new));
            while at & 1 == 0 && at != 0 {
                (at, last) = (at >> 1, last >> 1);
            }
        } else {
            from_new = node(from_new, *hash);
        }
        (at, last) = (at >> 1, last >> 1);
    }
    finish(last, from_old == old_root && from_new == new_root)
}

const fn finish(left: u64, is_equal: bool) -> Result<(), Mismatch> {
    match (left, is_equal) {
        (0, true) => Ok(()),
        (0, false) => Err(Mismatch::Root),
        _ => Err(Mismatch::Length),
    }
}
