//! Whole directories as archives, in and out.

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

/// What was unpacked, as the call tells it.
#[derive(Serialize, Deserialize, ToSchema)]
pub(crate) struct Unpacked {
    files: u64,
    directories: u64,
    /// Bytes of all files together.
    bytes: u64,
    /// What was not taken as it is, the first hundred.
    notes: Vec<NoteView>,
}

/// What was unpacked.
#[derive(Serialize, ToSchema)]
#[schema(as = Unpacked)]
pub(crate) struct UnpackedView {
    #[serde(flatten)]
    unpacked: Unpacked,
    /// The call that unpacked it.
    #[schema(value_type = String)]
    call_id: CallId,
}

/// Something about an entry that was not taken as it is.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = ArchiveNote)]
pub(crate) struct NoteView {
    entry: String,
    what: String,
}

/// Unpacks tar, tar.gz, tar.zst or zip into a directory, which is made if need be.
///
/// What the bytes are is told by themselves. Files and directories only: links, devices and names
/// that lead out are refused with 409 at the first such entry, and what came before it stays.
#[utoipa::path(
    put, path = "/v1/sandboxes/{id}/files/archive", tag = "sandboxes",
    params(
        ("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$"),
        ("path" = Option<String>, Query, description = "A directory of the workspace; its top without"),
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 200, description = "What was unpacked", body = UnpackedView),
        (status = 202, description = "Policy holds it", body = HeldView<'static>),
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
        .map_err(|_| Problem::new(&problem_codes::INTERNAL, "the call has another result"))?;
    let view = UnpackedView { unpacked, call_id: made.id() };
    Ok(with_call(reply::ok(&view), made.id()))
}

/// Packs a directory or a file as tar.
///
/// The archive is written while it is sent. One that cannot be finished is cut off: an answer
/// without its end is no archive.
#[utoipa::path(
    get, path = "/v1/sandboxes/{id}/files/archive", tag = "sandboxes",
    params(
        ("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$"),
        ("path" = Option<String>, Query, description = "Within the workspace; its top without"),
        ("gzip" = Option<bool>, Query, description = "Whether it is compressed"),
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

/// Pieces that wait to be sent, and bytes of one.
const WAITING: usize = 4;
const PIECE: usize = 64 << 10;

type Piece = Result<Bytes, Error>;

fn begin(
    shared: &Shared,
    session: Session,
    path: BoxPath,
    gzip: bool,
    room: OwnedSemaphorePermit,
) -> mpsc::Receiver<Piece> {
    let (sender, pieces) = mpsc::channel(WAITING);
    let writer = Pieces { sender: sender.clone(), piece: Vec::with_capacity(PIECE) };
    let options = PackOptions { gzip, ..PackOptions::default() };
    shared.edge.tasks().spawn(async move {
        let _room = room;
        let packed = session.files().archive_out(&path, writer, options).await;
        let last = match packed {
            Ok((Packed { .. }, mut writer)) => Ok(std::mem::take(&mut writer.piece).into()),
            Err(error) => Err(error),
        };
        // A client that left has no use for it.
        let _ = sender.send(last).await;
    });
    pieces
}

fn answer(
    first: Bytes,
    pieces: mpsc::Receiver<Piece>,
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

/// Hands bytes over piece by piece, and waits while nobody takes them. Used on blocking threads.
struct Pieces {
    sender: mpsc::Sender<Piece>,
    piece: Vec<u8>,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE {
            let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE));
            let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
            self.sender.blocking_send(Ok(piece.into())).map_err(gone)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
