//! Stored bytes that a receipt names: arguments, result, output.
//!
//! The ledger has only their digests. The bytes are rows and files that may have been changed
//! outside this server, so they are compared here before they are handed out.

use ringfence_ledger::Erasure;
use ringfence_store::{EntryQuery, Error, Store};
use ringfence_types::{
    Call, Digest, Produced, Receipt, RedactRoot, State, Stream, json::canonical,
};

/// One artifact that a receipt names by digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// Its name: `args`, `asked_args`, `result`, `stdout` or `stderr`.
    pub name: &'static str,
    /// Digest on the receipt.
    pub digest: Digest,
    /// Stored bytes.
    pub kept: Kept,
}

/// State of the stored bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// The bytes that the receipt names.
    Whole(Vec<u8>),
    /// Policy had parts of it masked, so the whole was not stored.
    Masked,
    /// It was erased, and an entry of the ledger says so.
    Erased,
    /// It is missing, or differs from the receipt.
    Other,
}

/// All artifacts that a receipt names.
pub async fn artifacts(store: &dyn Store, receipt: &Receipt) -> Result<Vec<Artifact>, Error> {
    let stored = store.call(&receipt.tenant, receipt.call).await?;
    let call = stored.as_ref().map(|stored| &stored.call);
    let args = call.map(|call| canonical::jcs(call.args()).as_bytes().to_vec());
    let asked = call.map(|call| canonical::jcs(&call.asked.args).as_bytes().to_vec());
    if call.is_none() && is_erased(store, receipt).await? {
        return Ok(erased(receipt));
    }
    let masks = |root| is_masked(receipt, root);
    let rows = [
        ("args", Some(receipt.args), args, RedactRoot::Args),
        ("asked_args", receipt.asked_args, asked, RedactRoot::Args),
        ("result", receipt.result, call.and_then(result), RedactRoot::Result),
    ];
    let rows = rows.into_iter().filter_map(|(name, digest, bytes, root)| {
        let digest = digest?;
        Some(Artifact { name, digest, kept: compared(digest, bytes, masks(root)) })
    });
    let mut found: Vec<_> = rows.collect();
    let streams = [
        ("stdout", &receipt.stdout, RedactRoot::Stdout),
        ("stderr", &receipt.stderr, RedactRoot::Stderr),
    ];
    for (name, stream, root) in streams {
        found.extend(printed(store, name, stream, masks(root)).await?);
    }
    Ok(found)
}

/// Whether the records of the call were erased, by an entry that says so.
pub async fn is_erased(store: &dyn Store, receipt: &Receipt) -> Result<bool, Error> {
    let Some(from) = store.erasure(&receipt.tenant, receipt.call).await? else {
        return Ok(false);
    };
    let query = EntryQuery { from, limit: 1, ..EntryQuery::default() };
    let found = store.entries(query).await?;
    let entry = found.first().filter(|placed| placed.index == from);
    Ok(entry.is_some_and(|placed| Erasure::covers(&placed.sealed, receipt)))
}

/// All artifacts of a call whose records were erased.
fn erased(receipt: &Receipt) -> Vec<Artifact> {
    let named = [
        ("args", Some(receipt.args)),
        ("asked_args", receipt.asked_args),
        ("result", receipt.result),
        ("stdout", receipt.stdout.digest),
        ("stderr", receipt.stderr.digest),
    ];
    let artifact = |(name, digest): (_, Option<Digest>)| {
        Some(Artifact { name, digest: digest?, kept: Kept::Erased })
    };
    named.into_iter().filter_map(artifact).collect()
}

async fn printed(
    store: &dyn Store,
    name: &'static str,
    stream: &Stream,
    is_masked: bool,
) -> Result<Option<Artifact>, Error> {
    let Some(digest) = stream.digest else { return Ok(None) };
    let bytes = match store.blob(digest, 0, u64::MAX).await {
        // A missing or damaged file is a finding here, not a failure.
        Err(Error::Backend { .. }) => None,
        read => read?,
    };
    Ok(Some(Artifact { name, digest, kept: compared(digest, bytes, is_masked) }))
}

fn compared(digest: Digest, bytes: Option<Vec<u8>>, is_masked: bool) -> Kept {
    match bytes {
        Some(bytes) if Digest::of(&bytes) == digest => Kept::Whole(bytes),
        _ if is_masked => Kept::Masked,
        _ => Kept::Other,
    }
}

fn is_masked(receipt: &Receipt, root: RedactRoot) -> bool {
    receipt.decision.as_ref().is_some_and(|decision| decision.obligations.redact.has(root))
}

fn result(call: &Call) -> Option<Vec<u8>> {
    let State::Finished(finished) = &call.state else { return None };
    match &finished.produced {
        Produced::Result(result) => Some(canonical::jcs(result).as_bytes().to_vec()),
        Produced::Error(_) => None,
    }
}
