//! Resolution of holds.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{HeaderValue, StatusCode, header};
use ringfence_edge::{
    Problem, body,
    fields::Fields,
    identity::{self, Caller, May},
    path::Named,
    problem::Fault,
    problem_codes, reply,
};
use ringfence_engine::{
    Action, ApprovalScope, InvalidTerms, NotResolved, Resolution, Resolved, TermsRequest,
};
use ringfence_types::{CallId, Digest, Json, Predicate, parse_duration};
use utoipa::ToSchema;

use super::not_held;
use crate::{shared::Shared, views::call::CallView};

/// Resolution of a hold.
#[derive(ToSchema)]
#[schema(as = Resolution)]
#[expect(dead_code, reason = "it documents what `read` reads field by field")]
pub(crate) struct ResolutionBody {
    /// `approve`, `deny`, `discard` or `reevaluate`; or leave it out and send `allow`.
    action: Option<String>,
    /// `true` for `approve`, `false` for `discard`, as in *SomaAgent 01*.
    allow: Option<bool>,
    /// Reason for the record: at most 2000 bytes.
    reason: Option<String>,
    /// `shown` of the hold: the resolution counts only if nothing has changed since.
    shown: Option<String>,
    /// With `approve`: run with these arguments instead.
    #[schema(value_type = Option<Object>)]
    edited_args: Option<Json>,
    /// With `approve`: `once` (the default), `session` or `rule`.
    scope: Option<String>,
    /// With `approve`, for `session` and `rule`: conditions on arguments, all of which must hold;
    /// each a `path` (a JSON Pointer) and one of `equals`, `one_of`, `prefix`, `suffix`, `at_most`,
    /// `at_least`. By default exactly the arguments shown.
    #[schema(value_type = Option<Vec<Object>>)]
    r#where: Option<Json>,
    /// With `approve`: lifetime of the approval, such as `30m`.
    expires_in: Option<String>,
    /// With `approve`: number of calls.
    uses: Option<u32>,
}

/// Decides about a held call. Needs scope `approve`, and a key that did not make the call.
///
/// 200 if the call has ended (`deny`, `discard`); 202 if it continues or stays held.
#[utoipa::path(
    post, path = "/v1/holds/{id}/resolve", tag = "holds", request_body = ResolutionBody,
    params(("id" = String, Path, description = "The call")),
    responses(
        (status = 200, description = "The call has ended", body = CallView<'static>),
        (status = 202, description = "The call continues, or needs more approvals", body = CallView<'static>),
        (status = 409, description = "The call is not held, or has changed since it was shown"),
        (status = 422, description = "Invalid body"),
    )
)]
pub(crate) async fn resolve(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Approve>,
    Named(id): Named<CallId>,
    request: Request,
) -> Result<Response, Problem> {
    answer(&shared, &caller, id, request).await
}

/// Decides about a held call: alias of `POST /v1/holds/{id}/resolve`.
#[utoipa::path(
    post, path = "/v1/policy/requeue/{id}/resolve", tag = "holds", request_body = ResolutionBody,
    params(("id" = String, Path, description = "The call")),
    responses(
        (status = 200, description = "The call has ended", body = CallView<'static>),
        (status = 202, description = "The call continues, or needs more approvals", body = CallView<'static>),
        (status = 409, description = "The call is not held, or has changed since it was shown"),
        (status = 422, description = "Invalid body"),
    )
)]
pub(crate) async fn resolve_policy_requeue(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Approve>,
    Named(id): Named<CallId>,
    request: Request,
) -> Result<Response, Problem> {
    answer(&shared, &caller, id, request).await
}

async fn answer(
    shared: &Shared,
    caller: &Caller,
    id: CallId,
    request: Request,
) -> Result<Response, Problem> {
    let resolution = asked(shared, caller, id, request, None).await?;
    match carry_out(shared, caller, id, resolution).await? {
        Resolved::Ended(call) => Ok(reply::ok(&CallView::of(&call))),
        Resolved::Runs(call) | Resolved::Waits(call) => {
            let mut response = reply::json(StatusCode::ACCEPTED, &CallView::of(&call));
            let place = format!("/v1/calls/{id}");
            let place = HeaderValue::try_from(place).expect("an id is printable ASCII");
            response.headers_mut().insert(header::LOCATION, place);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            Ok(response)
        }
    }
}

/// The resolution in a body; `otherwise` is the meaning of an empty one. A call that does not exist
/// or is not held is reported before problems of the body.
pub(super) async fn asked(
    shared: &Shared,
    caller: &Caller,
    id: CallId,
    request: Request,
    otherwise: Option<Action>,
) -> Result<Resolution, Problem> {
    let call = shared.engine.get(caller.principal(), id).await?.ok_or_else(Problem::not_found)?;
    if call.hold().is_none() {
        return Err(not_held(call.state.name()));
    }
    read(&body::json(&shared.edge, request).await?, otherwise)
}

