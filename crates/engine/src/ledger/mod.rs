//! The ledger of the engine: signs entries, appends them, and proves them.
//!
//! The store writes an entry in the same commit as the change it describes, together with a
//! checkpoint over all entries (`tree`). So the database never has an ended call without its ledger
//! entry, an entry cannot be exchanged, and a call whose entry cannot be written is not recorded
//! either. The entry of a call gets its own signature when a proof is asked for (`proofs`).

mod artifacts;
mod export;
mod log_scan;
mod proofs;
mod repair;
mod rotate;
mod tools;
mod tree;

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use ringfence_access::{EntrySigner, SigningGuard};
use ringfence_ledger::{Entry, LedgerKey, OwnCheckpoint, Signer, SigningKey, said_in};
use ringfence_store::{EntryQuery, Error, PAGE, Placed, Signed, Store};
use ringfence_types::{Digest, EntryKind, Sealed, Timestamp};
use tokio::sync::{RwLock, RwLockReadGuard};

pub(crate) use self::tools::{Tools, run as follow_tools};
use self::tree::LogTree;
pub use self::{
    artifacts::{Artifact, Kept, artifacts, is_erased},
    export::Unprovable,
    log_scan::{Difference, DifferingRow, LogScan},
    proofs::{consistency, keys, proof, tile},
    rotate::{Keys, NotRotated, Rotated},
};

/// The ledger. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Ledger(Arc<LedgerInner>);

#[derive(Debug)]
struct LedgerInner {
    store: Arc<dyn Store>,
    /// Name of the log.
    origin: String,
    /// Held for reading from an entry's signature to its commit, and for writing while the key
    /// changes: no entry follows the end of the key that signed it.
    current: RwLock<Current>,
    /// Storage of the next key; none where keys are not changed.
    keys: OnceLock<Arc<dyn Keys>>,
    /// Signs checkpoints for the store.
    tree: Arc<LogTree>,
}

/// The current signer.
#[derive(Debug)]
struct Current {
    signer: Arc<Signer>,
}

/// Guard for signing entries. The key does not change while a guard is held, so it is held until
/// the entries are on record. A task holds at most one guard at a time.
#[derive(Debug)]
pub struct LedgerGuard<'a>(RwLockReadGuard<'a, Current>);

impl LedgerGuard<'_> {
    /// Signs an entry. It is on record once the store has taken it.
    pub fn seal(&self, entry: Entry) -> Result<Sealed, Error> {
        seal(&self.0.signer, entry)
    }

    /// Prepares the entry of a step for the store. The entry of a call's end is signed when a proof
    /// is asked for.
    pub(crate) fn seal_step(&self, entry: Entry) -> Result<Sealed, Error> {
        self.0.signer.prepare_step(entry).map_err(too_large)
    }

    pub(super) fn signer(&self) -> &Signer {
        &self.0.signer
    }
}

fn seal(signer: &Signer, entry: Entry) -> Result<Sealed, Error> {
    signer.seal(entry).map_err(too_large)
}

/// Reason why the ledger cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The ledger names another key than the one at hand.
    #[error("the ledger is signed by {expected}, and the key at hand is {found}")]
    OtherKey {
        /// The key in force.
        expected: Digest,
        /// The key at hand.
        found: Digest,
    },
    /// The first entry names no key.
    #[error("the ledger does not begin with a key")]
    NoBeginning,
    /// The store failed.
    #[error("read the ledger")]
    Store(#[from] Error),
}

impl Ledger {
    /// Opens the ledger of a store, to be signed with this key. An empty ledger begins here, and
    /// gets its name from its first key.
    pub async fn open(
        store: Arc<dyn Store>,
        key: SigningKey,
        at: Timestamp,
    ) -> Result<Self, OpenError> {
        let newest = proofs::key_entries(store.as_ref()).await?.pop();
        let is_new = newest.is_none() && *store.grown().borrow() == 0;
        let signer = match newest {
            Some(placed) => continued(key, &placed)?,
            None if is_new => begun(key),
            None => return Err(OpenError::NoBeginning),
        };
        let signer = Arc::new(signer);
        let checkpoint = store.checkpoint().await?;
        let builder = proofs::resume(store.as_ref(), &signer, checkpoint.as_ref()).await?;
        let tree = Arc::new(LogTree::new(signer.clone(), builder, checkpoint));
        store.set_checkpoint_signer(tree.clone());
        let origin = signer.origin().to_owned();
        let (current, keys) = (RwLock::new(Current { signer }), OnceLock::new());
        let ledger = Self(Arc::new(LedgerInner { store, origin, current, keys, tree }));
        if is_new {
            let first = named(ledger.signing_guard().await.signer(), None);
            ledger.append(vec![Entry::checkpoint_key(at, &first)]).await?;
        }
        Ok(ledger)
    }

