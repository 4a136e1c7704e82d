//! Conversations, with the paths and fields of SomaAgent 01: messages in, events out.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use bytes::Bytes;
use http::{HeaderMap, Uri};
use ringfence_conversation::{Conversations, Follow, NotSent, SendRequest, SessionAction};
use ringfence_edge::{
    Problem, body,
    fields::Fields,
    identity::{self, Caller, May},
    path::Named,
    problem_codes,
    query::Query,
    reply,
    sse::{self, Source, StreamSlot},
};
use ringfence_engine::{
    ActionRefused,
    data::{SessionEvent, SessionQuery, SessionSummary},
};
use ringfence_types::{Json, PersonaId, SessionId, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::shared::Shared;

/// Characters of a message.
const MAX_MESSAGE_CHARS: usize = 100_000;
/// Names of attachments of a message.
const MAX_ATTACHMENTS: usize = 50;

/// A message to a session.
#[derive(ToSchema)]
#[schema(as = SessionMessage)]
#[expect(dead_code, reason = "it documents what `read_message` reads field by field")]
pub(crate) struct MessageBody {
    /// Session; a new one without it.
    session_id: Option<String>,
    persona_id: Option<String>,
    /// Text, at most 100 000 characters.
    message: String,
    attachments: Option<Vec<String>>,
    /// Copied to the events that answer the message. `tools`, a list of names, restricts the tools on offer.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Json>,
}

/// An accepted message.
#[derive(Serialize, ToSchema)]
#[schema(as = SessionMessageAccepted)]
pub(crate) struct SentView {
    #[schema(value_type = String)]
    session_id: SessionId,
    /// Id of the message, and `correlation_id` of the events that answer it.
    event_id: String,
}

/// Accepts a message. Its answer is in the events of the session.
#[utoipa::path(
    post, path = "/v1/session/message", tag = "conversations", request_body = MessageBody,
    responses(
        (status = 200, description = "The message is on record and will be answered", body = SentView),
        (status = 403, description = "Policy does not allow the message"),
        (status = 422, description = "Invalid body"),
        (status = 503, description = "The server has no conversations"),
    )
)]
pub(crate) async fn send(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    request: Request,
) -> Result<Response, Problem> {
    let conversations = conversations(&shared)?;
    let headers = request.headers().clone();
    let body = body::json(&shared.edge, request).await?;
    let mut message = read_message(&body, &headers)?;
    check_persona(&caller, message.persona.as_ref())?;
    message.trace = Some(caller.trace().clone());
    let tenant = caller.principal().tenant.to_string();
    message.metadata.insert("tenant".to_owned(), tenant.into());
    let sent = conversations.send(caller.principal(), message).await.map_err(not_sent)?;
    Ok(reply::ok(&SentView { session_id: sent.session, event_id: sent.event_id }))
}

fn read_message(body: &Json, headers: &HeaderMap) -> Result<SendRequest, Problem> {
    let mut fields = Fields::of(body)?;
    let session: Option<SessionId> = fields.optional("session_id");
    let persona: Option<PersonaId> = fields.optional("persona_id");
    let message: Option<String> = fields.required("message");
    if message.as_ref().is_some_and(|text| text.chars().count() > MAX_MESSAGE_CHARS) {
        fields.fault("message", "must be at most 100000 characters");
    }
    let attachments: Option<Vec<String>> = fields.optional("attachments");
    if attachments.as_ref().is_some_and(|names| names.len() > MAX_ATTACHMENTS) {
        fields.fault("attachments", "must be at most 50 names");
    }
    let metadata: Option<Json> = fields.optional_object("metadata");
    let message = fields.finish(message)?;
    let mut metadata: Map<String, Value> = match metadata.map(|metadata| metadata.to_value()) {
        Some(Value::Object(metadata)) => metadata,
        _ => Map::new(),
    };
    for (header, name) in
        [("x-agent-profile", "agent_profile_id"), ("x-universe-id", "universe_id")]
    {
        if let Some(value) = headers.get(header).and_then(|value| value.to_str().ok()) {
            metadata.insert(name.to_owned(), value.into());
        }
    }
    let by_header = || headers.get("x-persona-id")?.to_str().ok()?.parse().ok();
    Ok(SendRequest {
        session,
        persona: persona.or_else(by_header),
        message,
        attachments: attachments.unwrap_or_default(),
        metadata,
        trace: None,
    })
}

