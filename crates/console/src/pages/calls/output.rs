//! Output of a call: its end on the page, and all of it as a file.

use std::{sync::Arc, time::Duration};

use axum::{extract::State, response::Response};
use ringfence_edge::{
    Problem,
    identity::{self, May},
    path::NamedWithin,
};
use ringfence_engine::OutputStream;
use ringfence_types::{Call, CallId, Principal, Stream};

use super::{download, finished};
use crate::{
    Shared,
    html::{self, Html},
};

/// Bytes of an output that a page shows: its end.
const MAX_OUTPUT: u64 = 48 << 10;

/// Output of a program, as far as it is shown.
#[derive(Debug)]
pub(super) struct OutputView {
    pub(super) name: &'static str,
    pub(super) length: String,
    pub(super) text: Html,
    /// Words about what is left out.
    pub(super) note: String,
    pub(super) is_empty: bool,
}

/// Wait for more output of a call that runs: short, so that the page is shown at once.
const OUTPUT_TIMEOUT: Duration = Duration::from_millis(50);

pub(super) async fn output_view(
    shared: &Shared,
    who: &Principal,
    call: &Call,
    name: &'static str,
    stream: OutputStream,
) -> Result<OutputView, Problem> {
    let kept = finished(call).map(|finished| match stream {
        OutputStream::Stdout => finished.stdout.clone(),
        OutputStream::Stderr => finished.stderr.clone(),
    });
    let from = kept.as_ref().map_or(0, |kept| kept.length.saturating_sub(MAX_OUTPUT));
    let (bytes, skipped) = tail(shared, who, call.asked.id, stream, from).await?;
    let length = kept.as_ref().map_or(skipped + bytes.len() as u64, |kept| kept.length);
    let note = note(kept.as_ref(), skipped);
    Ok(OutputView {
        name,
        length: html::bytes(length),
        text: html::output(&bytes),
        note,
        is_empty: bytes.is_empty(),
    })
}

/// The end of an output, and the number of bytes before it.
async fn tail(
    shared: &Shared,
    who: &Principal,
    id: CallId,
    stream: OutputStream,
    from: u64,
) -> Result<(Vec<u8>, u64), Problem> {
    let (mut bytes, mut offset) = (Vec::new(), from);
    loop {
        let reading = shared.engine.output(who, id, stream, offset);
        let piece = match tokio::time::timeout(OUTPUT_TIMEOUT, reading).await {
            Ok(piece) => piece?,
            Err(_) => None,
        };
        let Some(piece) = piece else { break };
        offset = piece.next;
        bytes.extend(piece.bytes);
        if bytes.len() as u64 > MAX_OUTPUT {
            bytes.drain(..bytes.len() - MAX_OUTPUT as usize);
        }
        if piece.is_end {
            break;
        }
    }
    let skipped = offset.saturating_sub(bytes.len() as u64);
    Ok((bytes, skipped))
}

fn note(kept: Option<&Stream>, skipped: u64) -> String {
    let dropped = kept.and_then(|kept| kept.truncated).map(|gap| gap.dropped);
    match (dropped, skipped) {
        (Some(dropped), _) => format!("The middle was not kept: {}.", html::bytes(dropped)),
        (None, 0) => String::new(),
        (None, skipped) => {
            format!("The first {} are not shown; download for all.", html::bytes(skipped))
        }
    }
}

/// Sends an output as a file: a browser neither shows nor runs it.
pub(crate) async fn output(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    NamedWithin(id, name): NamedWithin<CallId, String>,
) -> Result<Response, Problem> {
    let stream = match name.as_str() {
        "stdout" => OutputStream::Stdout,
        "stderr" => OutputStream::Stderr,
        _ => return Err(Problem::not_found()),
    };
    let who = caller.principal();
    let call = shared.engine.get(who, id).await?.ok_or_else(Problem::not_found)?;
    let (mut bytes, mut offset) = (Vec::new(), 0);
    while call.state.is_final() {
        let Some(piece) = shared.engine.output(who, id, stream, offset).await? else { break };
        offset = piece.next;
        bytes.extend(piece.bytes);
        if piece.is_end {
            break;
        }
    }
    Ok(download(bytes, "application/octet-stream", &format!("{id}.{name}.txt")))
}
