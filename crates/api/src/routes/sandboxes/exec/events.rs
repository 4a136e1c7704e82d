//! Events of a running program: its output and its end.

use std::{fmt, str::FromStr, sync::Arc};

use axum::{extract::State, response::Response};
use bytes::Bytes;
use http::{HeaderMap, Uri};
use ringfence_edge::{
    Problem,
    identity::{self, May},
    path::NamedWithin,
    problem_codes,
    query::Query,
    reply,
    sse::{self, Source, StreamSlot},
};
use ringfence_engine::Program;
use ringfence_engine::sandbox::{Chunk, Output, session::SessionId};
use serde::Serialize;

use super::{program, view::EndView};
use crate::{base64, routes::sandboxes::Number, shared::Shared};

/// Streams the output of a program from the beginning or after `Last-Event-ID`, and its end.
///
/// `stdout` and `stderr` carry `offset`, `bytes` and the content as `text`, or as `base64` if it is
/// not text. `gap` names the range that was dropped because the reader was slow. `exit` is the last
/// event, or `lost` if the sandbox ended first. If no event can follow, the answer is 204.
#[utoipa::path(
    get, path = "/v1/sandboxes/{id}/exec/{exec}/events", tag = "sandboxes",
    params(
        ("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$"),
        ("exec" = u32, Path, description = "The program"),
        ("after" = Option<String>, Query, description = "As `Last-Event-ID`"),
        ("Last-Event-ID" = Option<String>, Header, description = "Id of the last event received"),
    ),
    responses(
        (status = 200, description = "Events", body = String, content_type = "text/event-stream"),
        (status = 204, description = "No more events"),
    )
)]
pub(crate) async fn events(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    NamedWithin(id, exec): NamedWithin<SessionId, Number>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Problem> {
    let program = program(&shared, caller.principal(), &id, exec)?;
    let after = after(&headers, &uri)?;
    if after == Progress::All {
        return Ok(reply::nothing());
    }
    let place = StreamSlot::take(&shared.edge, caller.known())?;
    Ok(sse::respond(Follow { program, seen: after }, place))
}

/// Progress of a client: offsets of both streams, or the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    UpTo { stdout: u64, stderr: u64 },
    All,
}

const BEGINNING: Progress = Progress::UpTo { stdout: 0, stderr: 0 };

/// A text that is not an id of these events.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be an id of ours, such as 120-0")]
struct Unknown;

impl FromStr for Progress {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        if text == "end" {
            return Ok(Self::All);
        }
        let (stdout, stderr) = text.split_once('-').ok_or(Unknown)?;
        let number = |text: &str| text.parse().map_err(|_| Unknown);
        Ok(Self::UpTo { stdout: number(stdout)?, stderr: number(stderr)? })
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UpTo { stdout, stderr } => write!(f, "{stdout}-{stderr}"),
            Self::All => f.write_str("end"),
        }
    }
}

fn after(headers: &HeaderMap, uri: &Uri) -> Result<Progress, Problem> {
    let mut query = Query::of(uri);
    let by_query = query.optional::<Progress>("after");
    query.finish()?;
    let value = headers.get("last-event-id").map(|value| value.to_str().unwrap_or("?"));
    match value.filter(|text| !text.is_empty()) {
        None => Ok(by_query.unwrap_or(BEGINNING)),
        Some(text) => text.parse().map_err(|error: Unknown| {
            Problem::new(&problem_codes::HEADER_INVALID, format!("`Last-Event-ID` {error}"))
        }),
    }
}

struct Follow {
    program: Program,
    seen: Progress,
}

/// Maximum bytes of one event.
const MAX_EVENT_BYTES: usize = 64 << 10;

