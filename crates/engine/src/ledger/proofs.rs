//! Proofs, made from what the store holds.

use std::collections::BTreeSet;

use ringfence_ledger::{
    Envelope, Item, LedgerKey,
    merkle::{self, Tile, TileId, Tiles},
    said_in,
};
use ringfence_store::{EntryQuery, Error, Placed, Store};
use ringfence_types::{CallId, Digest, EntryKind};

use super::{all, commit::damaged, of_kind};

/// The entries that name keys of the ledger, from the first on. There are few.
pub(super) async fn key_entries(store: &dyn Store) -> Result<Vec<Placed>, Error> {
    all(store, of_kind(EntryKind::CheckpointKey), usize::MAX).await
}

/// The keys of the ledger, each with the index of the entry that names it.
pub async fn keys(store: &dyn Store) -> Result<Vec<(u64, LedgerKey)>, Error> {
    let entries = key_entries(store).await?;
    let named = |placed: &Placed| Some((placed.index, said_in(&placed.sealed)?));
    Ok(entries.iter().filter_map(named).collect())
}

/// The hashes of a tile, full or not; the ledger must have so much of it.
pub(super) async fn hashes(store: &dyn Store, id: TileId) -> Result<Vec<Digest>, Error> {
    if id.is_full()
        && let Some(bytes) = store.tile(id.level, id.index).await?
    {
        return Ok(Tile::read(id, &bytes).map_err(|_| damaged())?.hashes);
    }
    let (first, width) = (id.index * merkle::TILE as u64, u64::from(id.width));
    let hashes = match id.level.checked_sub(1) {
        None => store.leaves(first, usize::from(id.width)).await?,
        Some(level) => {
            let mut hashes = Vec::new();
            for index in first..first + width {
                let below = TileId { level, index, width: merkle::TILE as u16 };
                let bytes = store.tile(level, index).await?.ok_or_else(damaged)?;
                hashes.push(Tile::read(below, &bytes).map_err(|_| damaged())?.root());
            }
            hashes
        }
    };
    if hashes.len() as u64 == width { Ok(hashes) } else { Err(damaged()) }
}

/// A tile of the tree under the newest checkpoint; none if it has not so much of it.
pub async fn tile(store: &dyn Store, id: TileId) -> Result<Option<Vec<u8>>, Error> {
    let committed = store.checkpoint().await?.map_or(0, |(size, _)| size);
    if !id.is_within(committed) {
        return Ok(None);
    }
    let tile = Tile { id, hashes: hashes(store, id).await? };
    Ok(Some(tile.bytes()))
}

/// Entries with their proofs, by the tree of the given size.
pub(super) async fn items(
    store: &dyn Store,
    entries: &[Placed],
    size: u64,
) -> Result<Vec<Item>, Error> {
    let needed = entries.iter().flat_map(|e| merkle::tiles_for_inclusion(e.index, size));
    let mut tiles = Tiles::default();
    for id in needed.collect::<BTreeSet<_>>() {
        tiles.add(Tile { id, hashes: hashes(store, id).await? });
    }
    let item = |placed: &Placed| {
        let proof = merkle::inclusion(&tiles, placed.index, size)?;
        Some(Item { index: placed.index, envelope: Envelope::from(&placed.sealed), proof })
    };
    entries.iter().map(|placed| item(placed).ok_or_else(damaged)).collect()
}

/// What proves everything about a call: the newest checkpoint, the entries that name keys, the
/// entries about the call. None if there is no checkpoint yet; entries after it are left out.
pub async fn proof(
    store: &dyn Store,
    call: CallId,
) -> Result<Option<(String, Vec<Item>, Vec<Item>)>, Error> {
    let Some((size, note)) = store.checkpoint().await? else { return Ok(None) };
    let about = EntryQuery { call: Some(call), ..EntryQuery::default() };
    let mut found = [key_entries(store).await?, all(store, about, usize::MAX).await?];
    found.iter_mut().for_each(|entries| entries.retain(|entry| entry.index < size));
    let [keys, entries] = found;
    let keys = items(store, &keys, size).await?;
    Ok(Some((note, keys, items(store, &entries, size).await?)))
}

/// That the tree of `size` entries begins with that of `old` entries.
pub async fn consistency(store: &dyn Store, old: u64, size: u64) -> Result<Vec<Digest>, Error> {
    let mut tiles = Tiles::default();
    for id in merkle::tiles_for_consistency(old, size) {
        tiles.add(Tile { id, hashes: hashes(store, id).await? });
    }
    merkle::consistency(&tiles, old, size).ok_or_else(damaged)
}
