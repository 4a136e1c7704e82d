//! The tree of RFC 6962: hashes, roots, proofs, and the tiles that hold it.

mod builder;
mod hash;
mod proof;
mod range;
#[cfg(test)]
mod tests;
mod tile;

pub use self::{
    builder::Builder,
    hash::{empty, leaf, leaf_of_parts, node},
    proof::{Mismatch, verify_consistency, verify_inclusion},
    range::{Nodes, consistency, inclusion, root, tiles_for_consistency, tiles_for_inclusion},
    tile::{InvalidTile, TILE_WIDTH, Tile, TileId, Tiles, decode_entries, encode_entries},
};
