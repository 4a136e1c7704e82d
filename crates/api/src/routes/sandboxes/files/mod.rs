//! Files of a sandbox: reading, listing, writing, removing.

pub(crate) mod archive;
pub(crate) mod names;
pub(crate) mod watch;

use std::{fs::File, io::Read, sync::Arc};

use axum::{
    body::Body,
    extract::{Request, State},
    response::Response,
};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, Uri, header};
use ringfence_engine::sandbox::{
    files::{BoxPath, Entry, Kind, ListOptions},
    session::{Session, SessionId},
};
use ringfence_types::{CallId, Digest, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::{
    calls::{HeldView, Made, SandboxCall, with_call},
    find, why,
};
use crate::shared::Shared;
use ringfence_edge::{
    Problem, body as bodies,
    identity::{self, May},
    path::Named,
    query::Query,
    reply,
};

/// Entry of a workspace.
#[derive(Serialize, ToSchema)]
#[schema(as = FileEntry)]
pub(crate) struct EntryView {
    path: String,
    /// `file`, `directory`, `symlink`, `fifo`, `socket` or `device`.
    kind: &'static str,
    size: u64,
    /// Permission bits in octal, such as `644`.
    mode: String,
    #[schema(value_type = String, format = DateTime)]
    modified_at: Timestamp,
    /// The call that made it; only in the answer to that call.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    call_id: Option<CallId>,
}

/// Listing of a directory.
#[derive(Serialize, ToSchema)]
#[schema(as = FileList)]
pub(crate) struct ListView {
    entries: Vec<EntryView>,
    /// Whether the listing is complete.
    complete: bool,
}

/// Result of a change.
#[derive(Serialize, ToSchema)]
#[schema(as = FileChange)]
pub(crate) struct ChangeView {
    path: String,
    /// Bytes written, or entries removed.
    count: u64,
    /// The call that made the change.
    #[schema(value_type = String)]
    call_id: CallId,
}

/// Maximum entries of one listing, and maximum levels of directories.
const MAX_LISTED: u64 = 10_000;
const MAX_LEVELS: usize = 64;

/// The path of a query, or the top. Problems are reported there.
fn path(query: &mut Query) -> BoxPath {
    let text = query.optional::<String>("path");
    let path = text.map_or_else(|| Ok(BoxPath::root()), BoxPath::parse);
    path.unwrap_or_else(|error| {
        query.fault("path", error.to_string());
        BoxPath::root()
    })
}

/// The path of a query without other parameters.
fn only_path(uri: &Uri) -> Result<BoxPath, Problem> {
    let mut query = Query::of(uri);
    let path = path(&mut query);
    query.finish().map(|()| path)
}

fn listed(query: &mut Query) -> ListOptions {
    let recursive = query.optional::<bool>("recursive").unwrap_or(false);
    let most = query.number("limit", 1, MAX_LISTED).unwrap_or(MAX_LISTED);
    let max_depth = if recursive { MAX_LEVELS } else { 1 };
    ListOptions { recursive, max_entries: most as usize, max_depth }
}

/// Reads a file, or lists a directory.
#[utoipa::path(
    get, path = "/v1/sandboxes/{id}/files", tag = "sandboxes",
    params(
        ("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$"),
        ("path" = Option<String>, Query, description = "Path in the workspace; its top by default"),
        ("recursive" = Option<bool>, Query, description = "Whether directories below are listed as well"),
        ("limit" = Option<u64>, Query, description = "Maximum entries of a listing; default 10000", minimum = 1, maximum = 10000),
    ),
    responses(
        (status = 200, description = "Content of a file, or entries of a directory",
            content((ListView = "application/json"), (Vec<u8> = "application/octet-stream"))),
        (status = 409, description = "It is neither a file nor a directory"),
    )
)]
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<SessionId>,
    uri: Uri,
) -> Result<Response, Problem> {
    let session = find(&shared, caller.principal(), &id)?.session;
    let mut query = Query::of(&uri);
    let (path, options) = (path(&mut query), listed(&mut query));
    query.finish()?;
    let is_directory = path.is_root() || is_directory(&session, &path).await?;
    if is_directory {
        let listing = session.files().list(&path, options).await.map_err(|error| why(&error))?;
        let entries = listing.entries.iter().map(entry).collect();
        return Ok(reply::ok(&ListView { entries, complete: listing.is_complete() }));
    }
    let artifact = session.files().get(&path).await.map_err(|error| why(&error))?;
    Ok(stream_file(artifact.file, artifact.size))
}

