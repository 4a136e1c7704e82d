//! What a call's program wrote.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    response::Response,
};
use http::{HeaderName, HeaderValue, StatusCode, Uri};
use ringfence_edge::{
    Problem,
    identity::{self, May},
    query::Query,
    reply,
};
use ringfence_engine::{Bytes, OutputStream};
use ringfence_types::CallId;

use crate::shared::Shared;

/// Gives bytes of an output stream from an offset, at most a mebibyte; waits for more while the
/// program runs.
///
/// `Output-Offset` says where the bytes begin (later than asked for if the middle was not kept),
/// `Output-Next-Offset` where to go on, `Output-End` whether nothing follows.
#[utoipa::path(
    get, path = "/v1/calls/{id}/output/{stream}", tag = "calls",
    params(
        ("id" = String, Path, description = "The call"),
        ("stream" = String, Path, description = "`stdout` or `stderr`"),
        ("offset" = Option<u64>, Query, description = "Where to begin; 0 without"),
        ("wait" = Option<u64>, Query, description = "Seconds to wait for more; 30 without"),
    ),
    responses((status = 200, description = "Bytes", body = Vec<u8>, content_type = "application/octet-stream"))
)]
pub(crate) async fn output(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    path: Result<Path<(String, String)>, axum::extract::rejection::PathRejection>,
    uri: Uri,
) -> Result<Response, Problem> {
    let Path((id, stream)) = path.map_err(|_| Problem::not_found())?;
    let id: CallId = id.parse().map_err(|_| Problem::not_found())?;
    let stream = named(&stream).ok_or_else(Problem::not_found)?;
    let mut query = Query::of(&uri);
    let offset = query.optional::<u64>("offset").unwrap_or(0);
    let most = shared.edge.config().max_wait.as_secs();
    let wait = query.number("wait", 0, most).unwrap_or(shared.edge.config().default_wait.as_secs());
    query.finish()?;
    let reading = shared.engine.output(caller.principal(), id, stream, offset);
    let wait = std::time::Duration::from_secs(wait);
    match tokio::time::timeout(wait, reading).await {
        Ok(read) => {
            let bytes = read?;
            bytes.map(answer).ok_or_else(Problem::not_found)
        }
        Err(_) => nothing_yet(&shared, &caller, id, offset).await,
    }
}

fn named(stream: &str) -> Option<OutputStream> {
    match stream {
        "stdout" => Some(OutputStream::Stdout),
        "stderr" => Some(OutputStream::Stderr),
        _ => None,
    }
}

/// The wait is over. A foreign call is never waited for, but the answer must not depend on that.
async fn nothing_yet(
    shared: &Shared,
    caller: &identity::Caller,
    id: CallId,
    offset: u64,
) -> Result<Response, Problem> {
    let call = shared.engine.get(caller.principal(), id).await;
    call?.ok_or_else(Problem::not_found)?;
    Ok(answer(Bytes { offset, bytes: Vec::new(), next: offset, is_end: false }))
}

fn answer(bytes: Bytes) -> Response {
    let kind = HeaderValue::from_static("application/octet-stream");
    let mut response = reply::of(StatusCode::OK, kind, bytes.bytes.into());
    let headers = response.headers_mut();
    headers.insert(HeaderName::from_static("output-offset"), bytes.offset.into());
    headers.insert(HeaderName::from_static("output-next-offset"), bytes.next.into());
    let end = HeaderValue::from_static(if bytes.is_end { "true" } else { "false" });
    headers.insert(HeaderName::from_static("output-end"), end);
    response
}
