//! One file that proves a call or a session to somebody who has nothing else.

use std::collections::BTreeSet;

use ringfence_ledger::{Artifact, Bundle, Envelope, Flaw, Manifest, Selection};
use ringfence_store::{EntryQuery, Error, Placed, Store};
use ringfence_types::{CallId, EntryKind, Principal, Receipt, Timestamp};

use super::{Kept, Ledger, all, damaged, proofs::key_entries};

/// Most entries in one file.
const MOST: usize = 5_000;

/// Most bytes of artifacts in one file.
const MOST_BYTES: usize = 64 << 20;

/// Why there is no proof.
#[derive(Debug, thiserror::Error)]
pub enum Unprovable {
    /// There are too many entries for one file.
    #[error("there are more than {MOST} entries; export single calls instead")]
    TooMany,
    /// There are too many bytes for one file.
    #[error("the artifacts have more than {} MiB; export without them", MOST_BYTES >> 20)]
    TooLarge,
    /// What is kept of a call is not what its receipt names.
    #[error("the {1} of call {0}, as kept, is not what its receipt names: somebody changed it")]
    Changed(CallId, &'static str),
    /// An entry is not what was signed.
    #[error("the ledger is not what was signed: {0}")]
    Flawed(Flaw),
    /// The store failed.
    #[error("read the ledger")]
    Store(#[from] Error),
}

impl Ledger {
    /// The file about a call or a session of a tenant; none if there are no entries about it.
    pub async fn export(
        &self,
        who: &Principal,
        selection: Selection,
        with_artifacts: bool,
        at: Timestamp,
    ) -> Result<Option<Bundle>, Unprovable> {
        let store = self.store();
        // The key that signed the checkpoint signs the list, and entries without a signature.
        let pen = self.pen().await;
        let mut entries = all(store, query(who, &selection), MOST).await?;
        if entries.is_empty() {
            return Ok(None);
        }
        if entries.len() > MOST {
            return Err(Unprovable::TooMany);
        }
        // After the entries were read: there was none without a checkpoint over it.
        let note = self.checkpoint().await?.ok_or_else(damaged)?.note;
        let own = pen.signer().own(&note).ok_or_else(damaged)?;
        add_originals(store, who, &mut entries).await?;
        let mut keys = key_entries(store).await?;
        keys.retain(|key| key.index < own.checkpoint().size);
        let keys = self.items(&keys, pen.signer(), &own).await?;
        let proved = self.items(&entries, pen.signer(), &own).await?;
        let artifacts = match with_artifacts {
            true => Some(artifacts(store, &entries).await?),
            false => None,
        };
        let manifest = Manifest { at, tenant: who.tenant.clone(), selection };
        let bundle = Bundle::new(note, keys, proved, artifacts);
        checked(pen.signer().bundle(&manifest, bundle)).await.map(Some)
    }
}

impl Ledger {
    /// The DSSE envelope of a call's receipt; none before the call has ended, or if the tenant has no
    /// such call.
    pub(crate) async fn receipt_envelope(
        &self,
        who: &Principal,
        call: CallId,
    ) -> Result<Option<Envelope>, Error> {
        let query =
            EntryQuery { kind: Some(EntryKind::Call), ..query(who, &Selection::Call(call)) };
        let pen = self.pen().await;
        let Some(entry) = all(self.store(), query, MOST).await?.pop() else { return Ok(None) };
        // After the entry was read: there was none without a checkpoint over it.
        let own = self.own(pen.signer()).await?;
        let items = self.items(&[entry], pen.signer(), &own).await?;
        Ok(items.into_iter().next().map(|item| item.envelope))
    }
}

/// What is handed out holds: whoever gets it may never come back to ask.
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

/// The receipts of earlier calls whose results these were given: each came before its own.
async fn add_originals(
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

/// The bytes that receipts refer to: arguments, result, what was printed. What was masked is left out;
/// what is kept and is something else than a receipt names is no proof of anything.
async fn artifacts(store: &dyn Store, entries: &[Placed]) -> Result<Vec<Artifact>, Unprovable> {
    let mut kept: Vec<Artifact> = Vec::new();
    let mut seen = BTreeSet::new();
    for receipt in receipts(entries) {
        for found in super::artifacts(store, &receipt).await? {
            match found.kept {
                Kept::Whole(bytes) if seen.insert(found.digest) => {
                    kept.push(Artifact { digest: found.digest, bytes });
                }
                Kept::Whole(_) | Kept::Masked => {}
                Kept::Other => return Err(Unprovable::Changed(receipt.call, found.name)),
            }
        }
        if kept.iter().map(|artifact| artifact.bytes.len()).sum::<usize>() > MOST_BYTES {
            return Err(Unprovable::TooLarge);
        }
    }
    Ok(kept)
}

fn receipts(entries: &[Placed]) -> Vec<Receipt> {
    let calls = entries.iter().filter(|placed| placed.sealed.kind == EntryKind::Call);
    calls.filter_map(|placed| placed.sealed.predicate().ok()).collect()
}
