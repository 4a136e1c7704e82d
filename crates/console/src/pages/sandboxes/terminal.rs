//! A terminal in the browser: a program with a terminal, and its bytes over a WebSocket.

use std::sync::Arc;

use axum::{
    extract::{
        Request, State,
        ws::{Message, WebSocket, WebSocketUpgrade, rejection::WebSocketUpgradeRejection},
    },
    response::Response,
};
use ringfence_edge::{
    Problem,
    identity::{self, May},
    path::{Named, NamedWithin},
    problem_codes,
    sse::StreamSlot,
};
use ringfence_engine::{
    Program,
    sandbox::{
        Chunk,
        session::{SessionId, Size},
    },
};
use serde::Deserialize;
use serde_json::json;

use super::{Waits, again, find, make, result};
use crate::{Shared, form, shell};

/// Bytes of a message, either way.
const MAX_MESSAGE: usize = 64 << 10;

/// Starts a shell with a terminal and shows it.
pub(crate) async fn open(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<SessionId>,
    request: Request,
) -> Result<Response, Problem> {
    form::read(&shared.edge, &caller, request).await?;
    find(&shared, &caller, &id)?;
    let args = json!({
        "sandbox": id.as_str(),
        "argv": ["/bin/sh", "-c", "if [ -x /bin/bash ]; then exec /bin/bash; else exec /bin/sh; fi"],
        "env": {"TERM": "xterm-256color"},
        "terminal": {"rows": 24, "columns": 80},
    });
    let mut ticket = make(&shared, &caller, Some(&id), "sandbox_exec", &args).await?;
    let call = ticket.started().await;
    let call = call
        .ok_or_else(|| Problem::new(&problem_codes::INTERNAL, "the call could not be recorded"))?;
    match (ticket.program(), result(&call)) {
        (Some(program), _) => {
            let (id, number) = (id.as_str(), program.process.id());
            Ok(shell::redirect(&format!("/console/sandboxes/{id}?terminal={number}#terminal")))
        }
        (None, Err(Waits::Failed(words))) => again(&shared, &caller, &id, words).await,
        (None, _) => Ok(shell::redirect(&format!("/console/calls/{}", call.asked.id))),
    }
}

/// Attaches to the terminal of a program. Binary messages are bytes; a text message is a new size.
pub(crate) async fn attach(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    NamedWithin(id, number): NamedWithin<SessionId, u32>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let program = find(&shared, &caller, &id)?.program(number).ok_or_else(Problem::not_found)?;
    let upgrade = upgrade.ok().filter(|_| program.has_terminal).ok_or_else(|| {
        Problem::new(&problem_codes::UPGRADE_REQUIRED, "this is reached by a WebSocket")
    })?;
    let slot = StreamSlot::take(&shared.edge, caller.known())?;
    let tasks = shared.edge.tasks().clone();
    let upgrade = upgrade.max_message_size(MAX_MESSAGE).max_frame_size(MAX_MESSAGE);
    Ok(upgrade.on_upgrade(move |socket| tasks.track_future(talk(shared, slot, program, socket))))
}

async fn talk(shared: Arc<Shared>, slot: StreamSlot, program: Program, mut socket: WebSocket) {
    let output = program.process.stdout().clone();
    let mut offset = 0;
    loop {
        tokio::select! {
            chunk = output.read(offset, MAX_MESSAGE) => {
                let message = match chunk {
                    Chunk::Data(bytes) => {
                        offset += bytes.len() as u64;
                        Message::Binary(bytes.into())
                    }
                    Chunk::Gap { resume, .. } => {
                        offset = resume;
                        continue;
                    }
                    Chunk::End => break,
                };
                if socket.send(message).await.is_err() {
                    return;
                }
            }
            message = socket.recv() => {
                let Some(Ok(message)) = message else { return };
                if !take(&program, message).await {
                    return;
                }
            }
            () = shared.edge.stopping().cancelled() => break,
            () = slot.key_ended() => break,
        }
    }
    // A browser that is gone needs no goodbye.
    let _ = socket.send(Message::Close(None)).await;
}

/// Size of a terminal, as the browser tells it.
#[derive(Deserialize)]
struct Resize {
    rows: u16,
    columns: u16,
}

/// Passes on what was typed, or the new size; whether to go on.
async fn take(program: &Program, message: Message) -> bool {
    match message {
        // The end of a program is told by its output.
        Message::Binary(bytes) => drop(program.process.write(&bytes).await),
        Message::Text(text) => {
            if let Ok(Resize { rows, columns }) = serde_json::from_str(text.as_str())
                && (1..=1_000).contains(&rows)
                && (1..=1_000).contains(&columns)
            {
                let _ = program.process.resize(Size { rows, columns });
            }
        }
        Message::Close(_) => return false,
        Message::Ping(_) | Message::Pong(_) => {}
    }
    true
}
