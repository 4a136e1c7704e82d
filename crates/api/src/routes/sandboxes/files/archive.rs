//! Archives of directories, in and out.

use std::{
    io::{self, Write},
    sync::Arc,
};

use axum::{
    body::Body,
    extract::{Request, State},
    response::Response,
};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, Uri, header};
use ringfence_engine::sandbox::{
    archive::{PackOptions, Packed},
    files::BoxPath,
    session::{Error, Session, SessionId},
};
use ringfence_types::{CallId, Digest};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use utoipa::ToSchema;

use super::{change_files, only_path, path};
use crate::{
    routes::sandboxes::{
        calls::{HeldView, with_call},
        find, why,
    },
    shared::Shared,
};
use ringfence_edge::{
    Problem, body,
    identity::{self, May},
    path::Named,
    problem_codes,
    query::Query,
    reply,
};

/// Result of an unpacking call.
#[derive(Serialize, Deserialize, ToSchema)]
pub(crate) struct Unpacked {
    files: u64,
    directories: u64,
    /// Bytes of all files together.
    bytes: u64,
    /// Notes about entries that were changed or skipped, the first hundred.
    notes: Vec<NoteView>,
}

/// Result of unpacking.
#[derive(Serialize, ToSchema)]
#[schema(as = Unpacked)]
pub(crate) struct UnpackedView {
    #[serde(flatten)]
    unpacked: Unpacked,
    /// The call that unpacked it.
    #[schema(value_type = String)]
    call_id: CallId,
}

/// Note about an entry that was changed or skipped.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = ArchiveNote)]
pub(crate) struct NoteView {
    entry: String,
    what: String,
}

/// Unpacks tar, tar.gz, tar.zst or zip into a directory, which is created if necessary.
///
/// The format is detected from the bytes. Only files and directories: a link, a device or a path
/// that leads out is refused with 409, and the entries before it stay.
#[utoipa::path(
    put, path = "/v1/sandboxes/{id}/files/archive", tag = "sandboxes",
    params(
        ("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$"),
        ("path" = Option<String>, Query, description = "Directory of the workspace; its top by default"),
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 200, description = "Unpacked", body = UnpackedView),
        (status = 202, description = "Held by policy", body = HeldView<'static>),
        (status = 409, description = "The archive was refused"),
    )
)]
pub(crate) async fn unpack(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<SessionId>,
    uri: Uri,
    request: Request,
) -> Result<Response, Problem> {
    find(&shared, caller.principal(), &id)?;
    let path = only_path(&uri)?;
    let taken = body::take(&shared.edge, request, shared.edge.config().max_upload).await?;
    let attached = json!({"digest": Digest::of(&taken.bytes), "bytes": taken.bytes.len()});
    let at = if path.is_root() { String::new() } else { path.to_string() };
    let change = json!({"unpack": at, "attached": attached});
    let asked = change_files(&shared, &id, &change).attach(taken.bytes.clone());
    let made = asked.call(&shared, &caller).await?;
    let mut result = match made.result()? {
        Ok(result) => result,
        Err(waits) => return Ok(waits),
    };
    let unpacked: Unpacked = serde_json::from_value(result["changes"][0].take())
        .map_err(|_| Problem::new(&problem_codes::INTERNAL, "the call has an unexpected result"))?;
    let view = UnpackedView { unpacked, call_id: made.id() };
    Ok(with_call(reply::ok(&view), made.id()))
}

/// Packs a directory or a file as tar.
///
/// The archive is packed while it is sent. One that cannot be finished is cut off, so that it is
/// not valid.
#[utoipa::path(
    get, path = "/v1/sandboxes/{id}/files/archive", tag = "sandboxes",
    params(
        ("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$"),
        ("path" = Option<String>, Query, description = "Path in the workspace; its top by default"),
        ("gzip" = Option<bool>, Query, description = "Whether to compress"),
    ),
    responses(
        (status = 200, description = "The archive",
            content((Vec<u8> = "application/x-tar"), (Vec<u8> = "application/gzip"))),
        (status = 409, description = "It cannot be packed"),
    )
)]
pub(crate) async fn pack(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<SessionId>,
    uri: Uri,
) -> Result<Response, Problem> {
    let session = find(&shared, caller.principal(), &id)?.session;
    let mut query = Query::of(&uri);
    let path = path(&mut query);
    let gzip = query.optional::<bool>("gzip").unwrap_or(false);
    query.finish()?;
    session.files().stat(&path).await.map_err(|error| why(&error))?;
    let room = shared.packing_out.clone().try_acquire_owned().map_err(|_| {
        Problem::new(&problem_codes::BUSY, "too many archives are being packed")
            .retry_after(std::time::Duration::from_secs(1))
    })?;
    let limit = shared.edge.config().max_wait;
    let mut pieces = begin(&shared, session, path, gzip, room);
    let first = match pieces.recv().await {
        Some(Ok(piece)) => piece,
        Some(Err(error)) => return Err(why(&error)),
        None => Bytes::new(),
    };
    Ok(answer(first, pieces, gzip, limit))
}

/// Chunks that wait to be sent, and bytes of one.
const MAX_WAITING_CHUNKS: usize = 4;
const CHUNK_BYTES: usize = 64 << 10;

type Chunk = Result<Bytes, Error>;

fn begin(
    shared: &Shared,
    session: Session,
    path: BoxPath,
    gzip: bool,
    room: OwnedSemaphorePermit,
) -> mpsc::Receiver<Chunk> {
    let (sender, pieces) = mpsc::channel(MAX_WAITING_CHUNKS);
    let writer = ChunkWriter { sender: sender.clone(), piece: Vec::with_capacity(CHUNK_BYTES) };
    let options = PackOptions { gzip, ..PackOptions::default() };
    shared.edge.tasks().spawn(async move {
        let _room = room;
        let packed = session.files().archive_out(&path, writer, options).await;
        let last = match packed {
            Ok((Packed { .. }, mut writer)) => Ok(std::mem::take(&mut writer.piece).into()),
            Err(error) => Err(error),
        };
        // The client may be gone.
        let _ = sender.send(last).await;
    });
    pieces
}

fn answer(
    first: Bytes,
    pieces: mpsc::Receiver<Chunk>,
    gzip: bool,
    limit: std::time::Duration,
) -> Response {
    let until = tokio::time::Instant::now() + limit;
    let rest = stream::unfold((Some(first), pieces), move |(first, mut pieces)| async move {
        if let Some(first) = first {
            return Some((Ok(first), (None, pieces)));
        }
        let piece = match tokio::time::timeout_at(until, pieces.recv()).await {
            Ok(piece) => piece?.map_err(io::Error::other),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        };
        Some((piece, (None, pieces)))
    });
    let mut response = Response::new(Body::from_stream(rest));
    let kind = if gzip { "application/gzip" } else { "application/x-tar" };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Writer that hands over chunks and waits while they are not taken. For blocking threads.
struct ChunkWriter {
    sender: mpsc::Sender<Chunk>,
    piece: Vec<u8>,
}

impl Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= CHUNK_BYTES {
            let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(CHUNK_BYTES));
            let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
            self.sender.blocking_send(Ok(piece.into())).map_err(gone)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
