//! Reading and cancelling one call.

use std::{sync::Arc, time::Duration};

use axum::{extract::State, response::Response};
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use ringfence_edge::{
    Problem, body,
    identity::{self, May},
    missing_call,
    path::Named,
    problem_codes,
    query::Query,
    reply,
};
use ringfence_types::CallId;

use crate::{
    shared::Shared,
    views::call::{CallView, CancelView},
};

/// Shows a call.
///
/// With `wait` the answer comes when the call has ended or is held, or after that many seconds; see
/// `state`.
#[utoipa::path(
    get, path = "/v1/calls/{id}", tag = "calls",
    params(
        ("id" = String, Path, description = "The call"),
        ("wait" = Option<u64>, Query, description = "Seconds to wait for the end of the call; default 0", maximum = 300),
    ),
    responses(
        (status = 200, description = "The call", body = CallView<'static>),
        (status = 410, description = "The records of the call were erased; its receipt is kept"),
    )
)]
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<CallId>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let wait = query.number("wait", 0, shared.edge.config().max_wait.as_secs()).unwrap_or(0);
    query.finish()?;
    let wait = Duration::from_secs(wait);
    let call = shared.engine.wait_for(caller.principal(), id, wait).await?;
    let Some(call) = call else {
        return Err(missing_call(&shared.engine, caller.principal(), id).await);
    };
    let receipt = match call.state.is_final() {
        true => shared.engine.receipt(caller.principal(), id).await?,
        false => None,
    };
    let progress = shared.engine.progress(caller.principal(), id);
    let progress = progress.filter(|_| !call.state.is_final());
    Ok(reply::ok(&CallView::of(&call).with_progress(progress).with_receipt(receipt.as_ref())))
}

/// Cancels a call.
///
/// 200 if it has ended, now or before; 202 if its program is being stopped. Keys with scope `read`
/// get the whole call, others its id and state.
#[utoipa::path(
    delete, path = "/v1/calls/{id}", tag = "calls",
    params(("id" = String, Path, description = "The call")),
    responses(
        (status = 200, description = "The call has ended", body = CancelView<'static>),
        (status = 202, description = "The call is being stopped", body = CancelView<'static>),
        (status = 409, description = "The call changed concurrently; try again"),
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

/// Shows the receipt of an ended call: request, decision, run and result.
///
/// Denied, expired and cancelled calls have one too. With `Accept:
/// application/vnd.dsse.envelope.v1+json`, or `format=dsse`, the answer is the signed receipt: a
/// DSSE envelope whose payload is an in-toto statement (`application/vnd.in-toto+json`) with the
/// receipt as its predicate. `GET /v1/ledger/keys` lists the signing keys.
#[utoipa::path(
    get, path = "/v1/calls/{id}/receipt", tag = "calls",
    params(
        ("id" = String, Path, description = "The call"),
        ("format" = Option<String>, Query, description = "`dsse` for the signed envelope, `json` for the receipt alone; by default as of `Accept`"),
    ),
    responses(
        (status = 200, description = "The receipt, or its signed envelope", content(
            (Object = "application/json"), (Object = "application/vnd.dsse.envelope.v1+json"),
        )),
        (status = 409, description = "The call has not ended"),
    )
)]
pub(crate) async fn receipt(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<CallId>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Problem> {
    let who = caller.principal();
    let found = match wants_envelope(&headers, &uri)? {
        true => {
            let envelope = shared.engine.receipt_envelope(who, id).await?;
            envelope.map(|envelope| reply::of(StatusCode::OK, DSSE, envelope.into()))
        }
        false => shared.engine.receipt(who, id).await?.map(|receipt| reply::ok(&receipt)),
    };
    if let Some(response) = found {
        return Ok(response);
    }
    let call = shared.engine.get(who, id).await?.ok_or_else(Problem::not_found)?;
    let detail =
        format!("the call is {}; its receipt is available when it has ended", call.state.name());
    Err(Problem::new(&problem_codes::NOT_FINISHED, detail).retry_after(Duration::from_secs(1)))
}

/// Media type of a DSSE envelope. in-toto's `application/vnd.in-toto+json` is that of its payload.
const DSSE: HeaderValue = HeaderValue::from_static("application/vnd.dsse.envelope.v1+json");

/// Whether the client asks for the envelope: by the query, else by `Accept`.
fn wants_envelope(headers: &HeaderMap, uri: &Uri) -> Result<bool, Problem> {
    let mut query = Query::of(uri);
    let format = query.optional::<String>("format");
    if format.as_ref().is_some_and(|format| !matches!(format.as_str(), "dsse" | "json")) {
        query.fault("format", "must be `dsse` or `json`");
    }
    query.finish()?;
    let by_query = format.map(|format| format == "dsse");
    Ok(by_query.unwrap_or_else(|| body::accepts(headers, &DSSE)))
}
