//! The three hashes of RFC 6962, section 2.1. Leaves and nodes have different prefixes, so that
//! neither can pass for the other.

use ringfence_types::Digest;
use sha2::{Digest as _, Sha256};

/// Hash of the empty tree.
pub fn empty() -> Digest {
    Digest::of(b"")
}

/// Hash of a leaf.
pub fn leaf(data: &[u8]) -> Digest {
    leaf_of_parts(&[data])
}

/// Hash of a leaf given in parts.
pub fn leaf_of_parts(parts: &[&[u8]]) -> Digest {
    let mut hash = Sha256::new_with_prefix([0]);
    for part in parts {
        hash.update(part);
    }
    Digest::from_bytes(hash.finalize().into())
}

/// Hash of two subtrees.
pub fn node(left: Digest, right: Digest) -> Digest {
    let mut bytes = [1; 65];
    bytes[1..33].copy_from_slice(left.as_bytes());
    bytes[33..].copy_from_slice(right.as_bytes());
    Digest::of(&bytes)
}
