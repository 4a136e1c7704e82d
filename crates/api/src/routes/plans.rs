//! Plans: documents of steps, their state, and changes of people.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, Uri};
use ringfence_edge::{
    Problem, body,
    fields::{Fields, invalid},
    identity::{self, May},
    path::{Named, NamedWithin},
    problem::Fault,
    problem_codes,
    query::Query,
    reply,
    sse::{self, Source, StreamSlot},
};
use ringfence_engine::data::PlanEvent;
use ringfence_plans::{
    CreateRequest, Follow, Intent, PlanError, PlanStatus, Problem as PlanProblem, StepIntent,
    parse_text,
};
use ringfence_types::{Json, PlanId, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::shared::Shared;

/// A plan to make or to preview.
#[derive(ToSchema)]
#[schema(as = PlanRequest)]
#[expect(dead_code, reason = "it documents what `document` reads")]
pub(crate) struct PlanBody {
    /// Goal, for people.
    goal: Option<String>,
    /// Steps: `id`, `type`, `payload`, `dependsOn`, `if`, `forEach`, `retries`, `timeout`, `limits`, `files`, `outputs`.
    #[schema(value_type = Option<Vec<Object>>)]
    steps: Option<Vec<Json>>,
    /// The whole document as YAML, in the place of `goal` and `steps`.
    yaml: Option<String>,
    /// Steps that may run at the same time; 8 by default.
    #[schema(rename = "maxParallel")]
    max_parallel: Option<u32>,
    /// Whether each step waits for a person.
    intervention: Option<bool>,
    /// Repairs of one step by rules, 0 to 5.
    repair: Option<u32>,
    /// Whether it is started at once.
    run: Option<bool>,
}

/// A plan with the state of its steps.
#[derive(ToSchema)]
#[schema(as = Plan)]
#[expect(dead_code, reason = "it documents the view of the plans crate")]
pub(crate) struct PlanDocument {
    id: String,
    goal: String,
    /// `pending`, `in-progress`, `paused`, `completed`, `failed` or `cancelled`.
    status: String,
    /// Why it is paused, or has failed.
    reason: Option<String>,
    revision: u32,
    intervention: bool,
    #[schema(value_type = Vec<Object>)]
    steps: Vec<Json>,
}

/// Preview of a plan.
#[derive(ToSchema)]
#[schema(as = PlanPreview)]
#[expect(dead_code, reason = "it documents the preview of the plans crate")]
pub(crate) struct PreviewDocument {
    /// Whether no problem is known and nothing is denied.
    ok: bool,
    #[schema(value_type = Vec<Object>)]
    problems: Vec<Json>,
    #[schema(value_type = Vec<Object>)]
    steps: Vec<Json>,
    hosts: Vec<String>,
    /// Steps that wait for a person.
    approvals: Vec<String>,
    /// Steps that policy denies.
    denied: Vec<String>,
}

/// Makes a plan, and starts it with `run`. All problems of the document are named at once.
#[utoipa::path(
    post, path = "/v1/plans", tag = "plans", request_body = PlanBody,
    responses(
        (status = 201, description = "The plan is on record", body = PlanDocument),
        (status = 422, description = "Invalid body, or a document with problems"),
    )
)]
pub(crate) async fn create(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    request: Request,
) -> Result<Response, Problem> {
    let (document, run) = document(&body::json(&shared.edge, request).await?)?;
    let request = CreateRequest { document, run };
    let plan = shared.plans.create(caller.principal(), request).await.map_err(problem)?;
    Ok(reply::json(StatusCode::CREATED, &plan))
}