/// An action about a session.
#[derive(ToSchema)]
#[schema(as = SessionActionRequest)]
#[expect(dead_code, reason = "it documents what `act` reads field by field")]
pub(crate) struct ActionBody {
    /// `summarize`, `next_steps`, `status_report`, `nudge`, `pause`, `resume` or `cancel`.
    action: String,
    session_id: String,
}

/// Asks for a summary or the like, pauses or resumes the session, or cancels its running turn.
#[utoipa::path(
    post, path = "/v1/session/action", tag = "conversations", request_body = ActionBody,
    responses(
        (status = 200, description = "Done, or on record as a message", body = SentView),
        (status = 422, description = "Invalid body or unknown action"),
        (status = 503, description = "The server has no conversations"),
    )
)]
pub(crate) async fn act(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    request: Request,
) -> Result<Response, Problem> {
    let conversations = conversations(&shared)?;
    let body = body::json(&shared.edge, request).await?;
    let mut fields = Fields::of(&body)?;
    let session: Option<SessionId> = fields.required("session_id");
    let name: Option<String> = fields.required("action");
    let action = name.as_deref().and_then(SessionAction::named);
    if name.is_some() && action.is_none() {
        fields.fault("action", "Unknown action");
    }
    let _: Option<PersonaId> = fields.optional("persona_id");
    let _: Option<Json> = fields.optional_object("metadata");
    let (session, action) = fields.finish(session.zip(action))?;
    let sent = conversations.act(caller.principal(), session, action).await.map_err(not_sent)?;
    Ok(reply::ok(&SentView { session_id: sent.session, event_id: sent.event_id }))
}

/// An event of a session.
#[derive(Serialize, ToSchema)]
#[schema(as = SessionEvent)]
pub(crate) struct EventView {
    /// Position, which grows; `Last-Event-ID` and `after` take it.
    id: u64,
    #[schema(value_type = String, format = DateTime)]
    occurred_at: Timestamp,
    /// Kind of the event, such as `user`, `assistant.stream`, `tool` or `assistant`.
    kind: String,
    #[schema(value_type = Object)]
    payload: Json,
}

impl EventView {
    fn of((id, event): (u64, SessionEvent)) -> Self {
        Self { id, occurred_at: event.at, kind: event.kind, payload: event.payload }
    }
}

/// Follows the events of a session: those after `Last-Event-ID` or `after`, then new ones as they come.
#[utoipa::path(
    get, path = "/v1/session/{session_id}/events", tag = "conversations",
    params(
        ("session_id" = String, Path, description = "The session"),
        ("after" = Option<u64>, Query, description = "As `Last-Event-ID`; 0 is the beginning and the default"),
        ("Last-Event-ID" = Option<u64>, Header, description = "Id of the last event received"),
    ),
    responses(
        (status = 200, description = "Events", body = String, content_type = "text/event-stream"),
        (status = 503, description = "The server has no conversations"),
    )
)]
pub(crate) async fn follow(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(session): Named<SessionId>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Problem> {
    let conversations = conversations(&shared)?;
    let mut query = Query::of(&uri);
    let by_query = query.optional::<u64>("after");
    query.finish()?;
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let last = last.filter(|text| !text.is_empty()).map(str::parse::<u64>).transpose();
    let last = last.map_err(|_| {
        let detail = "`Last-Event-ID` must be an id of ours, such as 17";
        Problem::new(&problem_codes::HEADER_INVALID, detail)
    })?;
    let slot = StreamSlot::take(&shared.edge, caller.known())?;
    let after = last.or(by_query).unwrap_or(0);
    let follow = conversations.follow(caller.principal(), session, after);
    Ok(sse::respond(Events(follow), slot))
}

struct Events(Follow);

impl Source for Events {
    async fn next(&mut self) -> Option<Bytes> {
        // A client that loses its stream comes back with the last id that it has.
        let (id, event) = self.0.next().await.ok()?;
        let kind = event.kind.clone();
        Some(sse::event(Some(&id.to_string()), &kind, &EventView::of((id, event))))
    }
}

/// Events of a session.
#[derive(Serialize, ToSchema)]
#[schema(as = SessionEvents)]
pub(crate) struct EventsView {
    #[schema(value_type = String)]
    session_id: SessionId,
    events: Vec<EventView>,
    /// `after` of the next page; null at the end.
    next_cursor: Option<u64>,
}

/// Lists the events of a session, oldest first.
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}/events", tag = "conversations",
    params(
        ("session_id" = String, Path, description = "The session"),
        ("after" = Option<u64>, Query, description = "Only events after this id"),
        ("limit" = Option<usize>, Query, description = "1 to 500; 100 by default"),
    ),
    responses((status = 200, description = "Events", body = EventsView))
)]
pub(crate) async fn list_events(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(session): Named<SessionId>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let after = query.optional::<u64>("after").unwrap_or(0);
    let limit = query.optional::<usize>("limit").unwrap_or(100).clamp(1, 500);
    query.finish()?;
    let wanted = SessionQuery {
        tenant: caller.principal().tenant.clone(),
        session: session.clone(),
        kind: None,
        after,
        last: false,
        limit,
    };
    let events = shared.engine.session_events(wanted).await?;
    let next_cursor = (events.len() >= limit).then(|| events.last().map(|(id, _)| *id)).flatten();
    let events = events.into_iter().map(EventView::of).collect();
    Ok(reply::ok(&EventsView { session_id: session, events, next_cursor }))
}

