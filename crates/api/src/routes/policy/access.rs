//! Policy questions in the form of the AuthZEN Authorization API 1.0.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{HeaderMap, HeaderName};
use ringfence_edge::{
    Problem, body,
    fields::{self, Fields},
    identity::{self, May},
    problem::{Fault, pointer},
    reply,
};
use ringfence_engine::{PolicyQuestion, data::Action};
use ringfence_types::{Json, PersonaId, Principal, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::{evaluate::OwnView, question::ask};
use crate::shared::Shared;

/// Maximum number of evaluations of one request.
const MAX_EVALUATIONS: usize = 50;

/// Maximum bytes of the documents of one request: each evaluation is recorded with the shared
/// parts.
const MAX_DOCUMENT_BYTES: usize = 8 << 20;

/// Question whether a subject may act on a resource.
#[derive(ToSchema)]
#[schema(as = AccessEvaluationRequest)]
#[expect(dead_code, reason = "it documents what `AccessQuestion::read` reads field by field")]
pub(crate) struct AccessBody {
    /// `type` and `id`. The id of a `persona` is the persona; any other type is only visible to
    /// rules.
    #[schema(value_type = Object)]
    subject: Json,
    /// `name`, such as `tool.execute`, and `properties`.
    #[schema(value_type = Object)]
    action: Json,
    /// `type` and `id` (the name, for a `tool`), and `properties`, whose `args` are the arguments.
    #[schema(value_type = Object)]
    resource: Json,
    #[schema(value_type = Option<Object>)]
    context: Option<Json>,
}

/// Several evaluations; members at the top are defaults for all of them.
#[derive(ToSchema)]
#[schema(as = AccessEvaluationsRequest)]
#[expect(dead_code, reason = "it documents what `several` reads field by field")]
pub(crate) struct AccessesBody {
    #[schema(value_type = Option<Object>)]
    subject: Option<Json>,
    #[schema(value_type = Option<Object>)]
    action: Option<Json>,
    #[schema(value_type = Option<Object>)]
    resource: Option<Json>,
    #[schema(value_type = Option<Object>)]
    context: Option<Json>,
    #[schema(value_type = Vec<Object>)]
    evaluations: Vec<Json>,
    /// `evaluations_semantic`: `execute_all`, `deny_on_first_deny` or `permit_on_first_permit`.
    #[schema(value_type = Option<Object>)]
    options: Option<Json>,
}

/// Answer to a question.
#[derive(Serialize, ToSchema)]
#[schema(as = AccessEvaluation)]
pub(crate) struct AccessView {
    /// `true` only if allowed: a held action is `false`.
    decision: bool,
    /// The full decision.
    #[schema(value_type = Object)]
    context: serde_json::Value,
}

/// One question as written.
#[derive(Debug, Clone, Deserialize)]
#[serde(expecting = "an object with `type` and `id`")]
struct Entity {
    #[serde(rename = "type")]
    kind: String,
    id: String,
    #[serde(default)]
    properties: Option<Json>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(expecting = "an object with `name`")]
struct ActionName {
    name: Action,
}

#[derive(Debug, Clone, Default)]
struct AccessQuestion {
    subject: Option<Entity>,
    action: Option<ActionName>,
    resource: Option<Entity>,
    context: Option<Json>,
}

impl AccessQuestion {
    fn read(fields: &mut Fields<'_>) -> Self {
        Self {
            subject: fields.optional("subject"),
            action: fields.optional("action"),
            resource: fields.optional("resource"),
            context: fields.optional_object("context"),
        }
    }

    /// Bytes of each unbounded member, by name.
    fn bytes(&self) -> [(&'static str, usize); 3] {
        let json = |json: &Option<Json>| json.as_ref().map_or(0, |json| json.as_str().len());
        let entity = |entity: &Option<Entity>| {
            let bytes = |one: &Entity| one.kind.len() + one.id.len() + json(&one.properties);
            entity.as_ref().map_or(0, bytes)
        };
        let (subject, resource) = (entity(&self.subject), entity(&self.resource));
        [("subject", subject), ("resource", resource), ("context", json(&self.context))]
    }

    fn or(self, other: &Self) -> Self {
        Self {
            subject: self.subject.or_else(|| other.subject.clone()),
            action: self.action.or_else(|| other.action.clone()),
            resource: self.resource.or_else(|| other.resource.clone()),
            context: self.context.or_else(|| other.context.clone()),
        }
    }

    fn question(self, who: &Principal, base: &str) -> Result<PolicyQuestion, Problem> {
        let missing =
            |name: &str| Fault { pointer: pointer(base, name), detail: "is required".to_owned() };
        let (subject, action, resource) = match (self.subject, self.action, self.resource) {
            (Some(subject), Some(action), Some(resource)) => (subject, action, resource),
            (subject, action, resource) => {
                let faults = [
                    subject.is_none().then(|| missing("subject")),
                    action.is_none().then(|| missing("action")),
                    resource.is_none().then(|| missing("resource")),
                ];
                return Err(fields::invalid(faults.into_iter().flatten().collect()));
            }
        };
        let name = resource.id.parse().map_err(|error: ringfence_types::InvalidId| {
            let at = pointer(&pointer(base, "resource"), "id");
            fields::invalid(vec![Fault { pointer: at, detail: error.to_string() }])
        })?;
        let persona = (subject.kind == "persona").then(|| subject.id.parse::<PersonaId>());
        let persona = persona.transpose().map_err(|error| {
            let at = pointer(&pointer(base, "subject"), "id");
            fields::invalid(vec![Fault { pointer: at, detail: error.to_string() }])
        })?;
        let about = json!({
            "subject": {"type": subject.kind, "id": subject.id, "properties": subject.properties},
            "resource": {"type": resource.kind, "id": resource.id},
            "context": self.context,
        });
        Ok(PolicyQuestion {
            tenant: who.tenant.clone(),
            persona,
            action: action.name,
            resource: name,
            args: args(resource.properties.as_ref(), &pointer(base, "resource"))?,
            metadata: Json::of(&about).unwrap_or_else(|_| Json::empty_object()),
            session: None,
        })
    }
}

/// The arguments among the properties of a resource, or all of them.
fn args(properties: Option<&Json>, base: &str) -> Result<Json, Problem> {
    let Some(properties) = properties else { return Ok(Json::empty_object()) };
    let mut fields = Fields::at(&pointer(base, "properties"), properties)?;
    let within = fields.optional_object("args");
    fields.ignore_the_rest();
    fields.finish(Some(()))?;
    Ok(within.unwrap_or_else(|| properties.clone()))
}

/// Evaluates whether a subject may act on a resource.
#[utoipa::path(
    post, path = "/access/v1/evaluation", tag = "policy", request_body = AccessBody,
    responses((status = 200, description = "The decision", body = AccessView))
)]
pub(crate) async fn evaluation(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    request: Request,
) -> Result<Response, Problem> {
    let headers = request.headers().clone();
    let body = body::json(&shared.edge, request).await?;
    let mut fields = Fields::of(&body)?;
    let asked = AccessQuestion::read(&mut fields);
    fields.ignore_the_rest();
    fields.finish(Some(()))?;
    let question = asked.question(caller.principal(), "")?;
    let view = answer(&shared, &caller, question).await?;
    Ok(echoed(reply::ok(&view), &headers))
}

