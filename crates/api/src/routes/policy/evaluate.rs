//! Asking policy in the words of SomaAgentHub's policy engine, and more.

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
use ringfence_engine::{PolicyAnswer, PolicyQuestion, data::Action};
use ringfence_types::{
    Digest, Json, Obligations, PersonaId, Reason, SessionId, TenantId, ToolName,
};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::{
    question::ask,
    scores::{ViolationView, score, severity, violations},
    tenant,
};
use crate::shared::Shared;

/// A question to policy: about an action and its resource, or, without an action, about a prompt.
#[derive(ToSchema)]
#[schema(as = EvaluationRequest)]
#[expect(dead_code, reason = "it documents what `read` reads field by field")]
pub(crate) struct EvaluateBody {
    /// Whose; your own tenant without one. Another needs an admin key of the operator's tenant.
    tenant: Option<String>,
    /// What is about to happen, such as `tool.execute`; `conversation.send` without one.
    action: Option<String>,
    /// A tool, or what the action is about; `message` without one.
    resource: Option<String>,
    /// `args` and `metadata`, or the arguments themselves.
    #[schema(value_type = Option<Object>)]
    context: Option<Json>,
    session_id: Option<String>,
    persona_id: Option<String>,
    /// For whom, in the words of whoever asks. Rules see it as an argument.
    user: Option<String>,
    /// What is said. Required without an action.
    prompt: Option<String>,
    role: Option<String>,
    #[schema(value_type = Option<Object>)]
    metadata: Option<Json>,
}

/// What policy says.
#[derive(Serialize, ToSchema)]
#[schema(as = Evaluation)]
pub(crate) struct EvaluationView<'a> {
    /// Whether it may happen at once.
    allowed: bool,
    /// 1 if allowed, 0.5 if a person must decide, 0 if denied.
    score: f64,
    /// `low`, `medium`, `high` or `critical`.
    severity: &'static str,
    reasons: ReasonsView<'a>,
    decision: OwnView<'a>,
}

/// Why.
#[derive(Serialize, ToSchema)]
#[schema(as = EvaluationReasons)]
struct ReasonsView<'a> {
    /// Of the rules in force, as hexadecimal digits.
    constitution_hash: String,
    policy: Vec<ViolationView<'a>>,
}

/// The decision as ours are.
#[derive(Serialize, ToSchema)]
#[schema(as = EvaluationDecision)]
pub(super) struct OwnView<'a> {
    /// Its name, under which it is on record; none if the tool is not known here.
    id: Option<u64>,
    /// `allow`, `hold` or `deny`.
    decision: &'static str,
    #[schema(value_type = Vec<Object>)]
    reasons: &'a [Reason],
    /// What must be kept to.
    #[schema(value_type = Object)]
    obligations: &'a Obligations,
    engine: &'a str,
    #[schema(value_type = String)]
    policy: Digest,
}

impl<'a> OwnView<'a> {
    pub(super) fn of(answered: &'a PolicyAnswer) -> Self {
        let decision = &answered.decision;
        Self {
            id: answered.id,
            decision: decision.verdict.name(),
            reasons: &decision.reasons,
            obligations: &decision.obligations,
            engine: &decision.engine,
            policy: decision.policy,
        }
    }
}

/// Asks policy about something that another system is about to do.
///
/// The answer is 200 whatever it is. It is on record like any decision.
#[utoipa::path(
    post, path = "/v1/evaluate", tag = "policy", request_body = EvaluateBody,
    responses((status = 200, description = "What policy says", body = EvaluationView<'static>))
)]
pub(crate) async fn evaluate(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    request: Request,
) -> Result<Response, Problem> {
    let body = body::json(&shared.edge, request).await?;
    let who = caller.principal();
    let (question, of) = read(&body)?;
    let question = PolicyQuestion { tenant: tenant(who, of)?, ..question };
    let answered = ask(&shared, &caller, question).await?;
    let decision = &answered.decision;
    Ok(reply::ok(&EvaluationView {
        allowed: decision.verdict == ringfence_types::Verdict::Allow,
        score: score(decision.verdict),
        severity: severity(decision.verdict),
        reasons: ReasonsView {
            constitution_hash: decision.policy.hex(),
            policy: violations(decision),
        },
        decision: OwnView::of(&answered),
    }))
}

/// What a text of an original client can hold.
const TEXT: usize = 256 << 10;

fn read(body: &Json) -> Result<(PolicyQuestion, Option<TenantId>), Problem> {
    let mut fields = Fields::of(body)?;
    let tenant: Option<TenantId> = fields.optional("tenant");
    let persona: Option<PersonaId> = fields.optional("persona_id");
    let session: Option<SessionId> = fields.optional("session_id");
    let is_prompt = !fields.has("action");
    let action: Action = fields.optional("action").unwrap_or(Action::ConversationSend);
    let resource: Option<ToolName> = fields.optional("resource");
    if resource.is_none() && !is_prompt {
        fields.fault("resource", "is required with an action");
    }
    let context = fields.optional_object("context");
    let metadata = fields.optional_object("metadata");
    let mut said = serde_json::Map::new();
    for name in ["user", "prompt", "role"] {
        if is_prompt && name == "prompt" && !fields.has(name) {
            fields.fault(name, "is required without an action");
        }
        let text: Option<String> = fields.optional(name);
        if text.as_ref().is_some_and(|text| text.len() > TEXT) {
            fields.fault(name, format!("is longer than {TEXT} bytes"));
        }
        said.extend(text.map(|text| (name.to_owned(), Value::String(text))));
    }
    // Clients of the original send what they like beside it.
    fields.ignore_the_rest();
    fields.finish(Some(()))?;
    let (args, of_context) = arguments(context, said)?;
    let metadata = metadata.or(of_context).unwrap_or_else(Json::empty_object);
    let message = || "message".parse().expect("our own name is valid");
    let resource = resource.unwrap_or_else(message);
    let own = "default".parse().expect("our own name is valid");
    Ok((PolicyQuestion { tenant: own, persona, action, resource, args, metadata, session }, tenant))
}

/// The arguments: `context.args` if there is such a thing, else the context itself; and what was
/// said. Digits of numbers stay as they came where nothing was said.
fn arguments(
    context: Option<Json>,
    said: serde_json::Map<String, Value>,
) -> Result<(Json, Option<Json>), Problem> {
    let context = context.unwrap_or_else(Json::empty_object);
    let mut fields = Fields::at("/context", &context)?;
    let (args, metadata) = (fields.optional_object("args"), fields.optional_object("metadata"));
    // What stands beside them is the asker's own; what is no object of theirs is not judged as another.
    fields.ignore_the_rest();
    fields.finish(Some(()))?;
    let args = args.unwrap_or_else(|| context.clone());
    if said.is_empty() {
        return Ok((args, metadata));
    }
    let mut whole = args.to_value();
    if let Value::Object(fields) = &mut whole {
        fields.extend(said);
    }
    let too_deep = || ringfence_edge::fields::invalid(vec![]);
    Ok((Json::from_value(&json!(whole)).ok_or_else(too_deep)?, metadata))
}