async fn is_directory(session: &Session, path: &BoxPath) -> Result<bool, Problem> {
    let entry = session.files().stat(path).await.map_err(|error| why(&error))?;
    Ok(entry.kind == Kind::Directory)
}

fn entry(entry: &Entry) -> EntryView {
    EntryView {
        path: entry.path.to_string(),
        kind: kind(entry.kind),
        size: entry.size,
        mode: format!("{:03o}", entry.mode & 0o7777),
        modified_at: Timestamp::from_micros(entry.modified_secs.saturating_mul(1_000_000)),
        call_id: None,
    }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "symlink",
        Kind::Fifo => "fifo",
        Kind::Socket => "socket",
        Kind::Device => "device",
        Kind::Unknown => "unknown",
    }
}

/// Bytes per read.
const READ_BYTES: usize = 256 << 10;

/// A file as a stream, at the pace of its reader.
fn stream_file(file: File, size: u64) -> Response {
    let pieces = stream::unfold(file.take(size), |mut file| async move {
        let read = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; READ_BYTES];
            let length = file.read(&mut piece);
            (file, length.map(|length| Bytes::from(piece).slice(..length)))
        });
        let (file, piece) = read.await.ok()?;
        match piece {
            Ok(piece) if piece.is_empty() => None,
            piece => Some((piece, file)),
        }
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Permission bits: three octal digits, without set-user-id and the like.
fn mode(query: &mut Query) -> u32 {
    let Some(text) = query.optional::<String>("mode") else { return 0o644 };
    let is_octal = text.len() == 3 && text.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    if !is_octal {
        query.fault("mode", "must be three octal digits");
        return 0o644;
    }
    u32::from_str_radix(&text, 8).unwrap_or(0o644)
}

/// Writes a file atomically and creates its directories.
#[utoipa::path(
    put, path = "/v1/sandboxes/{id}/files", tag = "sandboxes",
    params(
        ("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$"),
        ("path" = String, Query, description = "Path in the workspace"),
        ("mode" = Option<String>, Query, description = "Permission bits in octal; default 644", pattern = "^[0-7]{3}$"),
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 200, description = "Written", body = ChangeView),
        (status = 202, description = "Held by policy", body = HeldView<'static>),
        (status = 409, description = "It cannot be written"),
    )
)]
pub(crate) async fn write(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<SessionId>,
    uri: Uri,
    request: Request,
) -> Result<Response, Problem> {
    find(&shared, caller.principal(), &id)?;
    let mut query = Query::of(&uri);
    let (path, mode) = (path(&mut query), mode(&mut query));
    query.finish()?;
    let taken = bodies::take(&shared.edge, request, shared.edge.config().max_upload).await?;
    let attached = json!({"digest": Digest::of(&taken.bytes), "bytes": taken.bytes.len()});
    let mode = format!("{mode:03o}");
    let change = json!({"write": path.to_string(), "mode": mode, "attached": attached});
    let asked = change_files(&shared, &id, &change).attach(taken.bytes.clone());
    changed(&asked.call(&shared, &caller).await?)
}

/// A call with one change.
fn change_files(shared: &Shared, id: &SessionId, change: &Value) -> SandboxCall {
    let args = json!({"sandbox": id.as_str(), "changes": [change]});
    SandboxCall::new(shared, "sandbox_files", &args)
}

/// The answer to a change.
fn changed(made: &Made) -> Result<Response, Problem> {
    let result = match made.result()? {
        Ok(result) => result,
        Err(waits) => return Ok(waits),
    };
    let change = &result["changes"][0];
    let view = ChangeView {
        path: change["path"].as_str().unwrap_or_default().to_owned(),
        count: change["count"].as_u64().unwrap_or_default(),
        call_id: made.id(),
    };
    Ok(with_call(reply::ok(&view), made.id()))
}

/// Removes a file, or a directory with its content.
#[utoipa::path(
    delete, path = "/v1/sandboxes/{id}/files", tag = "sandboxes",
    params(
        ("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$"),
        ("path" = String, Query, description = "Path in the workspace"),
    ),
    responses(
        (status = 200, description = "Removed", body = ChangeView),
        (status = 202, description = "Held by policy", body = HeldView<'static>),
        (status = 409, description = "It cannot be removed"),
    )
)]
pub(crate) async fn remove(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<SessionId>,
    uri: Uri,
) -> Result<Response, Problem> {
    find(&shared, caller.principal(), &id)?;
    let path = only_path(&uri)?;
    let asked = change_files(&shared, &id, &json!({"remove": path.to_string()}));
    changed(&asked.call(&shared, &caller).await?)
}
