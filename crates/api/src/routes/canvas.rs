//! Canvas of a session: its items, in order.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use ringfence_edge::{
    Problem, body,
    fields::Fields,
    identity::{self, Caller, May},
    path::Named,
    problem_codes, reply,
};
use ringfence_engine::CANVAS_BYTES;
use ringfence_engine::data::{SessionEvent, SessionQuery};
use ringfence_types::{Json, PersonaId, SessionId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::shared::Shared;

/// Item for a canvas.
#[derive(ToSchema)]
#[schema(as = CanvasEvent)]
#[expect(dead_code, reason = "it documents what `read_body` reads field by field")]
pub(crate) struct CanvasBody {
    session_id: String,
    persona_id: Option<String>,
    /// Pane of the canvas; `default` by default.
    pane: Option<String>,
    /// Any JSON value.
    #[schema(value_type = Object)]
    content: Json,
    #[schema(value_type = Option<Object>)]
    metadata: Option<Json>,
}

/// Payload of the stored session event.
#[derive(Serialize)]
struct Payload {
    r#type: &'static str,
    pane: String,
    content: Json,
    persona_id: Option<PersonaId>,
    metadata: Option<Json>,
}

/// Item of a canvas.
#[derive(Serialize, ToSchema)]
#[schema(as = CanvasItem)]
pub(crate) struct ItemView {
    id: u64,
    #[schema(value_type = String, format = DateTime)]
    occurred_at: Timestamp,
    r#type: &'static str,
    #[serde(flatten)]
    kept: Kept,
}

#[derive(Serialize, Deserialize, ToSchema)]
struct Kept {
    pane: String,
    #[schema(value_type = Object)]
    content: Json,
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    persona_id: Option<PersonaId>,
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    metadata: Option<Json>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = CanvasStored)]
pub(crate) struct StoredView {
    /// Always `stored`.
    status: &'static str,
}

/// Adds an item to a session's canvas: content and metadata of at most 256 KiB.
#[utoipa::path(
    post, path = "/v1/canvas/event", tag = "canvas", request_body = CanvasBody,
    responses(
        (status = 200, description = "Stored", body = StoredView),
        (status = 422, description = "Invalid body"),
    )
)]
pub(crate) async fn append(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    request: Request,
) -> Result<Response, Problem> {
    let body = body::json(&shared.edge, request).await?;
    let (session, payload) = read_body(&body)?;
    check_persona(&caller, payload.persona_id.as_ref())?;
    let payload = Json::of(&payload).map_err(|_| too_deep())?;
    if payload.as_str().len() > CANVAS_BYTES {
        return Err(body::too_large(CANVAS_BYTES));
    }
    let event = SessionEvent {
        tenant: caller.principal().tenant.clone(),
        session,
        at: shared.engine.clock().now(),
        kind: "canvas".to_owned(),
        payload,
    };
    shared.engine.append_session_event(event).await?;
    Ok(reply::ok(&StoredView { status: "stored" }))
}

fn read_body(body: &Json) -> Result<(SessionId, Payload), Problem> {
    let mut fields = Fields::of(body)?;
    let session: Option<SessionId> = fields.required("session_id");
    let persona_id = fields.optional("persona_id");
    let pane: Option<String> = fields.optional("pane");
    if pane.as_ref().is_some_and(|pane| pane.chars().count() > 128) {
        fields.fault("pane", "must be at most 128 characters");
    }
    let content: Option<Json> = fields.required("content");
    let metadata = fields.optional_object("metadata");
    fields.finish(session.zip(content)).map(|(session, content)| {
        let pane = pane.unwrap_or_else(|| "default".to_owned());
        (session, Payload { r#type: "canvas", pane, content, persona_id, metadata })
    })
}

/// The content is stored one level deeper than it came.
fn too_deep() -> Problem {
    Problem::new(&problem_codes::BODY_MALFORMED, "the content is nested too deeply")
}

fn check_persona(caller: &Caller, asked: Option<&PersonaId>) -> Result<(), Problem> {
    match (&caller.principal().persona, asked) {
        (Some(own), Some(other)) if own != other => {
            let detail = format!("this key may not act for persona `{other}`");
            Err(Problem::new(&problem_codes::PERSONA_FOREIGN, detail))
        }
        _ => Ok(()),
    }
}

/// Maximum number of items shown.
const MAX_ITEMS: usize = 100;

/// Shows the last hundred items of a session's canvas, oldest first.
#[utoipa::path(
    get, path = "/v1/canvas/{session_id}", tag = "canvas",
    params(("session_id" = String, Path, description = "The session")),
    responses((status = 200, description = "Items", body = Vec<ItemView>))
)]
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(session): Named<SessionId>,
) -> Result<Response, Problem> {
    let query = SessionQuery {
        tenant: caller.principal().tenant.clone(),
        session,
        kind: Some("canvas".to_owned()),
        after: 0,
        last: true,
        limit: MAX_ITEMS,
    };
    let events = shared.engine.session_events(query).await?;
    let items: Vec<_> = events.into_iter().filter_map(item).collect();
    Ok(reply::ok(&items))
}

fn item((id, event): (u64, SessionEvent)) -> Option<ItemView> {
    let kept = event.payload.read().ok()?;
    Some(ItemView { id, occurred_at: event.at, r#type: "canvas", kept })
}
