//! The ledger for clients: checkpoints, tiles, keys, proofs, and the audit.

use std::time::{Duration, Instant};

use ringfence_ledger::{Bundle, Checkpoint, LedgerKey, Selection, merkle::TileId};
use ringfence_store::{EntryPage, EntryQuery, Error};
use ringfence_types::{CallId, Digest, Principal};

use crate::{Engine, LogScan, Unprovable, ledger};

/// A ledger key in the forms that verifiers use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifierKey {
    /// Index of the entry that names it.
    pub named_at: u64,
    /// Its id: the digest of the public key.
    pub id: Digest,
    /// The public key in base64.
    pub public: String,
    /// The public key as PEM.
    pub pem: String,
    /// The verifier key of a signed note.
    pub verifier: String,
}

/// Scans of the log, if calls end while it is read.
const MAX_TRIES: usize = 5;

/// An error with its cause, in one line.
fn flaw_text(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// A call whose entries hold: signatures, inclusion in the log, and the checkpoint over it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedCall {
    /// Positions of the entries about the call.
    pub entries: Vec<u64>,
    /// Entries under the checkpoint.
    pub log_size: u64,
    /// Root of the log's tree at that size.
    pub root: Digest,
    /// Id of the key that signed the checkpoint.
    pub key: Digest,
}

/// Result of reading the whole log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedLog {
    /// Number of entries.
    pub size: u64,
    /// Root of the tree under the newest checkpoint.
    pub root: Option<Digest>,
    /// Description of what does not hold.
    pub flaw: Option<String>,
    /// Rows of keys and approvals that differ from what the entries say.
    pub differing_rows: u64,
    /// Duration of the check.
    pub took: Duration,
}

/// Slices of one page: each visits a bounded number of rows.
const MAX_SLICES: usize = 16;

impl Engine {
    /// The newest checkpoint: entries under it, and the signed note.
    pub async fn ledger_checkpoint(&self) -> Result<Option<(u64, String)>, Error> {
        let newest = self.inner.parts.ledger.checkpoint().await?;
        Ok(newest.map(|newest| (newest.size, newest.note)))
    }

    /// The hashes of a tile by its path, such as `tile/0/000`; none if the tree has no such tile.
    pub async fn ledger_tile(&self, path: &str) -> Result<Option<Vec<u8>>, Error> {
        let Ok(id) = TileId::parse(path) else { return Ok(None) };
        ledger::tile(self.inner.parts.ledger.store(), id).await
    }

    /// The name of the log.
    pub fn ledger_origin(&self) -> &str {
        self.inner.parts.ledger.origin()
    }

    /// The keys of the log, oldest first.
    pub async fn ledger_keys(&self) -> Result<Vec<VerifierKey>, Error> {
        let keys = ledger::keys(self.inner.parts.ledger.store()).await?;
        let key = |(named_at, key): (u64, LedgerKey)| VerifierKey {
            named_at,
            id: key.id,
            public: key.public.to_string(),
            pem: key.public.pem(),
            verifier: Checkpoint::verifier(&key.origin, &key.public),
        };
        Ok(keys.into_iter().map(key).collect())
    }

    /// The proof that the log of `to` entries begins with that of `from` entries.
    pub async fn ledger_consistency(&self, from: u64, to: u64) -> Result<Vec<Digest>, Error> {
        ledger::consistency(self.inner.parts.ledger.store(), from, to).await
    }

    /// Proof bundle of a call or a session of a tenant; none if there are no entries about it.
    pub async fn export_proof(
        &self,
        who: &Principal,
        selection: Selection,
        with_artifacts: bool,
    ) -> Result<Option<Bundle>, Unprovable> {
        let at = self.clock().now();
        self.inner.parts.ledger.export(who, selection, with_artifacts, at).await
    }

    /// Verifies everything on the ledger about a call, as a reader of its exported proof would; the inner
    /// error says what does not hold. None if there are no entries about it.
    pub async fn verify_call(
        &self,
        who: &Principal,
        call: CallId,
    ) -> Result<Option<Result<VerifiedCall, String>>, Unprovable> {
        let Some(bundle) = self.export_proof(who, Selection::Call(call), false).await? else {
            return Ok(None);
        };
        let verified = Bundle::verify(bundle.render().as_bytes(), None);
        Ok(Some(verified.map_err(|flaw| flaw.to_string()).map(|verified| VerifiedCall {
            entries: verified.entries.iter().map(|entry| entry.index).collect(),
            log_size: verified.checkpoint.size,
            root: verified.checkpoint.root,
            key: verified.key.id(),
        })))
    }

    /// Reads the whole log and compares it with its newest checkpoint, and rows of keys and approvals with
    /// the entries about them. Calls that end meanwhile are not a flaw: the scan is one snapshot, and it
    /// is repeated if the checkpoint was replaced after it.
    pub async fn verify_log(&self) -> Result<VerifiedLog, Error> {
        let (store, started) = (self.inner.parts.ledger.store(), Instant::now());
        let mut tries = 0;
        loop {
            let size = self.inner.parts.ledger.checkpoint().await?.map_or(0, |signed| signed.size);
            let scan = LogScan::run(store, &[size]).await?;
            let checked = scan.check_newest();
            let is_overtaken = scan.size() != size || {
                let newest = self.inner.parts.ledger.checkpoint().await?;
                newest.is_some_and(|newest| newest.size != size)
            };
            tries += 1;
            if checked.is_err() && is_overtaken && tries < MAX_TRIES {
                continue;
            }
            let (root, differing_rows) = (scan.root_at(size), scan.differing_count);
            let flaw = checked.err().map(|error| flaw_text(&error));
            let took = started.elapsed();
            return Ok(VerifiedLog { size: scan.size(), root, flaw, differing_rows, took });
        }
    }

    /// The signed receipt of a call: the text of its DSSE envelope. None before the call has ended,
    /// or if the tenant has no such call.
    pub async fn receipt_envelope(
        &self,
        who: &Principal,
        call: CallId,
    ) -> Result<Option<String>, Error> {
        let envelope = self.inner.parts.ledger.receipt_envelope(who, call).await?;
        Ok(envelope.map(|envelope| envelope.render()))
    }

    /// Entries of the ledger in order, from a bounded number of rows. The tenant of the query is
    /// always the principal's.
    pub async fn audit_slice(
        &self,
        who: &Principal,
        query: EntryQuery,
    ) -> Result<EntryPage, Error> {
        let query = EntryQuery { tenant: Some(who.tenant.clone()), ..query };
        self.inner.parts.store.audit(query).await
    }

    /// Entries as of [`Engine::audit_slice`], slice by slice until the limit, or for a bounded
    /// number of slices.
    pub async fn audit(&self, who: &Principal, mut query: EntryQuery) -> Result<EntryPage, Error> {
        let mut page = EntryPage { entries: Vec::new(), next: Some(query.from) };
        for _ in 0..MAX_SLICES {
            let slice = self.audit_slice(who, query.clone()).await?;
            query.limit -= slice.entries.len();
            page.entries.extend(slice.entries);
            page.next = slice.next;
            match slice.next {
                Some(next) if query.limit > 0 => query.from = next,
                _ => break,
            }
        }
        Ok(page)
    }
}
