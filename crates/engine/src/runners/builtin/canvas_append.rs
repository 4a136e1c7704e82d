//! `canvas_append`: adds to a session's canvas. The event is recorded with the call's own end, so
//! that it is there exactly once.

use ringfence_policy::{Action, Permit};
use ringfence_store::SessionEvent;
use ringfence_types::{CallError, ErrorCode, Json, PersonaId, SessionId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Builtin, InlineResult, Job, Starting, UsedSandbox, error, object, produced};
use crate::{
    record::Ended,
    runners::work::{Started, ended, without_program},
};

pub(super) const TOOL: Builtin = Builtin {
    name: "canvas_append",
    description: "Adds content to a pane of a session's canvas.",
    flags: &["none"],
    input: || {
        json!({
            "type": "object",
            "properties": {
                "session_id": {"type": "string", "minLength": 1, "maxLength": 128},
                "content": {},
                "pane": {"type": "string", "default": "default", "maxLength": 128},
                "metadata": {"type": "object"},
                "persona_id": {"type": ["string", "null"]},
            },
            "required": ["session_id", "content"],
        })
    },
    output: || {
        let texts = json!({"status": {"type": "string"}, "pane": {"type": "string"}});
        object(&["status", "pane"], texts)
    },
    argument_errors: &[
        ("session_id", "'session_id' is required"),
        ("content", "'content' is required"),
    ],
    sandbox: UsedSandbox::None,
    queued: true,
    repeatable: false,
    action: || Action::ToolExecute,
    start,
};

fn start(_permit: Permit, job: Job<'_>) -> Starting<'_> {
    Box::pin(async move { append(&job) })
}

fn append(job: &Job<'_>) -> Started {
    let (given, event) = run(job, job.started_at);
    let mut end = without_program(produced(job.entry, given), job.started_at, job.took());
    if let Ended::Finished { session_events, finished, .. } = &mut end
        && finished.is_success()
    {
        session_events.extend(event);
    }
    ended(end)
}

/// Maximum bytes of one addition to a canvas: a canvas shows a hundred of them at once.
pub const CANVAS_BYTES: usize = 256 << 10;

/// Arguments of the tool. Content keeps its JSON text, digit by digit.
#[derive(Deserialize)]
struct CanvasArgs {
    session_id: String,
    content: Json,
    pane: Option<String>,
    persona_id: Option<String>,
    metadata: Option<Json>,
}

/// Payload of the session event.
#[derive(Serialize)]
struct Payload<'a> {
    content: &'a Json,
    metadata: Option<&'a Json>,
    pane: &'a str,
    persona_id: Option<PersonaId>,
    #[serde(rename = "type")]
    kind: &'static str,
}

fn run(job: &Job<'_>, at: Timestamp) -> (InlineResult, Option<SessionEvent>) {
    match appended(job, at) {
        Ok((pane, event)) => (Ok(json!({"status": "queued", "pane": pane})), Some(event)),
        Err(error) => (Err(error), None),
    }
}

fn appended(job: &Job<'_>, at: Timestamp) -> Result<(String, SessionEvent), CallError> {
    let asked: CanvasArgs =
        job.args().read().map_err(|problem| error(ErrorCode::ContentInvalid, &problem))?;
    let session: SessionId =
        asked.session_id.parse().map_err(|invalid| error(ErrorCode::SessionInvalid, &invalid))?;
    let persona_id = persona(job, asked.persona_id.as_deref())?;
    let pane = asked.pane.unwrap_or_else(|| "default".to_owned());
    let payload = Payload {
        content: &asked.content,
        metadata: asked.metadata.as_ref(),
        pane: &pane,
        persona_id,
        kind: "canvas",
    };
    let payload =
        Json::of(&payload).map_err(|problem| error(ErrorCode::ContentInvalid, &problem))?;
    if payload.as_str().len() > CANVAS_BYTES {
        let message = format!("content and metadata may have {CANVAS_BYTES} bytes");
        return Err(error(ErrorCode::ContentTooLarge, &message));
    }
    let tenant = job.asked().tenant.clone();
    let event = SessionEvent { tenant, session, at, kind: "canvas".to_owned(), payload };
    Ok((pane, event))
}

/// The persona of the event; a key bound to one persona uses no other.
fn persona(job: &Job<'_>, named: Option<&str>) -> Result<Option<PersonaId>, CallError> {
    let Some(named) = named else { return Ok(None) };
    let named: PersonaId =
        named.parse().map_err(|invalid| error(ErrorCode::PersonaInvalid, &invalid))?;
    match &job.asked().persona {
        Some(own) if *own != named => {
            let message = format!("the call is made for persona `{own}`, not `{named}`");
            Err(error(ErrorCode::PersonaForeign, &message))
        }
        _ => Ok(Some(named)),
    }
}