/// The document of a body, and whether it is to be started.
fn document(body: &Json) -> Result<(Value, bool), Problem> {
    let fault = |pointer: &str, detail: &str| {
        invalid(vec![Fault { pointer: pointer.to_owned(), detail: detail.to_owned() }])
    };
    let Value::Object(mut fields) = body.to_value() else {
        return Err(fault("", "must be an object"));
    };
    let run = match fields.remove("run") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(run)) => run,
        Some(_) => return Err(fault("/run", "must be true or false")),
    };
    let tree = match fields.remove("yaml") {
        None | Some(Value::Null) => Value::Object(fields),
        Some(Value::String(_)) if !fields.is_empty() => {
            return Err(fault(
                "/yaml",
                "stands for the whole document: leave the other fields out",
            ));
        }
        Some(Value::String(yaml)) => {
            parse_text(yaml.as_bytes()).map_err(|error| fault("/yaml", &error.message))?
        }
        Some(_) => return Err(fault("/yaml", "must be text")),
    };
    if tree.get("steps").is_none() && tree.get("goal").is_some() {
        return Err(fault("/steps", "is needed: this server does not make plans from goals"));
    }
    Ok((tree, run))
}

/// Checks a document and says what it would do. Nothing is kept and nothing runs.
#[utoipa::path(
    post, path = "/v1/plans/preview", tag = "plans", request_body = PlanBody,
    responses(
        (status = 200, description = "The preview", body = PreviewDocument),
        (status = 422, description = "Invalid body"),
    )
)]
pub(crate) async fn preview_document(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    request: Request,
) -> Result<Response, Problem> {
    let (document, _) = document(&body::json(&shared.edge, request).await?)?;
    Ok(reply::ok(&shared.plans.preview(caller.principal(), &document).await))
}

/// A plan in a list.
#[derive(Serialize, ToSchema)]
#[schema(as = PlanSummary)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SummaryView {
    #[schema(value_type = String)]
    id: PlanId,
    goal: String,
    status: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    changed_at: Timestamp,
}

#[derive(Serialize, ToSchema)]
#[schema(as = PlanList)]
pub(crate) struct ListView {
    plans: Vec<SummaryView>,
    /// `before` of the next page; null at the end.
    next: Option<String>,
}

/// Lists plans, newest first.
#[utoipa::path(
    get, path = "/v1/plans", tag = "plans",
    params(
        ("status" = Option<String>, Query, description = "Only plans with this status"),
        ("before" = Option<String>, Query, description = "Only plans older than this one"),
        ("limit" = Option<usize>, Query, description = "1 to 200; 50 by default"),
    ),
    responses((status = 200, description = "Plans", body = ListView))
)]
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let name = query.optional::<String>("status");
    let status = name.as_deref().and_then(PlanStatus::named);
    if name.is_some() && status.is_none() {
        let names = PlanStatus::ALL.map(|(name, _)| name).join(", ");
        query.fault("status", format!("must be one of {names}"));
    }
    let before = query.optional::<PlanId>("before");
    let limit = query.optional::<usize>("limit").unwrap_or(50).clamp(1, 200);
    query.finish()?;
    let found = shared.plans.list(caller.principal(), status, before, limit).await;
    let found = found.map_err(problem)?;
    let last = found.last().filter(|_| found.len() >= limit);
    let next = last.map(|plan| plan.id.to_string());
    let plans = found
        .into_iter()
        .map(|plan| SummaryView {
            id: plan.id,
            goal: plan.goal,
            status: plan.status,
            created_at: plan.created_at,
            changed_at: plan.changed_at,
        })
        .collect();
    Ok(reply::ok(&ListView { plans, next }))
}

/// Shows a plan with the state of its steps.
#[utoipa::path(
    get, path = "/v1/plans/{id}", tag = "plans",
    params(("id" = String, Path, description = "The plan")),
    responses((status = 200, description = "The plan", body = PlanDocument))
)]
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<PlanId>,
) -> Result<Response, Problem> {
    Ok(reply::ok(&shared.plans.get(caller.principal(), id).await.map_err(problem)?))
}