async fn answer(
    shared: &Shared,
    caller: &identity::Caller,
    question: PolicyQuestion,
) -> Result<AccessView, Problem> {
    let answered = ask(shared, caller, question).await?;
    let decision = answered.decision.verdict == Verdict::Allow;
    let context = serde_json::to_value(OwnView::of(&answered)).unwrap_or_default();
    Ok(AccessView { decision, context })
}

/// Evaluates several questions, in order.
///
/// At most 50 evaluations, and 8 MiB of documents together: a shared member counts once for each
/// evaluation that uses it.
#[utoipa::path(
    post, path = "/access/v1/evaluations", tag = "policy", request_body = AccessesBody,
    responses((status = 200, description = "The decisions: `evaluations`, in order", body = Object))
)]
pub(crate) async fn evaluations(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    request: Request,
) -> Result<Response, Problem> {
    let headers = request.headers().clone();
    let body = body::json(&shared.edge, request).await?;
    let who = caller.principal();
    let (questions, semantic) = several(who, &body)?;
    let mut views = Vec::new();
    for question in questions {
        let view = answer(&shared, &caller, question).await?;
        let is_last = semantic.ends_with(view.decision);
        views.push(view);
        if is_last {
            break;
        }
    }
    Ok(echoed(reply::ok(&json!({"evaluations": views})), &headers))
}

