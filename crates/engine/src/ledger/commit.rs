//! Checkpoints: at most one a second while the ledger grows, and one at the end.
//!
//! They follow what is on record and are in nobody's way. A crash between an entry and its
//! checkpoint loses nothing: the next start goes on from the newest checkpoint.

use std::{sync::Arc, time::Duration};

use ringfence_ledger::{
    Checkpoint, Note, Signer,
    merkle::{Builder, TileId},
};
use ringfence_store::{Commitment, Error, PAGE, Store};

use super::{Ledger, proofs};
use crate::engine;

/// Between two checkpoints.
const PAUSE: Duration = Duration::from_secs(1);

/// The tree that the store holds is not the one that was signed.
#[derive(Debug, thiserror::Error)]
#[error("the ledger is not what its newest checkpoint says: `ringfence verify --log` tells more")]
struct Damaged;

/// Commits until the engine stops.
pub(crate) async fn run(inner: Arc<engine::Inner>) {
    let ledger = &inner.parts.ledger;
    let mut grown = ledger.0.store.grown();
    loop {
        if let Err(error) = ledger.commit().await {
            let error = crate::dispatch::chain(&error);
            tracing::warn!(error, "the ledger has no new checkpoint yet");
        }
        let next = async {
            tokio::time::sleep(PAUSE).await;
            let committed = ledger.committed();
            let _ = grown.wait_for(|size| *size > committed).await;
        };
        tokio::select! {
            () = next => {}
            () = inner.stopping.cancelled() => return,
        }
    }
}

impl Ledger {
    /// Entries under the newest checkpoint.
    pub(super) fn committed(&self) -> u64 {
        *self.0.committed.borrow()
    }

    /// Signs a checkpoint over all there is, if there is something new.
    pub async fn commit(&self) -> Result<(), Error> {
        self.commit_by(self.pen().await.signer()).await
    }

    /// The same, for whoever keeps others from signing or holds a pen.
    pub(super) async fn commit_by(&self, signer: &Signer) -> Result<(), Error> {
        let store = self.0.store.as_ref();
        let mut tree = self.0.tree.lock().await;
        let mut builder = match tree.take() {
            Some(builder) => builder,
            None => resume(store).await?,
        };
        let (before, size) = (builder.size(), *store.grown().borrow());
        let tiles = extend(store, &mut builder, size).await?;
        if size > before {
            let note = signer.checkpoint(size, builder.root()).render();
            // If it fails, the tree is read again: what was not kept must be made again.
            store.save_checkpoint(Commitment { size, note, tiles }).await?;
            self.0.committed.send_replace(size);
        }
        *tree = Some(builder);
        Ok(())
    }
}

/// Adds what is new, and gives the tiles that it filled.
async fn extend(
    store: &dyn Store,
    builder: &mut Builder,
    size: u64,
) -> Result<Vec<(u8, u64, Vec<u8>)>, Error> {
    let mut tiles = Vec::new();
    while builder.size() < size {
        let most = usize::try_from(size - builder.size()).unwrap_or(PAGE).min(PAGE);
        let leaves = store.leaves(builder.size(), most).await?;
        if leaves.is_empty() {
            return Err(damaged());
        }
        for leaf in leaves {
            builder.push(leaf, |tile| tiles.push((tile.id.level, tile.id.index, tile.bytes())));
        }
    }
    Ok(tiles)
}

/// The tree as of the newest checkpoint, from tiles and leaves.
async fn resume(store: &dyn Store) -> Result<Builder, Error> {
    let Some((size, note)) = store.checkpoint().await? else { return Ok(Builder::default()) };
    let mut edge = Vec::new();
    for id in TileId::edge(size) {
        edge.push(match id {
            Some(id) => proofs::hashes(store, id).await?,
            None => Vec::new(),
        });
    }
    let builder = Builder::resume(size, edge).ok_or_else(damaged)?;
    let signed = Note::parse(&note).and_then(|note| Checkpoint::of(&note));
    match signed.is_some_and(|signed| signed.root == builder.root()) {
        true => Ok(builder),
        false => Err(damaged()),
    }
}

pub(super) fn damaged() -> Error {
    Error::Backend { doing: "build the tree of the ledger", source: Box::new(Damaged) }
}