/// Removes a plan that is not under way, with its events. Its calls stay.
#[utoipa::path(
    delete, path = "/v1/plans/{id}", tag = "plans",
    params(("id" = String, Path, description = "The plan")),
    responses(
        (status = 204, description = "It is removed"),
        (status = 409, description = "It is under way"),
    )
)]
pub(crate) async fn remove(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<PlanId>,
) -> Result<Response, Problem> {
    shared.plans.remove(caller.principal(), id).await.map_err(problem)?;
    Ok(reply::nothing())
}

/// Says what a stored plan would do.
#[utoipa::path(
    get, path = "/v1/plans/{id}/preview", tag = "plans",
    params(("id" = String, Path, description = "The plan")),
    responses((status = 200, description = "The preview", body = PreviewDocument))
)]
pub(crate) async fn preview(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<PlanId>,
) -> Result<Response, Problem> {
    Ok(reply::ok(&shared.plans.preview_of(caller.principal(), id).await.map_err(problem)?))
}

/// A change of a plan.
#[derive(ToSchema)]
#[schema(as = PlanChange)]
#[expect(dead_code, reason = "it documents what `change` reads field by field")]
pub(crate) struct ChangeBody {
    /// `run`, `pause`, `resume`, `cancel`, `retry` or `set_intervention`.
    action: String,
    /// Step to retry from; without it all failed steps.
    step: Option<String>,
    /// For `set_intervention`: whether each step waits for a person.
    intervention: Option<bool>,
}

/// Starts, pauses, resumes, cancels or retries a plan.
#[utoipa::path(
    post, path = "/v1/plans/{id}/change", tag = "plans", request_body = ChangeBody,
    params(("id" = String, Path, description = "The plan")),
    responses(
        (status = 200, description = "The plan after the change", body = PlanDocument),
        (status = 409, description = "The change does not fit the status of the plan"),
        (status = 422, description = "Invalid body"),
    )
)]
pub(crate) async fn change(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<PlanId>,
    request: Request,
) -> Result<Response, Problem> {
    let body = body::json(&shared.edge, request).await?;
    let mut fields = Fields::of(&body)?;
    let action: Option<String> = fields.required("action");
    let step: Option<String> = fields.optional("step");
    let intervention: Option<bool> = fields.optional("intervention");
    let intent = match (action.as_deref(), step, intervention) {
        (Some("run"), None, None) => Some(Intent::Run),
        (Some("pause"), None, None) => Some(Intent::Pause),
        (Some("resume"), None, None) => Some(Intent::Resume),
        (Some("cancel"), None, None) => Some(Intent::Cancel),
        (Some("retry"), step, None) => Some(Intent::Retry(step)),
        (Some("set_intervention"), None, Some(on)) => Some(Intent::SetIntervention(on)),
        (Some(_), ..) => {
            let rule = "must be run, pause, resume, cancel, retry (with `step`) or set_intervention (with `intervention`)";
            fields.fault("action", rule);
            None
        }
        (None, ..) => None,
    };
    let intent = fields.finish(intent)?;
    let plan = shared.plans.change(caller.principal(), id, &intent).await.map_err(problem)?;
    Ok(reply::ok(&plan))
}

/// A change of a step.
#[derive(ToSchema)]
#[schema(as = PlanStepChange)]
#[expect(dead_code, reason = "it documents what `change_step` reads field by field")]
pub(crate) struct StepChangeBody {
    /// `resume`, `skip`, `edit` (with `payload`) or `replace` (with `result`).
    action: String,
    /// The payload of an edited step.
    #[schema(value_type = Option<Object>)]
    payload: Option<Json>,
    /// Outputs that stand for those of the step.
    #[schema(value_type = Option<Object>)]
    result: Option<Json>,
}

