//! `POST /v1/tool/request` of SomaAgent 01: a request whose result comes on `tool.results`.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use ringfence_edge::{
    Problem, body,
    fields::Fields,
    identity::{self, May},
    reply,
};
use ringfence_engine::CallRequest;
use ringfence_types::{CallId, Json, PersonaId, SessionId, ToolName};
use serde::Serialize;
use utoipa::ToSchema;

use super::calls::create::{idempotency_key, refusal};
use crate::shared::Shared;

/// A request to run a tool.
#[derive(ToSchema)]
#[schema(as = ToolRequest)]
#[expect(dead_code, reason = "it documents what `read` reads field by field")]
pub(crate) struct ToolRequestBody {
    /// Session of the request: 1 to 128 printable ASCII characters without spaces.
    session_id: String,
    /// The tool.
    tool_name: String,
    /// The arguments.
    #[schema(value_type = Option<Object>)]
    args: Option<Json>,
    /// Persona of the request.
    persona_id: Option<String>,
    /// Data of the client, echoed in the result. `request_id` ties the result to the request; the id of
    /// the answer is used without one.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Json>,
}

/// An accepted request.
#[derive(Serialize, ToSchema)]
#[schema(as = ToolRequestAccepted)]
pub(crate) struct AcceptedView {
    /// Always `enqueued`.
    status: &'static str,
    /// Id of the call.
    #[schema(value_type = String)]
    event_id: CallId,
}

/// Accepts a request. Its result is published on `tool.results`, and can be read at `/v1/calls`.
#[utoipa::path(
    post, path = "/v1/tool/request", tag = "calls", request_body = ToolRequestBody,
    params(("Idempotency-Key" = Option<String>, Header,
        description = "Equal keys mean the same request, done once within a day.")),
    responses(
        (status = 200, description = "The request is on record", body = AcceptedView),
        (status = 404, description = "There is no such tool"),
        (status = 409, description = "The call with this idempotency key has not ended"),
        (status = 410, description = "The records of the call with this idempotency key were erased"),
        (status = 422, description = "The body, the arguments or the idempotency key do not fit"),
    )
)]
pub(crate) async fn create(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    request: Request,
) -> Result<Response, Problem> {
    let idempotency_key = idempotency_key(request.headers())?;
    let body = body::json(&shared.edge, request).await?;
    let mut call = read(&body)?;
    call.idempotency_key = idempotency_key;
    call.trace = Some(caller.trace().clone());
    let tool = call.tool.clone();
    let ticket = shared.engine.call(caller.principal(), call).await.map_err(|error| {
        let problem = refusal(&shared, &caller, &error).with("tool", &tool);
        shared.engine.count_refusal(tool.as_str(), problem.code().code);
        problem
    })?;
    Ok(reply::ok(&AcceptedView { status: "enqueued", event_id: ticket.id() }))
}

fn read(body: &Json) -> Result<CallRequest, Problem> {
    let mut fields = Fields::of(body)?;
    let session: Option<SessionId> = fields.required("session_id");
    let tool: Option<ToolName> = fields.required("tool_name");
    let args = fields.optional_object("args").unwrap_or_else(Json::empty_object);
    let persona: Option<PersonaId> = fields.optional("persona_id");
    let metadata = fields.optional_object("metadata").unwrap_or_else(Json::empty_object);
    fields.finish(session.zip(tool)).map(|(session, tool)| {
        let call = CallRequest::new(tool, args);
        CallRequest { session: Some(session), persona, metadata, detached: true, ..call }
    })
}
