//! Inclusion and consistency proofs, made from the stored tree.

use std::collections::BTreeSet;

use ringfence_ledger::{
    Item, LedgerKey, OwnCheckpoint, Proved, Row, Signer, entry_leaf,
    merkle::{self, Builder, Tile, TileId, Tiles},
    said_in,
};
use ringfence_store::{EntryQuery, Error, Placed, Signed, Store};
use ringfence_types::{Approval, CallId, Digest, EntryKind};
use serde_json::Value;

use super::{Ledger, all, damaged, of_kind};

/// Signatures between two yields to other tasks: about two milliseconds.
const SIGNATURES_PER_YIELD: usize = 64;

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

/// The hashes of a tile, full or partial; the ledger must have that many.
pub(super) async fn hashes(store: &dyn Store, id: TileId) -> Result<Vec<Digest>, Error> {
    if id.is_full()
        && let Some(bytes) = store.tile(id.level, id.index).await?
    {
        return Ok(Tile::read(id, &bytes).map_err(|_| damaged())?.hashes);
    }
    let (first, width) = (id.index * merkle::TILE_WIDTH as u64, u64::from(id.width));
    let hashes = match id.level.checked_sub(1) {
        None => store.leaves(first, usize::from(id.width)).await?,
        Some(level) => {
            let mut hashes = Vec::new();
            for index in first..first + width {
                let below = TileId { level, index, width: merkle::TILE_WIDTH as u16 };
                let bytes = store.tile(level, index).await?.ok_or_else(damaged)?;
                hashes.push(Tile::read(below, &bytes).map_err(|_| damaged())?.root());
            }
            hashes
        }
    };
    if hashes.len() as u64 == width { Ok(hashes) } else { Err(damaged()) }
}

/// A tile of the tree under the newest checkpoint; none if the tree is smaller.
pub async fn tile(store: &dyn Store, id: TileId) -> Result<Option<Vec<u8>>, Error> {
    let committed = store.checkpoint().await?.map_or(0, |newest| newest.size);
    if !id.is_within(committed) {
        return Ok(None);
    }
    let tile = Tile { id, hashes: hashes(store, id).await? };
    Ok(Some(tile.bytes()))
}

impl Ledger {
    /// Entries with their proofs, by a checkpoint of our own. An unsigned entry is signed with the
    /// current key, if its proof holds.
    pub(super) async fn items(
        &self,
        entries: &[Placed],
        signer: &Signer,
        own: &OwnCheckpoint,
    ) -> Result<Vec<Item>, Error> {
        let proved = proved(self.store(), entries, own.checkpoint().size).await?;
        let mut items = Vec::with_capacity(proved.len());
        for (number, proved) in proved.into_iter().enumerate() {
            // A signature takes a while; let other tasks run.
            if number % SIGNATURES_PER_YIELD == SIGNATURES_PER_YIELD - 1 {
                tokio::task::yield_now().await;
            }
            let signed = signed(proved, signer, own).ok_or_else(damaged)?;
            items.push(signed.item().ok_or_else(damaged)?);
        }
        Ok(items)
    }
}

impl Ledger {
    /// Whether the ledger states exactly this approval and no revocation of it, in entries under a
    /// checkpoint of our own. The row of an approval alone is no evidence.
    pub(crate) async fn attests(&self, approval: &Approval) -> Result<bool, Error> {
        let about = EntryQuery {
            call: Some(approval.call),
            kind: Some(EntryKind::Approval),
            ..EntryQuery::default()
        };
        let entries = all(self.store(), about, usize::MAX).await?;
        let is_revoked = |placed: &Placed| {
            said_in::<Value>(&placed.sealed).is_some_and(|said| {
                said["event"] == "revoked" && said["id"] == approval.id.to_string()
            })
        };
        let is_given = |placed: &&Placed| said_in(&placed.sealed).as_ref() == Some(approval);
        let Some(given) = entries.iter().find(is_given) else { return Ok(false) };
        if entries.iter().any(is_revoked) {
            return Ok(false);
        }
        let own = self.own(self.signing_guard().await.signer()).await?;
        let (size, root) = (own.checkpoint().size, own.checkpoint().root);
        let proved = proved(self.store(), std::slice::from_ref(given), size).await?;
        let holds = |Proved { row, proof }: &Proved| {
            let leaf = entry_leaf(&row.sealed.payload);
            merkle::verify_inclusion(leaf, row.index, size, proof, root).is_ok()
        };
        Ok(proved.iter().all(holds))
    }
}

