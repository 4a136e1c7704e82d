//! Proof bundles of calls and sessions.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::{HeaderValue, StatusCode, Uri};
use ringfence_edge::{
    Problem,
    identity::{self, Caller, May},
    path::Named,
    problem_codes,
    query::Query,
    reply,
};
use ringfence_engine::{Unprovable, data::Selection};
use ringfence_types::{CallId, SessionId};

use crate::shared::Shared;

/// Proves a call: every ledger entry about it, in one file that `ringfence verify` checks offline.
#[utoipa::path(
    get, path = "/v1/calls/{id}/proof", tag = "ledger",
    params(
        ("id" = String, Path, description = "The call"),
        ("artifacts" = Option<bool>, Query, description = "Include arguments, result and output"),
    ),
    responses(
        (status = 200, description = "The bundle", body = Object),
        (status = 422, description = "Too large for one file"),
    )
)]
pub(crate) async fn of_call(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<CallId>,
    uri: Uri,
) -> Result<Response, Problem> {
    export(&shared, &caller, Selection::Call(id), &uri).await
}

/// Proves a session: every ledger entry about its calls.
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}/proof", tag = "ledger",
    params(
        ("session_id" = String, Path, description = "The session"),
        ("artifacts" = Option<bool>, Query, description = "Include arguments, results and output"),
    ),
    responses(
        (status = 200, description = "The bundle", body = Object),
        (status = 422, description = "Too large for one file"),
    )
)]
pub(crate) async fn of_session(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<SessionId>,
    uri: Uri,
) -> Result<Response, Problem> {
    export(&shared, &caller, Selection::Session(id), &uri).await
}

async fn export(
    shared: &Shared,
    caller: &Caller,
    selection: Selection,
    uri: &Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(uri);
    let with_artifacts = query.optional::<bool>("artifacts").unwrap_or(false);
    query.finish()?;
    let bundle = shared.engine.export_proof(caller.principal(), selection, with_artifacts).await;
    let bundle = bundle.map_err(|error| problem(&error))?.ok_or_else(Problem::not_found)?;
    Ok(reply::of(StatusCode::OK, JSON, bundle.render().into()))
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");

fn problem(error: &Unprovable) -> Problem {
    match error {
        Unprovable::Store(error) => Problem::from(error),
        Unprovable::TooMany | Unprovable::TooLarge => {
            Problem::new(&problem_codes::PROOF_TOO_LARGE, error.to_string())
        }
        Unprovable::Changed(..) | Unprovable::Flawed(_) => {
            tracing::error!(%error, "a stored artifact differs from its receipt");
            Problem::new(&problem_codes::INTERNAL, error.to_string())
        }
    }
}
