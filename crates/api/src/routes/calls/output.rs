//! Output of a call's program.

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
use ringfence_engine::{OutputChunk, OutputStream};
use ringfence_types::CallId;

use crate::shared::Shared;

/// Returns bytes of an output stream from an offset, at most 1 MiB; waits for more while the
/// program runs.
///
/// `Output-Offset` is the offset of the first byte (later than requested if bytes were dropped),
/// `Output-Next-Offset` the next offset to request, and `Output-End` whether the stream has ended.
#[utoipa::path(
    get, path = "/v1/calls/{id}/output/{stream}", tag = "calls",
    params(
        ("id" = String, Path, description = "The call"),
        ("stream" = String, Path, description = "`stdout` or `stderr`"),
        ("offset" = Option<u64>, Query, description = "First byte; default 0"),
        ("wait" = Option<u64>, Query, description = "Seconds to wait for more; default 30"),
    ),
    responses((status = 200, description = "OutputChunk", body = Vec<u8>, content_type = "application/octet-stream"))
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

/// Empty answer after the wait. A call of another tenant is answered after the same time as a
/// missing one.
async fn nothing_yet(
    shared: &Shared,
    caller: &identity::Caller,
    id: CallId,
    offset: u64,
) -> Result<Response, Problem> {
    let call = shared.engine.get(caller.principal(), id).await;
    call?.ok_or_else(Problem::not_found)?;
    Ok(answer(OutputChunk { offset, bytes: Vec::new(), next: offset, is_end: false }))
}

fn answer(bytes: OutputChunk) -> Response {
    let kind = HeaderValue::from_static("application/octet-stream");
    let mut response = reply::of(StatusCode::OK, kind, bytes.bytes.into());
    let headers = response.headers_mut();
    headers.insert(HeaderName::from_static("output-offset"), bytes.offset.into());
    headers.insert(HeaderName::from_static("output-next-offset"), bytes.next.into());
    let end = HeaderValue::from_static(if bytes.is_end { "true" } else { "false" });
    headers.insert(HeaderName::from_static("output-end"), end);
    response
}
