//! Tiles of C2SP `tlog-tiles`: 256 hashes of one level in a row, and 256 entries in a row.

use std::collections::HashMap;

use ringfence_types::Digest;

use super::{
    hash,
    range::{Nodes, Subtree},
};

/// Hashes of a full tile.
pub const TILE_WIDTH: usize = 256;

/// Highest level of tiles of a tree with 64-bit size.
const MAX_TILE_LEVEL: u8 = 7;

/// Id of a tile, with its width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TileId {
    /// Level: its hashes are those of subtrees with `256^level` leaves.
    pub level: u8,
    /// Index among the tiles of its level.
    pub index: u64,
    /// Number of hashes: 1 to 256.
    pub width: u16,
}

/// A tile with its hashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tile {
    /// Id of the tile.
    pub id: TileId,
    /// Hashes; as many as its width.
    pub hashes: Vec<Digest>,
}

/// Text or bytes that are not a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a tile of the log")]
pub struct InvalidTile;

impl TileId {
    /// The tile with the hashes of a subtree, as wide as in a tree of this size.
    pub(super) fn holding(subtree: Subtree, size: u64) -> Self {
        let level = subtree.level / 8;
        let index = (subtree.index << (subtree.level % 8)) / TILE_WIDTH as u64;
        let hashes = size >> (8 * u32::from(level));
        let width = (hashes - index * TILE_WIDTH as u64).min(TILE_WIDTH as u64) as u16;
        Self { level, index, width }
    }

    /// Partial tiles at the right edge of a tree of this size, by level; none where the edge is a
    /// full tile.
    pub fn edge(size: u64) -> Vec<Option<Self>> {
        let levels = (0..=MAX_TILE_LEVEL).take_while(|level| size >> (8 * u32::from(*level)) > 0);
        let of = |level: u8| {
            let hashes = size >> (8 * u32::from(level));
            let width = (hashes % TILE_WIDTH as u64) as u16;
            (width > 0).then_some(Self { level, index: hashes / TILE_WIDTH as u64, width })
        };
        levels.map(of).collect()
    }

    /// Whether it is full.
    pub const fn is_full(self) -> bool {
        self.width as usize == TILE_WIDTH
    }

    /// Whether a tree of this size has the tile in this width.
    pub fn is_within(self, size: u64) -> bool {
        let hashes = u128::from(size >> (8 * u32::from(self.level)));
        u128::from(self.index) * TILE_WIDTH as u128 + u128::from(self.width) <= hashes
    }

    /// Path under which it is served, for example `tile/0/x001/234.p/7`.
    pub fn path(self) -> String {
        let part = if self.is_full() { String::new() } else { format!(".p/{}", self.width) };
        format!("tile/{}/{}{part}", self.level, index_path(self.index))
    }

    /// Parses exactly the output of [`TileId::path`].
    pub fn parse(path: &str) -> Result<Self, InvalidTile> {
        let rest = path.strip_prefix("tile/").ok_or(InvalidTile)?;
        let (level, rest) = rest.split_once('/').ok_or(InvalidTile)?;
        let (index, width) = match rest.split_once(".p/") {
            Some((index, width)) => (index, width.parse().map_err(|_| InvalidTile)?),
            None => (rest, TILE_WIDTH as u16),
        };
        let digits: String = index.chars().filter(char::is_ascii_digit).collect();
        let id = Self {
            level: level.parse().map_err(|_| InvalidTile)?,
            index: digits.parse().map_err(|_| InvalidTile)?,
            width,
        };
        let is_valid = id.level <= MAX_TILE_LEVEL && (1..=TILE_WIDTH as u16).contains(&id.width);
        (is_valid && id.path() == path).then_some(id).ok_or(InvalidTile)
    }
}

/// Groups of three digits, `x` before all but the last: 1234067 is `x001/x234/067`.
fn index_path(index: u64) -> String {
    let mut path = format!("{:03}", index % 1000);
    let mut rest = index / 1000;
    while rest > 0 {
        path = format!("x{:03}/{path}", rest % 1000);
        rest /= 1000;
    }
    path
}

impl Tile {
    /// The hashes as bytes.
    pub fn bytes(&self) -> Vec<u8> {
        self.hashes.iter().flat_map(|hash| hash.as_bytes()).copied().collect()
    }

    /// Tile from its bytes.
    pub fn read(id: TileId, bytes: &[u8]) -> Result<Self, InvalidTile> {
        let (hashes, rest) = bytes.as_chunks::<32>();
        let is_whole = rest.is_empty() && hashes.len() == usize::from(id.width);
        let hashes = hashes.iter().copied().map(Digest::from_bytes).collect();
        is_whole.then_some(Self { id, hashes }).ok_or(InvalidTile)
    }

    /// Root of a full tile: one hash of the level above.
    pub fn root(&self) -> Digest {
        fold(&self.hashes)
    }
}

/// Root of a power-of-two number of hashes.
pub(super) fn fold(hashes: &[Digest]) -> Digest {
    match hashes {
        [one] => *one,
        more => {
            let (left, right) = more.split_at(more.len() / 2);
            hash::node(fold(left), fold(right))
        }
    }
}

/// Tiles for making proofs.
#[derive(Debug, Clone, Default)]
pub struct Tiles(HashMap<(u8, u64), Vec<Digest>>);

impl Tiles {
    /// Adds a tile.
    pub fn add(&mut self, tile: Tile) {
        self.0.insert((tile.id.level, tile.id.index), tile.hashes);
    }

    /// The hashes of a tile, if it was added.
    pub fn hashes(&self, level: u8, index: u64) -> Option<&[Digest]> {
        self.0.get(&(level, index)).map(Vec::as_slice)
    }
}

impl FromIterator<Tile> for Tiles {
    fn from_iter<T: IntoIterator<Item = Tile>>(tiles: T) -> Self {
        let mut all = Self::default();
        tiles.into_iter().for_each(|tile| all.add(tile));
        all
    }
}

impl Nodes for Tiles {
    fn node(&self, level: u8, index: u64) -> Option<Digest> {
        let (tile, within) = (level / 8, level % 8);
        let first = index << within;
        let hashes = self.0.get(&(tile, first / TILE_WIDTH as u64))?;
        let at = (first % TILE_WIDTH as u64) as usize;
        hashes.get(at..at + (1 << within)).map(fold)
    }
}

/// Encodes entries, each after its length in two bytes. None if one is too long.
pub fn encode_entries<'a>(entries: impl IntoIterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for entry in entries {
        bytes.extend(u16::try_from(entry.len()).ok()?.to_be_bytes());
        bytes.extend(entry);
    }
    Some(bytes)
}

/// Decodes the output of [`encode_entries`].
pub fn decode_entries(mut bytes: &[u8]) -> Result<Vec<&[u8]>, InvalidTile> {
    let mut entries = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length));
        let (entry, after) = rest.split_at_checked(length).ok_or(InvalidTile)?;
        entries.push(entry);
        bytes = after;
    }
    if bytes.is_empty() { Ok(entries) } else { Err(InvalidTile) }
}
