//! Looking at one call, and ending it.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::{HeaderValue, StatusCode, header};
use ringfence_edge::{
    Problem,
    identity::{self, May},
    path::Named,
    problem_codes, reply,
};
use ringfence_types::CallId;

use crate::{
    shared::Shared,
    views::call::{CallView, CancelView},
};

/// Shows a call.
#[utoipa::path(
    get, path = "/v1/calls/{id}", tag = "calls",
    params(("id" = String, Path, description = "The call")),
    responses((status = 200, description = "The call", body = CallView<'static>))
)]
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<CallId>,
) -> Result<Response, Problem> {
    let call = shared.engine.get(caller.principal(), id).await?.ok_or_else(Problem::not_found)?;
    Ok(reply::ok(&CallView::of(&call)))
}

/// Asks for the end of a call.
///
/// 200 if it has ended, now or before; 202 if its program is being stopped. The whole call is shown
/// to keys with scope `read`, its id and state to others.
#[utoipa::path(
    delete, path = "/v1/calls/{id}", tag = "calls",
    params(("id" = String, Path, description = "The call")),
    responses(
        (status = 200, description = "The call has ended", body = CancelView<'static>),
        (status = 202, description = "The call is being stopped", body = CancelView<'static>),
        (status = 409, description = "Something else happened to the call in between"),
    )
)]
pub(crate) async fn cancel(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<CallId>,
) -> Result<Response, Problem> {
    let call =
        shared.engine.cancel(caller.principal(), id).await?.ok_or_else(Problem::not_found)?;
    let view = CancelView::of(&call, &caller.principal().scopes);
    if call.state.is_final() {
        return Ok(reply::ok(&view));
    }
    let mut response = reply::json(StatusCode::ACCEPTED, &view);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    Ok(response)
}

/// Shows the receipt of a call that has ended: what was asked, decided, run and produced.
#[utoipa::path(
    get, path = "/v1/calls/{id}/receipt", tag = "calls",
    params(("id" = String, Path, description = "The call")),
    responses(
        (status = 200, description = "The receipt", body = Object),
        (status = 409, description = "The call has not ended"),
    )
)]
pub(crate) async fn receipt(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<CallId>,
) -> Result<Response, Problem> {
    let receipt = shared.engine.receipt(caller.principal(), id).await;
    if let Some(receipt) = receipt? {
        return Ok(reply::ok(&receipt));
    }
    let call = shared.engine.get(caller.principal(), id).await?.ok_or_else(Problem::not_found)?;
    let detail = format!("the call is {}; there is a receipt when it has ended", call.state.name());
    Err(Problem::new(&problem_codes::NOT_FINISHED, detail)
        .retry_after(std::time::Duration::from_secs(1)))
}