/// Condition for stopping before the end.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Semantic {
    #[default]
    ExecuteAll,
    DenyOnFirstDeny,
    PermitOnFirstPermit,
}

impl Semantic {
    const fn ends_with(self, decision: bool) -> bool {
        match self {
            Semantic::ExecuteAll => false,
            Semantic::DenyOnFirstDeny => !decision,
            Semantic::PermitOnFirstPermit => decision,
        }
    }
}

fn several(who: &Principal, body: &Json) -> Result<(Vec<PolicyQuestion>, Semantic), Problem> {
    let mut fields = Fields::of(body)?;
    let shared = AccessQuestion::read(&mut fields);
    let evaluations: Vec<Json> = fields.optional("evaluations").unwrap_or_default();
    if evaluations.len() > MAX_EVALUATIONS {
        fields.fault("evaluations", format!("has more than {MAX_EVALUATIONS} entries"));
    }
    let semantic = fields.inner("options", |options| {
        let semantic = options.optional("evaluations_semantic");
        options.ignore_the_rest();
        semantic
    });
    fields.ignore_the_rest();
    fields.finish(Some(()))?;
    // By the specification, a request without a list is one question.
    if evaluations.is_empty() {
        return Ok((vec![shared.question(who, "")?], Semantic::ExecuteAll));
    }
    let mut asked = Vec::with_capacity(evaluations.len());
    for (index, one) in evaluations.iter().enumerate() {
        let base = format!("/evaluations/{index}");
        let mut fields = Fields::at(&base, one)?;
        asked.push((AccessQuestion::read(&mut fields), base));
        fields.ignore_the_rest();
        fields.finish(Some(()))?;
    }
    check_bytes(&shared, &asked)?;
    let questions = asked.into_iter().map(|(own, base)| own.or(&shared).question(who, &base));
    Ok((questions.collect::<Result<_, _>>()?, semantic.flatten().unwrap_or_default()))
}

/// Checks the recorded size: a few shared bytes are many bytes on record.
fn check_bytes(shared: &AccessQuestion, asked: &[(AccessQuestion, String)]) -> Result<(), Problem> {
    let count = asked.len();
    let own =
        asked.iter().map(|(own, _)| own.bytes().map(|(_, bytes)| bytes).iter().sum::<usize>());
    let mut total: usize = own.sum();
    let mut faults = Vec::new();
    for (index, (name, bytes)) in shared.bytes().into_iter().enumerate() {
        // An evaluation with its own value does not use the shared one.
        let takers = asked.iter().filter(|(own, _)| own.bytes()[index].1 == 0).count();
        total = total.saturating_add(bytes * takers);
        if bytes * takers > MAX_DOCUMENT_BYTES {
            let detail = format!("has {bytes} bytes and is shared by {takers} evaluations");
            faults.push(Fault { pointer: pointer("", name), detail });
        }
    }
    if total <= MAX_DOCUMENT_BYTES {
        return Ok(());
    }
    let detail = format!(
        "{count} evaluations with what they share have {total} bytes, and {MAX_DOCUMENT_BYTES} may be asked \
         about at once: send fewer, or share less"
    );
    faults.insert(0, Fault { pointer: pointer("", "evaluations"), detail });
    Err(fields::invalid(faults))
}

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The response with the client's request id, as the specification asks.
fn echoed(mut response: Response, asked: &HeaderMap) -> Response {
    if let Some(id) = asked.get(&REQUEST_ID).filter(|id| id.len() <= 256) {
        response.headers_mut().insert(REQUEST_ID, id.clone());
    }
    response
}

/// Shows the endpoints for clients that discover them, under the requested host name. A proxy that
/// adds TLS publishes its own.
#[utoipa::path(
    get, path = "/.well-known/authzen-configuration", tag = "policy",
    responses((status = 200, description = "The endpoints", body = Object))
)]
pub(crate) async fn configuration(headers: HeaderMap) -> Response {
    let host = headers.get(http::header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("");
    let base = format!("http://{host}");
    reply::ok(&json!({
        "policy_decision_point": base,
        "access_evaluation_endpoint": format!("{base}/access/v1/evaluation"),
        "access_evaluations_endpoint": format!("{base}/access/v1/evaluations"),
    }))
}
