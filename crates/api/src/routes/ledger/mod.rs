//! The ledger: what commits to everything, and the proofs that something is under it.
//!
//! Hashes are everybody's: they tell nothing of what they are of. What an entry says is its tenant's
//! alone, so tiles of entries are not served.

pub(crate) mod audit;
pub(crate) mod proof;

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    response::Response,
};
use http::{HeaderValue, StatusCode, Uri};
use ringfence_edge::{
    Problem,
    identity::check_operator,
    identity::{self, May},
    problem_codes,
    query::Query,
    reply,
};
use ringfence_engine::{NotRotated, Rotated, VerifierKey};
use ringfence_types::Digest;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{base64, shared::Shared};

/// Gives the newest checkpoint: a signed note of C2SP `tlog-checkpoint`.
#[utoipa::path(
    get, path = "/v1/ledger/checkpoint", tag = "ledger",
    responses((status = 200, description = "The note", body = String, content_type = "text/plain"))
)]
pub(crate) async fn checkpoint(
    State(shared): State<Arc<Shared>>,
    _caller: May<identity::Read>,
) -> Result<Response, Problem> {
    let (_, note) = shared.engine.ledger_checkpoint().await?.ok_or_else(not_yet)?;
    Ok(reply::of(StatusCode::OK, TEXT, note.into()))
}

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const BYTES: HeaderValue = HeaderValue::from_static("application/octet-stream");

fn not_yet() -> Problem {
    let detail = "no checkpoint covers it yet; there is one within a second or two";
    Problem::new(&problem_codes::PROOF_NOT_READY, detail)
        .retry_after(std::time::Duration::from_secs(1))
}

/// Gives a tile of hashes, as C2SP `tlog-tiles` has it, for example `/v1/ledger/tile/0/000.p/7`.
#[utoipa::path(
    get, path = "/v1/ledger/tile/{level}/{path}", tag = "ledger",
    params(
        ("level" = String, Path, description = "0 is the leaves"),
        ("path" = String, Path, description = "Index and width; may have slashes"),
    ),
    responses((status = 200, description = "The hashes", body = Vec<u8>, content_type = "application/octet-stream"))
)]
pub(crate) async fn tile(
    State(shared): State<Arc<Shared>>,
    _caller: May<identity::Read>,
    path: Result<Path<(String, String)>, axum::extract::rejection::PathRejection>,
) -> Result<Response, Problem> {
    let Path((level, rest)) = path.map_err(|_| Problem::not_found())?;
    let tile = shared.engine.ledger_tile(&format!("tile/{level}/{rest}")).await?;
    let tile = tile.ok_or_else(Problem::not_found)?;
    Ok(reply::of(StatusCode::OK, BYTES, tile.into()))
}

/// Keys of the ledger.
#[derive(Serialize, ToSchema)]
#[schema(as = LedgerKeyList)]
pub(crate) struct KeysView {
    /// The name of the log.
    origin: String,
    /// From the first; the last is in force.
    keys: Vec<KeyView>,
}

/// A key of the ledger.
#[derive(Serialize, ToSchema)]
#[schema(as = LedgerKey)]
struct KeyView {
    /// As envelopes name it.
    keyid: String,
    /// The index of the entry that names it. It signs from there on: the first one itself, others
    /// the next entry.
    named_at: u64,
    /// Its 32 bytes, as hexadecimal digits.
    public: String,
    /// The same, as most tools read it.
    pem: String,
    /// The same, as tools for signed notes read it.
    vkey: String,
}

