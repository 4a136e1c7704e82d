//! Rotation of the ledger key while calls go on.
//!
//! The old key signs an entry that names the new one, and nothing after it; from there on the new
//! key signs, checkpoints included. Other signers wait: signed entries are recorded first, and
//! later ones are signed with the new key. A crash at any moment leaves exactly one of the two in
//! force, and the ledger says which.

use std::{fmt::Debug, io, sync::Arc};

use ringfence_ledger::{Entry, Signer, SigningKey};
use ringfence_store::Error;
use ringfence_types::{Digest, Timestamp};

use super::{Current, Ledger, named, seal};
use crate::Engine;

/// Storage of ledger keys.
pub trait Keys: Debug + Send + Sync {
    /// Makes the next key and stores it beside the current one. It counts once the ledger names it.
    fn prepare(&self) -> io::Result<SigningKey>;

    /// Replaces the current key by the next one, which the ledger names now.
    fn take_over(&self) -> io::Result<()>;
}

/// Result of a key rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotated {
    /// The key that signs now.
    pub key: Digest,
    /// The previous key.
    pub replaces: Digest,
    /// Index of the entry about the rotation.
    pub entry: u64,
}

/// Reason why the key was not rotated.
#[derive(Debug, thiserror::Error)]
pub enum NotRotated {
    /// Key rotation is not configured.
    #[error("this server does not keep the ledger's key")]
    NoKeys,
    /// The next key could not be made or stored.
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
    /// Rotates the ledger key. The rotation completes even if its caller stops waiting.
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
        // One rotation at a time, and no signatures meanwhile.
        let mut current = self.0.current.write().await;
        let next = kept(&keys, |keys| keys.prepare()).await?;
        let successor =
            Signer::new(next, self.0.origin.clone()).expect("it is the name of this log");
        let successor = Arc::new(successor);
        let key = named(&successor, Some(current.signer.id()));
        let entry = seal(&current.signer, Entry::checkpoint_key(at, &key))?;
        // The checkpoint over the entry is the first that the new key signs.
        self.0.tree.set_signer(successor.clone());
        let appended = self.0.store.append(vec![entry]).await;
        let entry = appended.inspect_err(|_| self.0.tree.set_signer(current.signer.clone()))?;
        let rotated = Rotated { key: key.id, replaces: current.signer.id(), entry };
        *current = Current { signer: successor };
        // The ledger names the new key already; only the file remains, and the next start also
        // moves it.
        if let Err(error) = kept(&keys, |keys| keys.take_over()).await {
            tracing::warn!(%error, "new ledger key not moved into place; the next start does it");
        }
        tracing::info!(key = %rotated.key, replaces = %rotated.replaces, "ledger key rotated");
        Ok(rotated)
    }
}

/// Runs file operations of the key storage on a blocking thread.
async fn kept<T: Send + 'static>(
    keys: &Arc<dyn Keys>,
    work: impl FnOnce(&dyn Keys) -> io::Result<T> + Send + 'static,
) -> Result<T, NotRotated> {
    let keys = keys.clone();
    let done = tokio::task::spawn_blocking(move || work(keys.as_ref())).await;
    done.unwrap_or_else(|_| Err(io::Error::other("interrupted"))).map_err(NotRotated::Keep)
}
