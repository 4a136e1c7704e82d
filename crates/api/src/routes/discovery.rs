//! Discovery: requests for a capability that is missing, and what was found.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{HeaderValue, StatusCode, Uri, header};
use ringfence_edge::{
    Problem, body,
    fields::Fields,
    identity::{self, May, check_operator},
    path::Named,
    problem_codes,
    query::Query,
    reply,
};
use ringfence_engine::{CallRequest, DISCOVERY_TOOL, Discovery, RejectError};
use ringfence_types::{
    CallId, DiscoveryStatus, Json, Produced, State as CallState, Timestamp, ToolName,
};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::{
    Routes,
    calls::create::{idempotency_key, refusal, unrecorded},
    tool_lifecycle::{self, why},
};
use crate::shared::Shared;

pub(super) fn routes(router: Routes) -> Routes {
    use axum::routing::{get, post};
    router
        .route("/v1/discovery", post(create).get(list))
        .route("/v1/discovery/{id}", get(read))
        .route("/v1/discovery/{id}/reject", post(reject))
}

/// Capability that is missing.
#[derive(ToSchema)]
#[schema(as = DiscoveryRequest)]
#[expect(dead_code, reason = "it documents what `create` reads field by field")]
pub(crate) struct DiscoveryBody {
    /// Work that the tool is to do, in words.
    capability: String,
    /// Number of documents that are proposed, best first; 3 by default.
    propose: Option<u8>,
    /// Propose this document of the directories and no other.
    name: Option<String>,
    /// Seconds to wait for the end; by default as for calls.
    wait: Option<f64>,
}

/// Reason of a rejection.
#[derive(ToSchema)]
#[schema(as = DiscoveryRejection)]
#[expect(dead_code, reason = "it documents what `reject` reads field by field")]
pub(crate) struct RejectionBody {
    /// Reason, which goes to the ledger.
    why: String,
}

/// One discovery. Its id is that of the call that it is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Discovery)]
pub(crate) struct DiscoveryView {
    #[schema(value_type = String)]
    id: CallId,
    /// `pending`, `searching`, `found`, `failed` or `rejected`.
    #[schema(value_type = String)]
    status: DiscoveryStatus,
    /// State of its call.
    call_state: &'static str,
    capability: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Tools that can be called already.
    #[schema(value_type = Vec<Object>)]
    tools: Value,
    /// Documents of directories, best first, with the tools that were proposed.
    #[schema(value_type = Vec<Object>)]
    candidates: Value,
    /// Directories that could not be searched, with the reason.
    #[schema(value_type = Vec<Object>)]
    problems: Value,
    /// Error of the search.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Discoveries, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DiscoveryList)]
pub(crate) struct DiscoveryListView {
    discoveries: Vec<DiscoveryView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

impl DiscoveryView {
    fn of(discovery: &Discovery) -> Self {
        let call = &discovery.call;
        let (result, error) = match &call.state {
            CallState::Finished(finished) => match &finished.produced {
                Produced::Result(result) => (result.to_value(), None),
                Produced::Error(error) => (Value::Null, Some(error.message.clone())),
            },
            _ => (Value::Null, None),
        };
        let list = |name: &str| match result.get(name) {
            Some(Value::Array(items)) => json!(items),
            _ => json!([]),
        };
        let args = call.asked.args.to_value();
        Self {
            id: call.asked.id,
            status: discovery.status,
            call_state: call.state.name(),
            capability: args["capability"].as_str().unwrap_or_default().to_owned(),
            created_at: call.asked.accepted_at,
            tools: list("tools"),
            candidates: list("candidates"),
            problems: list("problems"),
            error,
        }
    }
}

/// Looks for a capability that is missing, in the catalogue and in the configured directories, and proposes
/// what fits best.
///
/// It is a call of `tool_discover`: policy decides about it, and it may be held. Nothing that it proposes can be
/// called before it is approved.
#[utoipa::path(
    post, path = "/v1/discovery", tag = "tools", request_body = DiscoveryBody,
    params(("Idempotency-Key" = Option<String>, Header,
        description = "Equal keys mean the same request, done once within a day. A quoted string of 1 to 255 printable ASCII characters; quotes may be left out.")),
    responses(
        (status = 200, description = "The search has ended", body = DiscoveryView),
        (status = 202, description = "It is pending or searching", body = DiscoveryView),
        (status = 404, description = "The tool `tool_discover` was removed"),
        (status = 409, description = "The call with this idempotency key has not ended, or the tool is not active"),
        (status = 410, description = "The records of the call with this idempotency key were erased"),
    )
)]
pub(crate) async fn create(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    request: Request,
) -> Result<Response, Problem> {
    let idempotency_key = idempotency_key(request.headers())?;
    let body = body::json(&shared.edge, request).await?;
    let mut fields = Fields::of(&body)?;
    let capability: Option<String> = fields.required("capability");
    let propose: Option<u8> = fields.optional("propose");
    let name: Option<String> = fields.optional("name");
    let config = shared.edge.config();
    let wait = fields.optional::<f64>("wait");
    let most = config.max_wait.as_secs_f64();
    if wait.is_some_and(|secs| !(0.0..=most).contains(&secs)) {
        fields.fault("wait", format!("must be from 0 to {most} seconds"));
    }
    let capability = fields.finish(capability)?;
    let wait = wait.map_or(config.default_wait, Duration::from_secs_f64);
    let mut args = json!({"capability": capability});
    if let Some(propose) = propose {
        args["propose"] = json!(propose);
    }
    if let Some(name) = name {
        args["name"] = json!(name);
    }
    let tool: ToolName = DISCOVERY_TOOL.parse().expect("our own names are valid");
    let call = CallRequest {
        idempotency_key,
        trace: Some(caller.trace().clone()),
        detached: wait.is_zero(),
        ..CallRequest::new(tool, Json::plain(&args))
    };
    let mut ticket = shared
        .engine
        .call(caller.principal(), call)
        .await
        .map_err(|error| refusal(&shared, &caller, &error))?;
    let call = ticket.wait(wait).await.ok_or_else(|| unrecorded(&shared, &ticket))?;
    let discovery = shared.engine.discovery_of(call).ok_or_else(Problem::not_found)?;
    let is_over = discovery.call.state.is_final();
    let status = if is_over { StatusCode::OK } else { StatusCode::ACCEPTED };
    let mut response = reply::json(status, &DiscoveryView::of(&discovery));
    let place = format!("/v1/discovery/{}", discovery.call.asked.id);
    let place = HeaderValue::try_from(place).expect("an id is printable ASCII");
    response.headers_mut().insert(header::LOCATION, place);
    Ok(response)
}