/// Lets a step begin that waits for a person, skips or edits it, or replaces its result.
#[utoipa::path(
    post, path = "/v1/plans/{id}/steps/{step}", tag = "plans", request_body = StepChangeBody,
    params(
        ("id" = String, Path, description = "The plan"),
        ("step" = String, Path, description = "The step"),
    ),
    responses(
        (status = 200, description = "The plan after the change", body = PlanDocument),
        (status = 409, description = "The change does not fit the status of the step"),
        (status = 422, description = "Invalid body, or a payload with problems"),
    )
)]
pub(crate) async fn change_step(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    NamedWithin(id, step): NamedWithin<PlanId, String>,
    request: Request,
) -> Result<Response, Problem> {
    let body = body::json(&shared.edge, request).await?;
    let mut fields = Fields::of(&body)?;
    let action: Option<String> = fields.required("action");
    let payload: Option<Json> = fields.optional_object("payload");
    let result: Option<Json> = fields.optional_object("result");
    let change = match (action.as_deref(), payload, result) {
        (Some("resume"), None, None) => Some(StepIntent::Resume),
        (Some("skip"), None, None) => Some(StepIntent::Skip),
        (Some("edit"), Some(payload), None) => Some(StepIntent::Edit(payload.to_value())),
        (Some("replace"), None, Some(result)) => Some(StepIntent::Replace(result.to_value())),
        (Some(_), ..) => {
            let rule = "must be resume, skip, edit (with `payload`) or replace (with `result`)";
            fields.fault("action", rule);
            None
        }
        (None, ..) => None,
    };
    let intent = Intent::Step(step, fields.finish(change)?);
    let plan = shared.plans.change(caller.principal(), id, &intent).await.map_err(problem)?;
    Ok(reply::ok(&plan))
}

/// Follows the events of a plan: those after `Last-Event-ID` or `after`, then new ones as they come.
#[utoipa::path(
    get, path = "/v1/plans/{id}/events", tag = "plans",
    params(
        ("id" = String, Path, description = "The plan"),
        ("after" = Option<u64>, Query, description = "As `Last-Event-ID`; 0 is the beginning and the default"),
        ("Last-Event-ID" = Option<u64>, Header, description = "Id of the last event received"),
    ),
    responses((status = 200, description = "Events", body = String, content_type = "text/event-stream"))
)]
pub(crate) async fn events(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<PlanId>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let by_query = query.optional::<u64>("after");
    query.finish()?;
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let last = last.filter(|text| !text.is_empty()).map(str::parse::<u64>).transpose();
    let last = last.map_err(|_| {
        let detail = "`Last-Event-ID` must be an id of ours, such as 17";
        Problem::new(&problem_codes::HEADER_INVALID, detail)
    })?;
    shared.plans.get(caller.principal(), id).await.map_err(problem)?;
    let slot = StreamSlot::take(&shared.edge, caller.known())?;
    let after = last.or(by_query).unwrap_or(0);
    let follow = shared.plans.follow(&caller.principal().tenant, id, after);
    Ok(sse::respond(Events(follow), slot))
}

struct Events(Follow);

impl Source for Events {
    async fn next(&mut self) -> Option<Bytes> {
        // A client that loses its stream comes back with the last id that it has.
        let (id, event) = self.0.next().await.ok()?;
        Some(sse::event(Some(&id.to_string()), &event.kind, &view(&event)))
    }
}

/// An event as the original names it: type, payload and time.
fn view(event: &PlanEvent) -> Map<String, Value> {
    let fields = json!({
        "type": event.kind, "payload": event.payload.to_value(),
        "timestamp": event.at.as_micros() / 1_000,
    });
    fields.as_object().cloned().unwrap_or_default()
}

fn problem(error: PlanError) -> Problem {
    match error {
        PlanError::Invalid(problems) => invalid(problems.into_iter().map(fault).collect()),
        PlanError::Conflict(message) => Problem::new(&problem_codes::CONFLICT, message),
        PlanError::UnknownStep(_) | PlanError::NotFound => Problem::not_found(),
        PlanError::Unreadable(error) => {
            tracing::error!(%error, "a plan cannot be read");
            Problem::new(&problem_codes::CONFLICT, "the plan was written by another version")
        }
        PlanError::Store(error) => error.into(),
    }
}

fn fault(problem: PlanProblem) -> Fault {
    Fault { pointer: problem.pointer, detail: problem.message }
}
