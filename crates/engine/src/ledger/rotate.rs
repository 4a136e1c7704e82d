//! Another key for the ledger, while calls go on.
//!
//! The old key signs an entry that names the new one, and nothing after it; the new one signs from there
//! on, checkpoints included. Whoever signs meanwhile waits: entries that were signed are on record first,
//! and the others are signed by the new key. A crash at any moment leaves one of the two in force, and
//! the ledger says which.

use std::{fmt::Debug, io, sync::Arc};

use ringfence_ledger::{Entry, Signer, SigningKey};
use ringfence_store::Error;
use ringfence_types::{Digest, Timestamp};

use super::{Current, Ledger, named, seal};
use crate::Engine;

/// Where keys of the ledger are kept.
pub trait Keys: Debug + Send + Sync {
    /// Makes the next key and keeps it beside the one in force. It counts once the ledger names it.
    fn prepare(&self) -> io::Result<SigningKey>;

    /// The ledger names the next key: it takes the place of the one before.
    fn take_over(&self) -> io::Result<()>;
}

/// A change of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotated {
    /// The key that signs now.
    pub key: Digest,
    /// The one before it.
    pub replaces: Digest,
    /// The entry that says so.
    pub entry: u64,
}

/// Why the key is still the same.
#[derive(Debug, thiserror::Error)]
pub enum NotRotated {
    /// Nobody here keeps keys.
    #[error("this server does not keep the ledger's key")]
    NoKeys,
    /// The next key could not be made or kept.
    #[error("the next key cannot be kept")]
    Keep(#[source] io::Error),
    /// The ledger could not be written.
    #[error("the ledger cannot be written")]
    Store(#[from] Error),
    /// The server is about to stop.
    #[error("the server is stopping")]
    Stopping,
}

impl Engine {
    /// Lets a new key sign the ledger from now on. It is done to its end, whether or not anybody waits.
    pub async fn rotate_ledger(&self) -> Result<Rotated, NotRotated> {
        if self.inner.stopping.is_cancelled() {
            return Err(NotRotated::Stopping);
        }
        let (ledger, at) = (self.inner.parts.ledger.clone(), self.clock().now());
        let rotating = self.inner.tasks.spawn(async move { ledger.rotate(at).await });
        rotating.await.unwrap_or(Err(NotRotated::Stopping))
    }
}

impl Ledger {
    /// Must not be dropped before its end: see [`Engine::rotate_ledger`].
    pub async fn rotate(&self, at: Timestamp) -> Result<Rotated, NotRotated> {
        let keys = self.0.keys.get().cloned().ok_or(NotRotated::NoKeys)?;
        // One change at a time, and nobody signs meanwhile.
        let mut current = self.0.current.write().await;
        let next = kept(&keys, |keys| keys.prepare()).await?;
        let successor =
            Signer::new(next, self.0.origin.clone()).expect("it is the name of this log");
        let successor = Arc::new(successor);
        let key = named(&successor, Some(current.signer.id()));
        let entry = seal(&current.signer, Entry::checkpoint_key(at, &key))?;
        // What commits to the entry is the first thing that the new key signs.
        self.0.tree.succeed(successor.clone());
        let appended = self.0.store.append(vec![entry]).await;
        let entry = appended.inspect_err(|_| self.0.tree.succeed(current.signer.clone()))?;
        let rotated = Rotated { key: key.id, replaces: current.signer.id(), entry };
        *current = Current { signer: successor };
        // What follows only tidies up: the ledger has spoken, and the next start does the same.
        if let Err(error) = kept(&keys, |keys| keys.take_over()).await {
            tracing::warn!(%error, "the new key is not in its place yet; the next start puts it there");
        }
        tracing::info!(key = %rotated.key, replaces = %rotated.replaces, "another key signs the ledger");
        Ok(rotated)
    }
}

/// Does something with the files of keys.
async fn kept<T: Send + 'static>(
    keys: &Arc<dyn Keys>,
    work: impl FnOnce(&dyn Keys) -> io::Result<T> + Send + 'static,
) -> Result<T, NotRotated> {
    let keys = keys.clone();
    let done = tokio::task::spawn_blocking(move || work(keys.as_ref())).await;
    done.unwrap_or_else(|_| Err(io::Error::other("interrupted"))).map_err(NotRotated::Keep)
}