/// A session.
#[derive(Serialize, ToSchema)]
#[schema(as = SessionSummary)]
pub(crate) struct SessionView {
    #[schema(value_type = String)]
    session_id: SessionId,
    /// Number of its events.
    events: u64,
    #[schema(value_type = String, format = DateTime)]
    first_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    last_at: Timestamp,
}

#[derive(Serialize, ToSchema)]
#[schema(as = SessionList)]
pub(crate) struct SessionsView {
    sessions: Vec<SessionView>,
}

/// Lists the sessions of the tenant, the last active first.
#[utoipa::path(
    get, path = "/v1/sessions", tag = "conversations",
    params(("limit" = Option<usize>, Query, description = "1 to 200; 50 by default")),
    responses((status = 200, description = "Sessions", body = SessionsView))
)]
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let limit = query.optional::<usize>("limit").unwrap_or(50).clamp(1, 200);
    query.finish()?;
    let found = shared.engine.sessions(&caller.principal().tenant, limit).await?;
    let view = |found: SessionSummary| SessionView {
        session_id: found.session,
        events: found.events,
        first_at: found.first_at,
        last_at: found.last_at,
    };
    Ok(reply::ok(&SessionsView { sessions: found.into_iter().map(view).collect() }))
}

/// A model profile.
#[derive(Serialize, ToSchema)]
#[schema(as = ModelProfile)]
pub(crate) struct ProfileView {
    /// `dialogue`, `escalation` or `slm`.
    role: String,
    deployment_mode: String,
    model: String,
    base_url: String,
    api_path: Option<String>,
    temperature: f64,
    #[schema(value_type = Object)]
    kwargs: Map<String, Value>,
    /// Role whose profile is asked if this one fails.
    fallback: Option<String>,
}

/// Lists the model profiles in force.
#[utoipa::path(
    get, path = "/v1/model-profiles", tag = "conversations",
    responses(
        (status = 200, description = "Profiles", body = Vec<ProfileView>),
        (status = 503, description = "The server has no conversations"),
    )
)]
pub(crate) async fn profiles(
    State(shared): State<Arc<Shared>>,
    _caller: May<identity::Read>,
) -> Result<Response, Problem> {
    let profiles = shared.engine.llm().profiles();
    let views: Vec<_> = profiles
        .iter()
        .map(|profile| ProfileView {
            role: profile.role.to_string(),
            deployment_mode: profile.deployment_mode.clone(),
            model: profile.model.clone(),
            base_url: profile.base_url.clone(),
            api_path: profile.api_path.clone(),
            temperature: profile.temperature,
            kwargs: profile.extra.clone(),
            fallback: profile.fallback.map(|role| role.to_string()),
        })
        .collect();
    Ok(reply::ok(&views))
}

fn conversations(shared: &Shared) -> Result<&Conversations, Problem> {
    shared.conversations.as_ref().ok_or_else(|| {
        let detail = "this server has no model profiles; set `models.profiles`";
        Problem::new(&problem_codes::NO_CONVERSATIONS, detail)
    })
}

fn not_sent(error: NotSent) -> Problem {
    match error {
        NotSent::Refused(ActionRefused::Store(error)) | NotSent::Store(error) => error.into(),
        NotSent::Refused(refused) => Problem::new(
            &problem_codes::POLICY_DENIED,
            format!("the message was not accepted: {refused}"),
        ),
        NotSent::Bus(error) => {
            tracing::warn!(error = %error, "a message is on record but not on its topic");
            Problem::new(&problem_codes::BUSY, "Unable to enqueue message")
        }
    }
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