    /// The same ledger with key rotation.
    #[must_use]
    pub fn with_keys(self, keys: Arc<dyn Keys>) -> Self {
        // The first storage stays.
        let _ = self.0.keys.set(keys);
        self
    }

    /// Name of the log.
    pub fn origin(&self) -> &str {
        &self.0.origin
    }

    /// Guard to sign with, until the signed entries are on record.
    pub async fn signing_guard(&self) -> LedgerGuard<'_> {
        LedgerGuard(self.0.current.read().await)
    }

    /// Records entries that belong to no step of a call.
    pub async fn append(&self, entries: Vec<Entry>) -> Result<(), Error> {
        if entries.is_empty() {
            return Ok(());
        }
        self.append_entries(entries).await.map(drop)
    }

    /// Records entries, at least one, that belong to no step of a call; gives the index of the first.
    pub(crate) async fn append_entries(&self, entries: Vec<Entry>) -> Result<u64, Error> {
        let guard = self.signing_guard().await;
        let sealed =
            entries.into_iter().map(|entry| guard.seal(entry)).collect::<Result<_, _>>()?;
        self.0.store.append(sealed).await
    }

    /// The newest checkpoint as a signed note; none for an empty ledger.
    pub async fn checkpoint(&self) -> Result<Option<Signed>, Error> {
        self.0.store.checkpoint().await
    }

    /// The newest checkpoint, which covers all readable entries; one signed by another key is
    /// damage.
    async fn own(&self, signer: &Signer) -> Result<OwnCheckpoint, Error> {
        let newest = self.checkpoint().await?;
        newest.and_then(|newest| signer.own(&newest.note)).ok_or_else(damaged)
    }

    /// The store, for reading.
    pub fn store(&self) -> &dyn Store {
        self.0.store.as_ref()
    }
}

#[async_trait]
impl EntrySigner for Ledger {
    async fn sign<'a>(&'a self, entry: Entry) -> Result<(Sealed, SigningGuard<'a>), Error> {
        let guard = self.signing_guard().await;
        let sealed = guard.seal(entry)?;
        Ok((sealed, Box::new(guard)))
    }
}

/// The ledger's statement about a key.
fn named(signer: &Signer, replaces: Option<Digest>) -> LedgerKey {
    let (origin, public) = (signer.origin().to_owned(), *signer.public());
    LedgerKey { origin, public, id: signer.id(), replaces }
}

/// The tree in the store is not the one that was signed.
#[derive(Debug, thiserror::Error)]
#[error("the ledger differs from its newest checkpoint; run `ringfence verify --log` for details")]
struct Damaged;

fn damaged() -> Error {
    Error::Backend { doing: "build the tree of the ledger", source: Box::new(Damaged) }
}

fn too_large(error: ringfence_ledger::TooLarge) -> Error {
    Error::Backend { doing: "sign an entry of the ledger", source: Box::new(error) }
}

/// Signer of a new log, which is named after its first key: unique, without a setting.
fn begun(key: SigningKey) -> Signer {
    let origin = format!("ringfence/{}", &key.public().id().hex()[..16]);
    Signer::new(key, origin).expect("digits are a name")
}

fn continued(key: SigningKey, newest: &Placed) -> Result<Signer, OpenError> {
    let named: LedgerKey = said_in(&newest.sealed).ok_or(OpenError::NoBeginning)?;
    let (expected, found) = (named.id, key.public().id());
    if expected != found {
        return Err(OpenError::OtherKey { expected, found });
    }
    Signer::new(key, named.origin).ok_or(OpenError::NoBeginning)
}

/// All entries that a query finds, page by page, up to a bound.
async fn all(store: &dyn Store, query: EntryQuery, most: usize) -> Result<Vec<Placed>, Error> {
    let mut found: Vec<Placed> = Vec::new();
    let mut from = query.from;
    loop {
        let page = store.audit(EntryQuery { from, limit: PAGE, ..query.clone() }).await?;
        found.extend(page.entries);
        match page.next {
            Some(next) if found.len() <= most => from = next,
            _ => return Ok(found),
        }
    }
}

fn of_kind(kind: EntryKind) -> EntryQuery {
    EntryQuery { kind: Some(kind), ..EntryQuery::default() }
}