fn signed(mut proved: Proved, signer: &Signer, own: &OwnCheckpoint) -> Option<Proved> {
    let Row { index, sealed } = &mut proved.row;
    if sealed.signature.is_none() {
        let made = signer.sign_proved(own, *index, &sealed.payload, &proved.proof).ok()?;
        (sealed.signer, sealed.signature) = (signer.id(), Some(made));
    }
    Some(proved)
}

/// Stored entries with their proofs in the tree of the given size.
async fn proved(store: &dyn Store, entries: &[Placed], size: u64) -> Result<Vec<Proved>, Error> {
    let needed = entries.iter().flat_map(|e| merkle::tiles_for_inclusion(e.index, size));
    let mut tiles = Tiles::default();
    for id in needed.collect::<BTreeSet<_>>() {
        tiles.add(Tile { id, hashes: hashes(store, id).await? });
    }
    let one = |Placed { index, sealed }: &Placed| {
        let proof = merkle::inclusion(&tiles, *index, size)?;
        Some(Proved { row: Row { index: *index, sealed: sealed.clone() }, proof })
    };
    entries.iter().map(|placed| one(placed).ok_or_else(damaged)).collect()
}

/// The proof of everything about a call: the newest checkpoint, the entries that name keys, and the
/// entries about the call. None without a checkpoint; entries after the checkpoint are left out.
pub async fn proof(
    store: &dyn Store,
    call: CallId,
) -> Result<Option<(String, Vec<Item>, Vec<Proved>)>, Error> {
    let Some(Signed { size, note }) = store.checkpoint().await? else { return Ok(None) };
    let about = EntryQuery { call: Some(call), ..EntryQuery::default() };
    let mut found = [key_entries(store).await?, all(store, about, usize::MAX).await?];
    found.iter_mut().for_each(|entries| entries.retain(|entry| entry.index < size));
    let [keys, entries] = found;
    let keys = proved(store, &keys, size).await?.into_iter();
    let keys = keys.map(|key| key.item().ok_or_else(damaged)).collect::<Result<_, _>>()?;
    Ok(Some((note, keys, proved(store, &entries, size).await?)))
}

/// The tree under the newest checkpoint, from tiles and leaves, if our key signed that checkpoint
/// and it covers all entries: entries beyond it were written outside this server.
pub(super) async fn resume(
    store: &dyn Store,
    signer: &Signer,
    at: Option<&Signed>,
) -> Result<Builder, Error> {
    let Some(at) = at else {
        let is_new = store.leaves(0, 1).await?.is_empty();
        return if is_new { Ok(Builder::default()) } else { Err(damaged()) };
    };
    let size = at.size;
    let own =
        signer.own(&at.note).filter(|own| own.checkpoint().size == size).ok_or_else(damaged)?;
    // Entries after the checkpoint stand under a newer one, of another process.
    let has_more = !store.leaves(size, 1).await?.is_empty();
    if has_more && store.checkpoint().await?.is_none_or(|newest| newest.size <= size) {
        return Err(damaged());
    }
    let mut edge = Vec::new();
    for id in TileId::edge(size) {
        edge.push(match id {
            Some(id) => hashes(store, id).await?,
            None => Vec::new(),
        });
    }
    let builder = Builder::resume(size, edge).ok_or_else(damaged)?;
    match builder.root() == own.checkpoint().root {
        true => Ok(builder),
        false => Err(damaged()),
    }
}

/// Proof that the tree of `size` entries begins with that of `old` entries.
pub async fn consistency(store: &dyn Store, old: u64, size: u64) -> Result<Vec<Digest>, Error> {
    let mut tiles = Tiles::default();
    for id in merkle::tiles_for_consistency(old, size) {
        tiles.add(Tile { id, hashes: hashes(store, id).await? });
    }
    merkle::consistency(&tiles, old, size).ok_or_else(damaged)
}
