//! Output of a program, by offset.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{Path, State, rejection::PathRejection},
    response::Response,
};
use http::{HeaderName, HeaderValue, StatusCode, Uri};
use ringfence_edge::{
    Problem,
    identity::{self, May},
    query::Query,
    reply,
};
use ringfence_engine::Program;
use ringfence_engine::sandbox::{Chunk, Output, session::SessionId};

use super::program;
use crate::{routes::sandboxes::Number, shared::Shared};

/// Maximum bytes of one answer.
const MAX_CHUNK: usize = 1 << 20;

/// Returns bytes of a program's output from an offset, at most 1 MiB; waits for more while it runs.
///
/// `Output-Offset` is the offset of the first byte (later than requested if bytes were dropped),
/// `Output-Next-Offset` the next offset to request, and `Output-End` whether the stream has ended.
#[utoipa::path(
    get, path = "/v1/sandboxes/{id}/exec/{exec}/output/{stream}", tag = "sandboxes",
    params(
        ("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$"),
        ("exec" = u32, Path, description = "The program"),
        ("stream" = String, Path, description = "`stdout` or `stderr`", pattern = "^(stdout|stderr)$"),
        ("offset" = Option<u64>, Query, description = "First byte; default 0"),
        ("wait" = Option<u64>, Query, description = "Seconds to wait for more; default 30", maximum = 300),
    ),
    responses((status = 200, description = "Bytes", body = Vec<u8>, content_type = "application/octet-stream"))
)]
pub(crate) async fn output(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    path: Result<Path<(String, String, String)>, PathRejection>,
    uri: Uri,
) -> Result<Response, Problem> {
    let Path((id, exec, stream)) = path.map_err(|_| Problem::not_found())?;
    let id: SessionId = id.parse().map_err(|_| Problem::not_found())?;
    let exec: Number = exec.parse().map_err(|_| Problem::not_found())?;
    let program = program(&shared, caller.principal(), &id, exec)?;
    let output = named(&program, &stream).ok_or_else(Problem::not_found)?;
    let mut query = Query::of(&uri);
    let offset = query.optional::<u64>("offset").unwrap_or(0);
    let most = shared.edge.config().max_wait.as_secs();
    let wait = query.number("wait", 0, most).unwrap_or(shared.edge.config().default_wait.as_secs());
    query.finish()?;
    Ok(after(Duration::from_secs(wait), output, offset).await)
}

pub(super) fn named<'a>(program: &'a Program, stream: &str) -> Option<&'a Output> {
    match stream {
        "stdout" => Some(program.process.stdout()),
        "stderr" => Some(program.process.stderr()),
        _ => None,
    }
}

async fn after(wait: Duration, output: &Output, offset: u64) -> Response {
    match tokio::time::timeout(wait, bytes(output, offset)).await {
        Ok((begin, bytes)) if bytes.is_empty() => answer(begin, bytes, true),
        Ok((begin, bytes)) => answer(begin, bytes, false),
        Err(_) => answer(offset, Vec::new(), false),
    }
}

/// The next bytes with their offset; empty at the end.
async fn bytes(output: &Output, mut offset: u64) -> (u64, Vec<u8>) {
    loop {
        match output.read(offset, MAX_CHUNK).await {
            Chunk::Data(bytes) => return (offset, bytes),
            Chunk::Gap { resume } => offset = resume,
            Chunk::End => return (offset, Vec::new()),
        }
    }
}

fn answer(offset: u64, bytes: Vec<u8>, is_end: bool) -> Response {
    let next = offset + bytes.len() as u64;
    let kind = HeaderValue::from_static("application/octet-stream");
    let mut response = reply::of(StatusCode::OK, kind, bytes.into());
    let headers = response.headers_mut();
    headers.insert(HeaderName::from_static("output-offset"), offset.into());
    headers.insert(HeaderName::from_static("output-next-offset"), next.into());
    let end = HeaderValue::from_static(if is_end { "true" } else { "false" });
    headers.insert(HeaderName::from_static("output-end"), end);
    response
}
