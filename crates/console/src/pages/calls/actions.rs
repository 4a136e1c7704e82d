//! Actions on a call: prove it, cancel it, erase its records, make it again.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use ringfence_edge::{
    Problem,
    identity::{self, May},
    path::Named,
    problem_codes,
};
use ringfence_engine::{
    CallRequest, EraseError, Unprovable,
    data::{ErasureScope, Selection},
};
use ringfence_types::{CallId, Scope};

use super::download;
use crate::{Shared, form, shell};

/// Sends the signed receipt as a file.
pub(crate) async fn receipt(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<CallId>,
) -> Result<Response, Problem> {
    let envelope = shared.engine.receipt_envelope(caller.principal(), id).await?;
    let envelope = envelope.ok_or_else(Problem::not_found)?;
    let kind = "application/vnd.dsse.envelope.v1+json";
    Ok(download(envelope.into_bytes(), kind, &format!("{id}.receipt.json")))
}

/// Sends the proof bundle of a call as a file, for `ringfence verify`.
pub(crate) async fn proof(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<CallId>,
) -> Result<Response, Problem> {
    let bundle = shared.engine.export_proof(caller.principal(), Selection::Call(id), true).await;
    let bundle = bundle.map_err(unprovable)?.ok_or_else(Problem::not_found)?;
    Ok(download(bundle.render().into_bytes(), "application/json", &format!("{id}.proof.json")))
}

pub(super) fn unprovable(error: Unprovable) -> Problem {
    match error {
        Unprovable::Store(error) => error.into(),
        other => Problem::new(&problem_codes::CONFLICT, other.to_string()),
    }
}

/// Asks for the end of a call.
pub(crate) async fn cancel(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<CallId>,
    request: Request,
) -> Result<Response, Problem> {
    form::read(&shared.edge, &caller, request).await?;
    let call =
        shared.engine.cancel(caller.principal(), id).await?.ok_or_else(Problem::not_found)?;
    let done = if call.state.is_final() { "cancelled" } else { "cancelling" };
    Ok(shell::redirect(&format!("/console/calls/{id}?done={done}")))
}

/// Erases the records of a call and of the calls that it made.
pub(crate) async fn erase(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    Named(id): Named<CallId>,
    request: Request,
) -> Result<Response, Problem> {
    form::read(&shared.edge, &caller, request).await?;
    let erased = shared.engine.erase(caller.principal(), ErasureScope::Call(id), None).await;
    match erased {
        Ok(_) => Ok(shell::redirect("/console/calls?done=erased")),
        Err(EraseError::NotFound) => Err(Problem::not_found()),
        Err(EraseError::Store(error)) => Err(error.into()),
        Err(error @ EraseError::UnderWay(_)) => {
            Err(Problem::new(&problem_codes::NOT_FINISHED, error.to_string()))
        }
    }
}

/// Makes the same call once more.
pub(crate) async fn retry(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<CallId>,
    request: Request,
) -> Result<Response, Problem> {
    form::read(&shared.edge, &caller, request).await?;
    let who = caller.principal();
    // Its arguments are data of the tenant, which only keys that may read it see.
    if !who.scopes.allow(Scope::Read) {
        return Err(identity::scope_missing(Scope::Read));
    }
    let call = shared.engine.get(who, id).await?.ok_or_else(Problem::not_found)?;
    let asked = &call.asked;
    let again = CallRequest {
        version: Some(asked.tool.version.clone()),
        session: asked.session.clone(),
        persona: asked.persona.clone(),
        metadata: asked.metadata.clone(),
        trace: Some(caller.trace().clone()),
        detached: true,
        fresh: true,
        ..CallRequest::new(asked.tool.name.clone(), call.args().clone())
    };
    let ticket = shared.engine.call(who, again).await.map_err(|refused| Problem::from(&refused))?;
    Ok(shell::redirect(&format!("/console/calls/{}", ticket.id())))
}