impl Source for Follow {
    async fn next(&mut self) -> Option<Bytes> {
        let Progress::UpTo { stdout, stderr } = self.seen else { return None };
        let process = &self.program.process;
        // The output is closed when the program ends: the end of both streams is its end.
        let (stream, next) = tokio::select! {
            next = more(process.stdout(), stdout) => ("stdout", next),
            next = more(process.stderr(), stderr) => ("stderr", next),
            () = both_end((process.stdout(), stdout), (process.stderr(), stderr)) => {
                return Some(self.end().await);
            }
        };
        Some(self.tell(stream, next))
    }
}

/// NextOutput part of a stream.
enum NextOutput {
    Data(Vec<u8>),
    Gap { resume: u64 },
}

/// The next output; pending for ever at the end.
async fn more(output: &Output, at: u64) -> NextOutput {
    match output.read(at, MAX_EVENT_BYTES).await {
        Chunk::Data(bytes) => NextOutput::Data(bytes),
        Chunk::Gap { resume } => NextOutput::Gap { resume },
        Chunk::End => std::future::pending().await,
    }
}

async fn both_end(stdout: (&Output, u64), stderr: (&Output, u64)) {
    for (output, at) in [stdout, stderr] {
        if output.read(at, 1).await != Chunk::End {
            std::future::pending::<()>().await;
        }
    }
}

/// Bytes of a stream, as text if they are valid UTF-8.
#[derive(Serialize)]
struct OutputEvent<'a> {
    offset: u64,
    bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

#[derive(Serialize)]
struct Gap {
    stream: &'static str,
    offset: u64,
    resume: u64,
}

impl Follow {
    fn tell(&mut self, stream: &'static str, next: NextOutput) -> Bytes {
        match next {
            NextOutput::Data(bytes) => {
                let whole = whole_characters(&bytes);
                let offset = self.advance(stream, |at| at + whole.len() as u64);
                let text = std::str::from_utf8(whole).ok();
                let base64 = text.is_none().then(|| base64::encode(whole));
                self.event(stream, &OutputEvent { offset, bytes: whole.len(), text, base64 })
            }
            NextOutput::Gap { resume } => {
                let offset = self.advance(stream, |_| resume);
                self.event("gap", &Gap { stream, offset, resume })
            }
        }
    }

    /// Advances in a stream, and returns the previous offset.
    fn advance(&mut self, stream: &str, to: impl FnOnce(u64) -> u64) -> u64 {
        let Progress::UpTo { stdout, stderr } = &mut self.seen else { return 0 };
        let at = if stream == "stdout" { stdout } else { stderr };
        let before = *at;
        *at = to(before);
        before
    }

    async fn end(&mut self) -> Bytes {
        let ended = self.program.process.wait().await;
        self.seen = Progress::All;
        match ended {
            Ok(end) => self.event("exit", &EndView::from(end)),
            Err(error) => {
                let reason = serde_json::json!({"code": error.code(), "detail": error.to_string()});
                self.event("lost", &reason)
            }
        }
    }

    fn event(&self, kind: &str, data: &impl Serialize) -> Bytes {
        sse::event(Some(&self.seen.to_string()), kind, data)
    }
}

/// The bytes without an incomplete character at the end, unless that is all: its rest comes with
/// the next event.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => {
            &bytes[..error.valid_up_to()]
        }
        _ => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_survive_their_text_and_nothing_else_is_one() {
        for seen in [BEGINNING, Progress::UpTo { stdout: u64::MAX, stderr: 7 }, Progress::All] {
            assert_eq!(seen.to_string().parse(), Ok(seen));
        }
        for text in ["", "1", "1-", "-1", "1-2-3", "a-b", "99999999999999999999-0", "END"] {
            assert_eq!(text.parse::<Progress>(), Err(Unknown), "{text}");
        }
    }

    #[test]
    fn characters_are_not_cut() {
        assert_eq!(whole_characters("aé".as_bytes()), "aé".as_bytes());
        assert_eq!(whole_characters(&"aé".as_bytes()[..2]), b"a");
        assert_eq!(whole_characters(&"é".as_bytes()[..1]), &"é".as_bytes()[..1]);
        assert_eq!(whole_characters(b"\xffabc"), b"\xffabc");
    }
}
