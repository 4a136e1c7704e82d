//! `canvas_append`: adds to a session's canvas. The event is recorded with the call's own end, so
//! that it is there exactly once.

use ringfence_store::SessionEvent;
use ringfence_types::{Json, SessionId, Timestamp};
use serde_json::{Value, json};

use super::{Given, error, text};
use crate::journey::Journey;

pub(super) fn run(journey: &Journey, args: &Value, at: Timestamp) -> (Given, Option<SessionEvent>) {
    let session: SessionId = match text(args, "session_id").parse() {
        Ok(session) => session,
        Err(invalid) => return (Err(error("session_invalid", &invalid)), None),
    };
    let pane = args.get("pane").and_then(Value::as_str).unwrap_or("default");
    let payload = json!({
        "type": "canvas",
        "pane": pane,
        "content": args.get("content"),
        "persona_id": args.get("persona_id"),
        "metadata": args.get("metadata"),
    });
    let payload = match Json::of(&payload) {
        Ok(payload) => payload,
        Err(problem) => return (Err(error("content_invalid", &problem)), None),
    };
    let tenant = journey.asked().tenant.clone();
    let event = SessionEvent { tenant, session, at, kind: "canvas".to_owned(), payload };
    (Ok(json!({"status": "queued", "pane": pane})), Some(event))
}
