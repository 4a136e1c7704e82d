//! `canvas_append`: adds to a session's canvas. The event is recorded with the call's own end, so
//! that it is there exactly once.

use ringfence_store::SessionEvent;
use ringfence_types::{CallError, ErrorCode, Json, PersonaId, SessionId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Given, error};
use crate::active_call::ActiveCall;

/// Most bytes of what is put on a canvas at one time: a canvas is shown a hundred of them at once.
pub const CANVAS_BYTES: usize = 256 << 10;

/// The arguments. What is put on a canvas stays as it was written, digit by digit.
#[derive(Deserialize)]
struct Asked {
    session_id: String,
    content: Json,
    pane: Option<String>,
    persona_id: Option<String>,
    metadata: Option<Json>,
}

/// What is kept of them.
#[derive(Serialize)]
struct Payload<'a> {
    content: &'a Json,
    metadata: Option<&'a Json>,
    pane: &'a str,
    persona_id: Option<PersonaId>,
    #[serde(rename = "type")]
    kind: &'static str,
}

pub(super) fn run(active: &ActiveCall, at: Timestamp) -> (Given, Option<SessionEvent>) {
    match appended(active, at) {
        Ok((pane, event)) => (Ok(json!({"status": "queued", "pane": pane})), Some(event)),
        Err(error) => (Err(error), None),
    }
}

fn appended(active: &ActiveCall, at: Timestamp) -> Result<(String, SessionEvent), CallError> {
    let asked: Asked =
        active.args().read().map_err(|problem| error(ErrorCode::ContentInvalid, &problem))?;
    let session: SessionId =
        asked.session_id.parse().map_err(|invalid| error(ErrorCode::SessionInvalid, &invalid))?;
    let persona_id = persona(active, asked.persona_id.as_deref())?;
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
    let tenant = active.asked().tenant.clone();
    let event = SessionEvent { tenant, session, at, kind: "canvas".to_owned(), payload };
    Ok((pane, event))
}

/// Whoever acts for one persona signs with no other name.
fn persona(active: &ActiveCall, named: Option<&str>) -> Result<Option<PersonaId>, CallError> {
    let Some(named) = named else { return Ok(None) };
    let named: PersonaId =
        named.parse().map_err(|invalid| error(ErrorCode::PersonaInvalid, &invalid))?;
    match &active.asked().persona {
        Some(own) if *own != named => {
            let message = format!("the call is made for persona `{own}`, not `{named}`");
            Err(error(ErrorCode::PersonaForeign, &message))
        }
        _ => Ok(Some(named)),
    }
}