/// Applies a resolution to the hold.
pub(super) async fn carry_out(
    shared: &Shared,
    caller: &Caller,
    id: CallId,
    resolution: Resolution,
) -> Result<Resolved, Problem> {
    let resolved = shared.engine.resolve(caller.principal(), id, resolution).await;
    resolved.map_err(|refused| problem(&refused))
}

fn read(body: &Json, otherwise: Option<Action>) -> Result<Resolution, Problem> {
    let mut fields = Fields::of(body)?;
    let name: Option<String> = fields.optional("action");
    let allow: Option<bool> = fields.optional("allow");
    let reason: Option<String> = fields.optional("reason");
    let shown: Option<Digest> = fields.optional("shown");
    let edited = fields.optional_object("edited_args");
    let terms = terms(&mut fields);
    let is_plain = edited.is_none() && terms == TermsRequest::default();
    let approve = Action::Approve { terms, edited };
    let action = match (name.as_deref(), allow) {
        (Some(_), Some(_)) => {
            fields.fault("allow", "cannot be combined with `action`");
            None
        }
        (Some("approve"), None) | (None, Some(true)) => Some(approve),
        (Some("deny"), None) => Some(Action::Deny),
        (Some("discard"), None) | (None, Some(false)) => Some(Action::Discard),
        (Some("reevaluate"), None) => Some(Action::Reevaluate),
        (Some(_), None) => {
            fields.fault("action", "must be approve, deny, discard or reevaluate");
            None
        }
        (None, None) if otherwise.is_some() => otherwise,
        (None, None) => {
            fields.fault("action", "is required: approve, deny, discard or reevaluate");
            None
        }
    };
    if !is_plain && !matches!(action, None | Some(Action::Approve { .. })) {
        fields.fault("action", "must be approve if edited arguments or bounds are given");
    }
    let action = fields.finish(action)?;
    Ok(Resolution { action, reason, shown })
}

fn terms(fields: &mut Fields<'_>) -> TermsRequest {
    let scope = match fields.optional::<String>("scope").as_deref() {
        None | Some("once") => ApprovalScope::Once,
        Some("session") => ApprovalScope::Session,
        Some("rule") => ApprovalScope::Rule,
        Some(_) => {
            fields.fault("scope", "must be once, session or rule");
            ApprovalScope::Once
        }
    };
    let args: Option<Predicate> = fields.optional("where");
    let expires_in =
        fields.optional::<String>("expires_in").and_then(|text| duration(fields, &text));
    let uses = fields.whole("uses").map(|uses| u32::try_from(uses).unwrap_or(u32::MAX));
    TermsRequest { scope, args, expires_in, uses }
}

fn duration(fields: &mut Fields<'_>, text: &str) -> Option<Duration> {
    let read = parse_duration(text);
    if read.is_err() {
        fields.fault("expires_in", "must be a duration such as 30m or 8h");
    }
    read.ok()
}

/// The problem of a hold that was not resolved.
fn problem(refused: &NotResolved) -> Problem {
    let with = |kind| Problem::new(kind, refused.to_string());
    match refused {
        NotResolved::Missing => Problem::not_found(),
        NotResolved::NotHeld(state) => not_held(state),
        NotResolved::OwnCall => with(&problem_codes::OWN_CALL),
        NotResolved::Scope => identity::scope_missing(ringfence_types::Scope::Approve),
        NotResolved::Twice => with(&problem_codes::APPROVED_BEFORE),
        NotResolved::Changed => with(&problem_codes::HOLD_CHANGED),
        NotResolved::ToolChanged => with(&problem_codes::TOOL_CHANGED),
        NotResolved::InvalidArguments(violations) => {
            let fault = |violation: &ringfence_engine::data::Violation| Fault {
                pointer: format!("/edited_args{}", violation.pointer),
                detail: violation.message.clone(),
            };
            with(&problem_codes::ARGS_INVALID).faults(violations.iter().map(fault).collect())
        }
        NotResolved::Terms(invalid) => {
            let pointer = if *invalid == InvalidTerms::NotMatching { "/where" } else { "/scope" };
            let fault = Fault { pointer: pointer.to_owned(), detail: invalid.to_string() };
            ringfence_edge::fields::invalid(vec![fault])
        }
        NotResolved::Reason => {
            let fault = Fault { pointer: "/reason".to_owned(), detail: refused.to_string() };
            ringfence_edge::fields::invalid(vec![fault])
        }
        NotResolved::PolicyUnavailable => {
            with(&problem_codes::POLICY_UNAVAILABLE).retry_after(Duration::from_secs(5))
        }
        NotResolved::Stopping => with(&problem_codes::STOPPING),
        NotResolved::Store(error) => Problem::from(error),
    }
}
