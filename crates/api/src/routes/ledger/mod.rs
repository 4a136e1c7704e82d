//! The ledger: checkpoints, tiles, keys and proofs.
//!
//! Hashes are public: they reveal nothing of their entries. The text of an entry belongs to its
//! tenant, so tiles of entries are not served.

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

/// Shows the newest checkpoint: a signed note of C2SP `tlog-checkpoint`.
#[utoipa::path(
    get, path = "/v1/ledger/checkpoint", tag = "ledger",
    responses((status = 200, description = "The note", body = String, content_type = "text/plain"))
)]
pub(crate) async fn checkpoint(
    State(shared): State<Arc<Shared>>,
    _caller: May<identity::Read>,
) -> Result<Response, Problem> {
    let (_, note) = shared.engine.ledger_checkpoint().await?.ok_or_else(not_yet)?;
    Ok(reply::of(StatusCode::OK, PLAIN_TEXT, note.into()))
}

const PLAIN_TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const OCTET_STREAM: HeaderValue = HeaderValue::from_static("application/octet-stream");

fn not_yet() -> Problem {
    let detail = "no checkpoint covers it yet; try again in a second";
    Problem::new(&problem_codes::PROOF_NOT_READY, detail)
        .retry_after(std::time::Duration::from_secs(1))
}

/// Shows a tile of hashes of C2SP `tlog-tiles`, for example `/v1/ledger/tile/0/000.p/7`.
#[utoipa::path(
    get, path = "/v1/ledger/tile/{level}/{path}", tag = "ledger",
    params(
        ("level" = String, Path, description = "Level; 0 is the leaves"),
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
    Ok(reply::of(StatusCode::OK, OCTET_STREAM, tile.into()))
}

/// Keys of the ledger.
#[derive(Serialize, ToSchema)]
#[schema(as = LedgerKeyList)]
pub(crate) struct KeysView {
    /// Name of the log.
    origin: String,
    /// Keys from the first; the last is in force.
    keys: Vec<LedgerKeyView>,
}

/// A key of the ledger.
#[derive(Serialize, ToSchema)]
#[schema(as = LedgerKey)]
struct LedgerKeyView {
    /// Id of the key in envelopes.
    keyid: String,
    /// Index of the entry that names it. The first key signs from that entry on, others from the
    /// next.
    named_at: u64,
    /// Its 32 bytes, as hexadecimal digits.
    public: String,
    /// The key as PEM.
    pem: String,
    /// The key for verifiers of signed notes.
    vkey: String,
}

/// Lists the keys of the ledger, in the forms that verifiers use.
#[utoipa::path(
    get, path = "/v1/ledger/keys", tag = "ledger",
    responses((status = 200, description = "Keys", body = KeysView))
)]
pub(crate) async fn keys(
    State(shared): State<Arc<Shared>>,
    _caller: May<identity::Read>,
) -> Result<Response, Problem> {
    let keys = shared.engine.ledger_keys().await?;
    let view = |key: VerifierKey| LedgerKeyView {
        keyid: key.id.hex(),
        named_at: key.named_at,
        public: key.public,
        pem: key.pem,
        vkey: key.verifier,
    };
    let origin = shared.engine.ledger_origin().to_owned();
    Ok(reply::ok(&KeysView { origin, keys: keys.into_iter().map(view).collect() }))
}

/// Result of a key rotation.
#[derive(Serialize, ToSchema)]
#[schema(as = LedgerRotation)]
pub(crate) struct RotationView {
    /// The key that signs from now on.
    keyid: String,
    /// The previous key.
    replaces: String,
    /// Index of the entry about the rotation.
    named_at: u64,
}

/// Rotates the key of the ledger while calls go on. For admins of the operator's tenant.
#[utoipa::path(
    post, path = "/v1/ledger/rotate", tag = "ledger",
    responses(
        (status = 200, description = "The new key is in force", body = RotationView),
        (status = 409, description = "This server does not store the key, so it cannot rotate it"),
        (status = 503, description = "The key or the ledger cannot be written; the old key stays in force"),
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
            tracing::error!(
                error = cause as &dyn std::error::Error,
                "cannot store the next ledger key"
            );
            Problem::new(&problem_codes::STORE_UNAVAILABLE, error.to_string())
        }
    }
}

/// Proof that the log only grew.
#[derive(Serialize, ToSchema)]
#[schema(as = ConsistencyProof)]
pub(crate) struct ConsistencyView {
    /// Number of entries of the older tree.
    from: u64,
    /// Number of entries of the newer tree.
    to: u64,
    /// The hashes of RFC 6962, section 2.1.2, in base64.
    proof: Vec<String>,
    /// The newer checkpoint.
    checkpoint: String,
}

/// Proves that the newest checkpoint continues an older one.
#[utoipa::path(
    get, path = "/v1/ledger/consistency", tag = "ledger",
    params(("from" = u64, Query, description = "Number of entries under the older checkpoint, from 1")),
    responses(
        (status = 200, description = "The proof", body = ConsistencyView),
        (status = 404, description = "No checkpoint covers that many entries"),
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
