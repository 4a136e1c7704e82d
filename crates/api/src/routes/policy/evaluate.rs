//! Policy questions in the form of SomaAgentHub's policy engine, with additions.

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
    /// Tenant of the question; your own by default. Another needs an admin key of the operator's
    /// tenant.
    tenant: Option<String>,
    /// The action, such as `tool.execute`; `conversation.send` by default.
    action: Option<String>,
    /// The tool, or the subject of the action; `message` by default.
    resource: Option<String>,
    /// `args` and `metadata`, or the arguments themselves.
    #[schema(value_type = Option<Object>)]
    context: Option<Json>,
    session_id: Option<String>,
    persona_id: Option<String>,
    /// User of the asking system. Rules see it as an argument.
    user: Option<String>,
    /// Text of the prompt. Required without an action.
    prompt: Option<String>,
    role: Option<String>,
    #[schema(value_type = Option<Object>)]
    metadata: Option<Json>,
}

/// Answer of policy.
#[derive(Serialize, ToSchema)]
#[schema(as = Evaluation)]
pub(crate) struct EvaluationView<'a> {
    /// Whether it is allowed at once.
    allowed: bool,
    /// 1 if allowed, 0.5 if held, 0 if denied.
    score: f64,
    /// `low`, `medium`, `high` or `critical`.
    severity: &'static str,
    reasons: ReasonsView<'a>,
    decision: OwnView<'a>,
}

/// Reasons of the answer.
#[derive(Serialize, ToSchema)]
#[schema(as = EvaluationReasons)]
struct ReasonsView<'a> {
    /// Digest of the rules in force, as hexadecimal digits.
    constitution_hash: String,
    policy: Vec<ViolationView<'a>>,
}

/// The full decision.
#[derive(Serialize, ToSchema)]
#[schema(as = EvaluationDecision)]
pub(super) struct OwnView<'a> {
    /// Id of the recorded decision; none if the tool does not exist here.
    id: Option<u64>,
    /// `allow`, `hold` or `deny`.
    decision: &'static str,
    #[schema(value_type = Vec<Object>)]
    reasons: &'a [Reason],
    /// Obligations of the decision.
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

/// Asks policy about an action of another system.
///
/// The answer is 200 for every decision. It is recorded like any decision.
#[utoipa::path(
    post, path = "/v1/evaluate", tag = "policy", request_body = EvaluateBody,
    responses((status = 200, description = "The decision", body = EvaluationView<'static>))
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

/// Maximum bytes of a text field.
const MAX_TEXT_BYTES: usize = 256 << 10;

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
        if text.as_ref().is_some_and(|text| text.len() > MAX_TEXT_BYTES) {
            fields.fault(name, format!("is longer than {MAX_TEXT_BYTES} bytes"));
        }
        said.extend(text.map(|text| (name.to_owned(), Value::String(text))));
    }
    // Clients of the original API send additional fields.
    fields.ignore_the_rest();
    fields.finish(Some(()))?;
    let (args, of_context) = arguments(context, said)?;
    let metadata = metadata.or(of_context).unwrap_or_else(Json::empty_object);
    let message = || "message".parse().expect("our own name is valid");
    let resource = resource.unwrap_or_else(message);
    let own = "default".parse().expect("our own name is valid");
    Ok((PolicyQuestion { tenant: own, persona, action, resource, args, metadata, session }, tenant))
}

/// The arguments: `context.args` if present, else the context itself; with the prompt added.
/// Without a prompt, numbers keep their digits.
fn arguments(
    context: Option<Json>,
    said: serde_json::Map<String, Value>,
) -> Result<(Json, Option<Json>), Problem> {
    let context = context.unwrap_or_else(Json::empty_object);
    let mut fields = Fields::at("/context", &context)?;
    let (args, metadata) = (fields.optional_object("args"), fields.optional_object("metadata"));
    // Other members belong to the asking system; an invalid `args` must not be replaced by them.
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