/// Lists the keys that signed the ledger, with what is needed to verify their signatures.
#[utoipa::path(
    get, path = "/v1/ledger/keys", tag = "ledger",
    responses((status = 200, description = "Keys", body = KeysView))
)]
pub(crate) async fn keys(
    State(shared): State<Arc<Shared>>,
    _caller: May<identity::Read>,
) -> Result<Response, Problem> {
    let keys = shared.engine.ledger_keys().await?;
    let view = |key: VerifierKey| KeyView {
        keyid: key.id.hex(),
        named_at: key.named_at,
        public: key.public,
        pem: key.pem,
        vkey: key.verifier,
    };
    let origin = shared.engine.ledger_origin().to_owned();
    Ok(reply::ok(&KeysView { origin, keys: keys.into_iter().map(view).collect() }))
}

/// A change of the ledger's key.
#[derive(Serialize, ToSchema)]
#[schema(as = LedgerRotation)]
pub(crate) struct RotationView {
    /// The key that signs from now on.
    keyid: String,
    /// The one before it.
    replaces: String,
    /// The index of the entry that says so.
    named_at: u64,
}

/// Lets a new key sign the ledger from now on, while calls go on. For admins of the operator's tenant.
#[utoipa::path(
    post, path = "/v1/ledger/rotate", tag = "ledger",
    responses(
        (status = 200, description = "The new key is in force", body = RotationView),
        (status = 409, description = "The key is not one that this server keeps"),
        (status = 503, description = "The key or the ledger cannot be written; the old key stays"),
    )
)]
pub(crate) async fn rotate(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    let Rotated { key, replaces, entry } =
        shared.engine.rotate_ledger().await.map_err(|error| not_rotated(&error))?;
    let (keyid, replaces) = (key.hex(), replaces.hex());
    Ok(reply::ok(&RotationView { keyid, replaces, named_at: entry }))
}

fn not_rotated(error: &NotRotated) -> Problem {
    match error {
        NotRotated::Store(error) => Problem::from(error),
        NotRotated::Stopping => Problem::new(&problem_codes::STOPPING, error.to_string()),
        NotRotated::NoKeys => Problem::new(&problem_codes::CONFLICT, error.to_string()),
        NotRotated::Keep(cause) => {
            tracing::error!(error = cause as &dyn std::error::Error, "the next key cannot be kept");
            Problem::new(&problem_codes::STORE_UNAVAILABLE, error.to_string())
        }
    }
}

/// A proof that the log only grew.
#[derive(Serialize, ToSchema)]
#[schema(as = ConsistencyProof)]
pub(crate) struct ConsistencyView {
    /// Entries of the older tree.
    from: u64,
    /// Entries of the newer one.
    to: u64,
    /// The hashes of RFC 6962, section 2.1.2, in base64.
    proof: Vec<String>,
    /// The newer checkpoint.
    checkpoint: String,
}

/// Proves that the newest checkpoint took nothing away from an older one.
#[utoipa::path(
    get, path = "/v1/ledger/consistency", tag = "ledger",
    params(("from" = u64, Query, description = "Entries under the older checkpoint, from 1")),
    responses(
        (status = 200, description = "The proof", body = ConsistencyView),
        (status = 404, description = "No checkpoint covers so many entries"),
    )
)]
pub(crate) async fn consistency(
    State(shared): State<Arc<Shared>>,
    _caller: May<identity::Read>,
    uri: Uri,
) -> Result<Response, Problem> {
    let newest = shared.engine.ledger_checkpoint().await?;
    let (to, checkpoint) = newest.ok_or_else(not_yet)?;
    let mut query = Query::of(&uri);
    let from = query.number("from", 1, u64::MAX);
    if from.is_none() {
        query.fault("from", "is required: a number from 1");
    }
    query.finish()?;
    let from = from.unwrap_or(to);
    if from > to {
        let detail = format!("the newest checkpoint covers {to} entries");
        return Err(Problem::new(&problem_codes::NOT_FOUND, detail));
    }
    let proof = shared.engine.ledger_consistency(from, to).await?;
    let proof = proof.iter().map(|hash: &Digest| base64::encode(hash.as_bytes())).collect();
    Ok(reply::ok(&ConsistencyView { from, to, proof, checkpoint }))
}
