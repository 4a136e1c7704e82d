//! Proof bundle: one file that proves a call or a session without access to the server.

use std::collections::BTreeSet;

use ringfence_ledger::{Artifact, Bundle, Envelope, Flaw, Manifest, Selection};
use ringfence_store::{EntryQuery, Error, Placed, Store};
use ringfence_types::{CallId, EntryKind, Principal, Receipt, Timestamp};

use super::{Kept, Ledger, all, damaged, proofs::key_entries};

/// Entries per bundle.
const MAX_BUNDLE_ENTRIES: usize = 5_000;

/// Bytes of artifacts per bundle.
const MAX_BUNDLE_BYTES: usize = 64 << 20;

/// Reason why there is no proof.
#[derive(Debug, thiserror::Error)]
pub enum Unprovable {
    /// There are too many entries for one file.
    #[error("there are more than {MAX_BUNDLE_ENTRIES} entries; export single calls instead")]
    TooMany,
    /// There are too many bytes for one file.
    #[error("the artifacts have more than {} MiB; export without them", MAX_BUNDLE_BYTES >> 20)]
    TooLarge,
    /// A stored artifact differs from the receipt.
    #[error("the stored {1} of call {0} differs from its receipt: modified outside this server")]
    Changed(CallId, &'static str),
    /// An entry differs from what was signed.
    #[error("the ledger is not what was signed: {0}")]
    Flawed(Flaw),
    /// The store failed.
    #[error("read the ledger")]
    Store(#[from] Error),
}

impl Ledger {
    /// The proof bundle about a call or a session of a tenant; none if there are no entries about
    /// it.
    pub async fn export(
        &self,
        who: &Principal,
        selection: Selection,
        with_artifacts: bool,
        at: Timestamp,
    ) -> Result<Option<Bundle>, Unprovable> {
        let store = self.store();
        // The signer of the checkpoint also signs the manifest, and entries without a signature.
        let guard = self.signing_guard().await;
        let mut entries = all(store, query(who, &selection), MAX_BUNDLE_ENTRIES).await?;
        if entries.is_empty() {
            return Ok(None);
        }
        if entries.len() > MAX_BUNDLE_ENTRIES {
            return Err(Unprovable::TooMany);
        }
        // After the entries were read: every readable entry has a checkpoint over it.
        let note = self.checkpoint().await?.ok_or_else(damaged)?.note;
        let own = guard.signer().own(&note).ok_or_else(damaged)?;
        add_memo_sources(store, who, &mut entries).await?;
        let mut keys = key_entries(store).await?;
        keys.retain(|key| key.index < own.checkpoint().size);
        let keys = self.items(&keys, guard.signer(), &own).await?;
        let proved = self.items(&entries, guard.signer(), &own).await?;
        let artifacts = match with_artifacts {
            true => Some(artifacts(store, &entries).await?),
            false => None,
        };
        let manifest = Manifest { at, tenant: who.tenant.clone(), selection };
        let bundle = Bundle::new(note, keys, proved, artifacts);
        checked(guard.signer().bundle(&manifest, bundle)).await.map(Some)
    }
}

impl Ledger {
    /// The DSSE envelope of a call's receipt; none before the call has ended, or if the tenant has
    /// no such call.
    pub(crate) async fn receipt_envelope(
        &self,
        who: &Principal,
        call: CallId,
    ) -> Result<Option<Envelope>, Error> {
        let query =
            EntryQuery { kind: Some(EntryKind::Call), ..query(who, &Selection::Call(call)) };
        let guard = self.signing_guard().await;
        let Some(entry) = all(self.store(), query, MAX_BUNDLE_ENTRIES).await?.pop() else {
            return Ok(None);
        };
        // After the entry was read: every readable entry has a checkpoint over it.
        let own = self.own(guard.signer()).await?;
        let items = self.items(&[entry], guard.signer(), &own).await?;
        Ok(items.into_iter().next().map(|item| item.envelope))
    }
}

/// The bundle, verified before it is handed out.
async fn checked(bundle: Bundle) -> Result<Bundle, Unprovable> {
    let check = tokio::task::spawn_blocking(move || {
        Bundle::verify(bundle.render().as_bytes(), None).map(|_| bundle)
    });
    match check.await {
        Ok(checked) => checked.map_err(Unprovable::Flawed),
        Err(_) => Err(Unprovable::Store(damaged())),
    }
}

fn query(who: &Principal, selection: &Selection) -> EntryQuery {
    let own = EntryQuery { tenant: Some(who.tenant.clone()), ..EntryQuery::default() };
    match selection {
        Selection::Call(call) => EntryQuery { call: Some(*call), ..own },
        Selection::Session(session) => EntryQuery { session: Some(session.clone()), ..own },
    }
}

/// Receipts of the earlier calls whose results memoised calls were given.
async fn add_memo_sources(
    store: &dyn Store,
    who: &Principal,
    entries: &mut Vec<Placed>,
) -> Result<(), Error> {
    let here: BTreeSet<u64> = entries.iter().map(|placed| placed.index).collect();
    let named = receipts(entries).into_iter().filter_map(|receipt| receipt.memoised);
    let named: BTreeSet<u64> = named.map(|memoised| memoised.entry).collect();
    for &from in named.difference(&here) {
        let tenant = Some(who.tenant.clone());
        let query = EntryQuery { tenant, from, limit: 1, ..EntryQuery::default() };
        let found = store.entries(query).await?;
        entries.extend(found.into_iter().filter(|placed| placed.index == from));
    }
    entries.sort_by_key(|placed| placed.index);
    Ok(())
}

/// Bytes that receipts refer to: arguments, result, output. Masked ones are left out; a stored
/// artifact that differs from its receipt is an error.
async fn artifacts(store: &dyn Store, entries: &[Placed]) -> Result<Vec<Artifact>, Unprovable> {
    let mut kept: Vec<Artifact> = Vec::new();
    let mut seen = BTreeSet::new();
    for receipt in receipts(entries) {
        for found in super::artifacts(store, &receipt).await? {
            match found.kept {
                Kept::Whole(bytes) if seen.insert(found.digest) => {
                    kept.push(Artifact { digest: found.digest, bytes });
                }
                Kept::Whole(_) | Kept::Masked | Kept::Erased => {}
                Kept::Other => return Err(Unprovable::Changed(receipt.call, found.name)),
            }
        }
        if kept.iter().map(|artifact| artifact.bytes.len()).sum::<usize>() > MAX_BUNDLE_BYTES {
            return Err(Unprovable::TooLarge);
        }
    }
    Ok(kept)
}

fn receipts(entries: &[Placed]) -> Vec<Receipt> {
    let calls = entries.iter().filter(|placed| placed.sealed.kind == EntryKind::Call);
    calls.filter_map(|placed| placed.sealed.predicate().ok()).collect()
}
