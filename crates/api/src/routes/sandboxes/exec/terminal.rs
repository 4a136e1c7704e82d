//! Terminal of a program over a WebSocket.
//!
//! Binary messages are bytes, typed or shown. Text messages are JSON: `{"resize": {"rows": 24,
//! "columns": 80}}` from the client; `{"gap": …}`, and last `{"exit": …}` or `{"lost": …}`, from
//! the server. A client that reconnects names the offset it has received; the program does not
//! notice.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{
        State,
        ws::{
            CloseFrame, Message, WebSocket, WebSocketUpgrade, rejection::WebSocketUpgradeRejection,
        },
    },
    response::Response,
};
use futures_util::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use http::{HeaderValue, Uri, header};
use ringfence_edge::{
    Problem,
    fields::Fields,
    identity::{self, May},
    path::NamedWithin,
    problem::parse,
    problem_codes,
    query::Query,
    sse::StreamSlot,
};
use ringfence_engine::Program;
use ringfence_engine::sandbox::{Chunk, session::SessionId};
use ringfence_types::Json;
use serde_json::json;

use super::{body::size, program, view::EndView};
use crate::{routes::sandboxes::Number, shared::Shared};

/// Maximum bytes of a message, in both directions.
const MAX_MESSAGE_BYTES: usize = 64 << 10;
/// Maximum bytes that wait to be sent; a client that takes none of them is disconnected.
const MAX_WAITING_BYTES: usize = 1 << 20;

/// Attaches to the terminal of a program over a WebSocket.
///
/// Binary messages are typed and shown bytes. The text message `{"resize": {"rows": 24, "columns":
/// 80}}` changes the size. The last message is text: `{"exit": …}`, or `{"lost": …}` if the sandbox
/// ended first.
#[utoipa::path(
    get, path = "/v1/sandboxes/{id}/exec/{exec}/terminal", tag = "sandboxes",
    params(
        ("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$"),
        ("exec" = u32, Path, description = "The program"),
        ("offset" = Option<u64>, Query, description = "First byte of the output to show; default 0"),
    ),
    responses(
        (status = 101, description = "Messages follow"),
        (status = 409, description = "It has no terminal"),
        (status = 426, description = "WebSocket required"),
    )
)]
pub(crate) async fn terminal(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    NamedWithin(id, exec): NamedWithin<SessionId, Number>,
    uri: Uri,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let program = program(&shared, caller.principal(), &id, exec)?;
    let mut query = Query::of(&uri);
    let offset = query.optional::<u64>("offset").unwrap_or(0);
    query.finish()?;
    if !program.has_terminal {
        let detail = "the program was started without a terminal";
        return Err(
            Problem::new(&problem_codes::SANDBOX_REFUSED, detail).with("reason", "no_terminal")
        );
    }
    let upgrade = upgrade.map_err(|_| not_asked_for())?;
    let slot = StreamSlot::take(&shared.edge, caller.known())?;
    let upgrade = upgrade
        .max_message_size(MAX_MESSAGE_BYTES)
        .max_frame_size(MAX_MESSAGE_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(MAX_WAITING_BYTES);
    let tasks = shared.edge.tasks().clone();
    Ok(upgrade
        .on_upgrade(move |socket| tasks.track_future(talk(shared, slot, program, offset, socket))))
}

fn not_asked_for() -> Problem {
    Problem::new(&problem_codes::UPGRADE_REQUIRED, "this endpoint needs a WebSocket request")
        .header(header::UPGRADE, HeaderValue::from_static("websocket"))
        .header(header::CONNECTION, HeaderValue::from_static("upgrade"))
}

/// Both directions at once: a program that does not read must not block its own output.
async fn talk(
    shared: Arc<Shared>,
    slot: StreamSlot,
    program: Program,
    offset: u64,
    socket: WebSocket,
) {
    let heartbeat = shared.edge.config().heartbeat;
    let (mut sender, receiver) = socket.split();
    let closing = tokio::select! {
        closing = show(&mut sender, &program, offset, heartbeat) => closing,
        closing = listen(receiver, &program, heartbeat) => closing,
        () = shared.edge.stopping().cancelled() => Some((1001, "the server is shutting down".to_owned())),
        () = slot.key_ended() => Some((1008, "the key was revoked or has expired".to_owned())),
    };
    if let Some((code, reason)) = closing {
        let frame = CloseFrame { code, reason: reason.into() };
        // The client may be gone.
        let _ = tokio::time::timeout(heartbeat, sender.send(Message::Close(Some(frame)))).await;
    }
}

/// Close code and reason; `None` if the client is gone.
type Closing = Option<(u16, String)>;

/// Sends the program's output, until its end.
async fn show(
    sender: &mut SplitSink<WebSocket, Message>,
    program: &Program,
    mut offset: u64,
    heartbeat: Duration,
) -> Closing {
    let output = program.process.stdout();
    loop {
        let chunk = tokio::select! {
            chunk = output.read(offset, MAX_MESSAGE_BYTES) => chunk,
            () = tokio::time::sleep(heartbeat) => {
                sender.send(Message::Ping(bytes::Bytes::new())).await.ok()?;
                continue;
            }
        };
        let message = match chunk {
            Chunk::Data(bytes) => {
                offset += bytes.len() as u64;
                Message::Binary(bytes.into())
            }
            Chunk::Gap { resume } => {
                let gap = json!({"gap": {"offset": offset, "resume": resume}});
                offset = resume;
                Message::Text(gap.to_string().into())
            }
            Chunk::End => {
                sender.send(Message::Text(ending(program).await.into())).await.ok()?;
                return Some((1000, "the program has ended".to_owned()));
            }
        };
        sender.send(message).await.ok()?;
    }
}

async fn ending(program: &Program) -> String {
    match program.process.wait().await {
        Ok(end) => json!({"exit": EndView::from(end)}),
        Err(error) => json!({"lost": {"code": error.code(), "detail": error.to_string()}}),
    }
    .to_string()
}

/// Reads the client's input, until it is gone or does not answer pings.
async fn listen(
    mut receiver: SplitStream<WebSocket>,
    program: &Program,
    heartbeat: Duration,
) -> Closing {
    let pong_timeout = heartbeat * 4;
    loop {
        let message = tokio::time::timeout(pong_timeout, receiver.next()).await.ok()??.ok()?;
        let done = match message {
            Message::Binary(bytes) => {
                program.process.write(&bytes).await.map_err(|error| (1011, error.to_string()))
            }
            Message::Text(text) => resize(program, text.as_str()).map_err(|what| (1008, what)),
            Message::Close(_) => return None,
            Message::Ping(_) | Message::Pong(_) => Ok(()),
        };
        match done {
            Ok(()) => {}
            // The other direction reports the end, after the last output.
            Err(_) if program.process.try_wait().is_some() => std::future::pending::<()>().await,
            Err((code, reason)) => return Some((code, reason)),
        }
    }
}

/// Handles a text message: a resize.
fn resize(program: &Program, text: &str) -> Result<(), String> {
    let asked = parse(text.as_bytes()).and_then(|json: Json| {
        let mut fields = Fields::of(&json)?;
        let asked = fields.inner("resize", size).flatten();
        fields.finish(asked)
    });
    let asked = asked.map_err(|_| "text messages are {\"resize\": {\"rows\", \"columns\"}}")?;
    program.process.resize(asked).map_err(|error| error.to_string())
}