/// Lists discoveries of the tenant, newest first.
///
/// A page may have fewer than `limit` discoveries, or none, without being the last: continue while there is a
/// `next_cursor`.
#[utoipa::path(
    get, path = "/v1/discovery", tag = "tools",
    params(
        ("status" = Option<String>, Query, description = "Only with this status"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of an earlier answer"),
        ("limit" = Option<u64>, Query, description = "Page size, from 1 to 50; default 20"),
    ),
    responses((status = 200, description = "Discoveries", body = DiscoveryListView))
)]
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let status = query.optional::<DiscoveryStatus>("status");
    let before = query.optional::<CallId>("cursor");
    let limit = query.number("limit", 1, 50).unwrap_or(20) as usize;
    query.finish()?;
    let (mut found, next) = shared.engine.discoveries(caller.principal(), before, limit).await?;
    found.retain(|discovery| status.is_none_or(|status| discovery.status == status));
    let discoveries = found.iter().map(DiscoveryView::of).collect();
    let next_cursor = next.map(|id| id.to_string());
    Ok(reply::ok(&DiscoveryListView { discoveries, next_cursor }))
}

/// Shows a discovery.
#[utoipa::path(
    get, path = "/v1/discovery/{id}", tag = "tools",
    params(("id" = String, Path, description = "The discovery")),
    responses((status = 200, description = "The discovery", body = DiscoveryView))
)]
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<CallId>,
) -> Result<Response, Problem> {
    let found = shared.engine.discovery(caller.principal(), id).await?;
    let found = found.ok_or_else(Problem::not_found)?;
    Ok(reply::ok(&DiscoveryView::of(&found)))
}

/// Rejects a discovery: ends the search, or rejects its tools that wait for a decision. Only for admin keys of
/// the operator.
#[utoipa::path(
    post, path = "/v1/discovery/{id}/reject", tag = "tools", request_body = RejectionBody,
    params(("id" = String, Path, description = "The discovery")),
    responses(
        (status = 200, description = "The discovery as it is now", body = DiscoveryView),
        (status = 409, description = "It is over, and none of its tools waits for a decision"),
    )
)]
pub(crate) async fn reject(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    Named(id): Named<CallId>,
    request: Request,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    let body = body::json(&shared.edge, request).await?;
    let mut fields = Fields::of(&body)?;
    let why = why(&mut fields);
    let why = fields.finish(why)?;
    let (who, trace) = (caller.principal(), caller.trace());
    let rejected = shared.engine.reject_discovery(who, trace, id, &why).await;
    let rejected = rejected.map_err(|error| match error {
        RejectError::Unknown => Problem::not_found(),
        RejectError::Over(_) => Problem::new(&problem_codes::CONFLICT, error.to_string()),
        RejectError::Lifecycle(error) => tool_lifecycle::problem(error),
        RejectError::Store(error) => error.into(),
    })?;
    Ok(reply::ok(&DiscoveryView::of(&rejected)))
}
