//! Executing a skill. The answer is 200 for every end of the execution: see `success`.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    response::Response,
};
use ringfence_edge::{
    Problem, body,
    fields::Fields,
    identity::{self, May},
    reply, setup_failure,
};
use ringfence_engine::{CallRequest, Refused};
use ringfence_types::{
    Call, Json, Produced, State as CallState, Timestamp, ToolName, json::canonical,
};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{
    routes::calls::create::{idempotency_key, unrecorded},
    shared::Shared,
    views::call::{finished, millis},
};

/// Request to execute a skill.
#[derive(ToSchema)]
#[schema(as = ExecutionRequest)]
#[expect(dead_code, reason = "it documents what `SkillRequest::read` reads field by field")]
pub(crate) struct SkillExecuteBody {
    /// Name of the skill.
    skill: String,
    /// Arguments.
    #[schema(value_type = Object)]
    args: Json,
    request_id: Option<String>,
    actor_id: Option<String>,
    actor_type: Option<String>,
    #[schema(value_type = Option<Object>)]
    metadata: Option<Json>,
    /// Whether it must run even if the result of an equal execution is remembered.
    #[schema(default = false)]
    fresh: Option<bool>,
}

/// Result of an execution.
#[derive(Serialize, ToSchema)]
#[schema(as = ExecutionResult)]
pub(crate) struct SkillExecutionView {
    #[schema(value_type = String)]
    execution_id: Uuid,
    skill: String,
    #[schema(value_type = Option<Object>)]
    result: Option<Json>,
    logs: Vec<LogView>,
    inputs_hash: String,
    outputs_hash: String,
    provenance: ProvenanceView,
    execution_time_ms: f64,
    success: bool,
    /// Error, without a result.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<FailureView>,
}

/// Log line of an execution.
#[derive(Serialize, ToSchema)]
#[schema(as = LogEntry)]
struct LogView {
    #[schema(value_type = String, format = DateTime)]
    timestamp: Timestamp,
    /// `INFO`, `WARNING` or `ERROR`.
    level: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    context: Option<serde_json::Value>,
}

/// Caller, skill and digests of an execution.
#[derive(Serialize, ToSchema)]
#[schema(as = ProvenanceRecord)]
struct ProvenanceView {
    #[schema(value_type = String)]
    execution_id: Uuid,
    skill_name: String,
    skill_version: String,
    actor_id: Option<String>,
    actor_type: Option<String>,
    inputs_hash: String,
    outputs_hash: String,
    tool_ids: Vec<String>,
    #[schema(value_type = String, format = DateTime)]
    timestamp: Timestamp,
    execution_time_ms: f64,
    success: bool,
    error_message: Option<String>,
}

/// Error of an execution.
#[derive(Clone, Serialize, ToSchema)]
#[schema(as = ExecutionError)]
struct FailureView {
    /// Stable code.
    code: String,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    details: Option<Json>,
}

/// Executes a skill and waits for the end.
#[utoipa::path(
    post, path = "/skills/execute", tag = "skills", request_body = SkillExecuteBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "As for `POST /v1/calls`")),
    responses(
        (status = 200, description = "The result; see `success`", body = SkillExecutionView),
        (status = 409, description = "The execution with this idempotency key has not ended"),
        (status = 410, description = "The records of the execution with this idempotency key were erased"),
        (status = 422, description = "Invalid body or idempotency key"),
    )
)]
pub(crate) async fn execute(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    request: Request,
) -> Result<Response, Problem> {
    let idempotency_key = idempotency_key(request.headers())?;
    let body = body::json(&shared.edge, request).await?;
    let asked = SkillRequest::read(&body)?;
    let Ok(tool) = asked.skill.parse::<ToolName>() else {
        let error = Refused::UnknownTool { name: asked.skill.clone() };
        return refusal(&shared, asked, &error);
    };
    let call = CallRequest {
        metadata: asked.call_metadata(),
        idempotency_key,
        fresh: asked.fresh,
        trace: Some(caller.trace().clone()),
        ..CallRequest::new(tool, asked.args.clone())
    };
    let mut ticket = match shared.engine.call(caller.principal(), call).await {
        Ok(ticket) => ticket,
        Err(error) => return refusal(&shared, asked, &error),
    };
    let call = ticket.wait(shared.edge.config().max_wait).await;
    let call = call.ok_or_else(|| unrecorded(&shared, &ticket))?;
    match setup_failure(&call) {
        Some(problem) => Err(problem),
        None => Ok(reply::ok(&asked.ended(&call))),
    }
}

/// A refusal because of the skill is a result; any other is a problem.
fn refusal(shared: &Shared, asked: SkillRequest, error: &Refused) -> Result<Response, Problem> {
    let skill = &asked.skill;
    let (code, message) = match error {
        Refused::UnknownTool { .. } | Refused::UnknownVersion { .. } => {
            ("skill_not_found", format!("Skill not found: {skill}"))
        }
        Refused::BrokenTool { .. } => ("skill_broken", error.to_string()),
        Refused::NotActive { .. } => ("tool_not_active", error.to_string()),
        Refused::InvalidArguments { violations, .. } => {
            let all: Vec<_> = violations.iter().map(|one| one.message.as_str()).collect();
            ("input_invalid", format!("Input validation failed for {skill}: {}", all.join("; ")))
        }
        other => return Err(Problem::from(other)),
    };
    let failure = FailureView { code: code.to_owned(), message, details: None };
    Ok(reply::ok(&asked.refused(shared.engine.clock().now(), failure)))
}

struct SkillRequest {
    skill: String,
    args: Json,
    request_id: Option<String>,
    actor_id: Option<String>,
    actor_type: Option<String>,
    metadata: Option<Json>,
    fresh: bool,
}

/// End of an execution.
struct Ended {
    id: Uuid,
    version: String,
    at: Timestamp,
    took: Duration,
    outputs_hash: String,
    produced: Result<Json, FailureView>,
}

impl SkillRequest {
    fn read(body: &Json) -> Result<Self, Problem> {
        let mut fields = Fields::of(body)?;
        let skill: Option<String> = fields.required("skill");
        let args = fields.required_object("args");
        let request_id = fields.optional("request_id");
        let actor_id = fields.optional("actor_id");
        let actor_type = fields.optional("actor_type");
        let metadata = fields.optional_object("metadata");
        let fresh = fields.optional("fresh").unwrap_or_default();
        fields.ignore_the_rest();
        let (skill, args) = fields.finish(skill.zip(args))?;
        let skill = skill.chars().take(200).collect();
        Ok(Self { skill, args, request_id, actor_id, actor_type, metadata, fresh })
    }

    /// Metadata of the client, stored with the call.
    fn call_metadata(&self) -> Json {
        let whole = json!({
            "request_id": self.request_id, "actor_id": self.actor_id,
            "actor_type": self.actor_type, "metadata": self.metadata,
        });
        Json::of(&whole).unwrap_or_else(|_| Json::empty_object())
    }

    fn refused(self, at: Timestamp, failure: FailureView) -> SkillExecutionView {
        let inputs_hash = canonical::python_hash(&self.args);
        let ended = Ended {
            id: Uuid::new_v4(),
            version: "unknown".to_owned(),
            at,
            took: Duration::ZERO,
            outputs_hash: String::new(),
            produced: Err(failure),
        };
        self.view(at, inputs_hash, ended)
    }

    fn ended(self, call: &Call) -> SkillExecutionView {
        let finished = finished(call);
        let ended = Ended {
            id: call.asked.id.0,
            version: call.asked.tool.version.clone(),
            at: call.changed_at,
            took: finished.map(|finished| finished.duration).unwrap_or_default(),
            outputs_hash: finished.map(|f| f.outputs_hash.clone()).unwrap_or_default(),
            produced: produced(call),
        };
        self.view(call.asked.accepted_at, call.asked.inputs_hash.clone(), ended)
    }

    fn view(self, began_at: Timestamp, inputs_hash: String, ended: Ended) -> SkillExecutionView {
        let logs = logs(&self.skill, began_at, &ended);
        let (result, error) = match ended.produced {
            Ok(result) => (Some(result), None),
            Err(failure) => (None, Some(failure)),
        };
        let success = error.is_none();
        let execution_time_ms = millis(ended.took);
        let provenance = ProvenanceView {
            execution_id: ended.id,
            skill_name: self.skill.clone(),
            skill_version: ended.version,
            actor_id: self.actor_id,
            actor_type: self.actor_type,
            inputs_hash: inputs_hash.clone(),
            outputs_hash: ended.outputs_hash.clone(),
            tool_ids: Vec::new(),
            timestamp: ended.at,
            execution_time_ms,
            success,
            error_message: error.as_ref().map(|error| error.message.clone()),
        };
        SkillExecutionView {
            execution_id: ended.id,
            skill: self.skill,
            result,
            logs,
            inputs_hash,
            outputs_hash: ended.outputs_hash,
            provenance,
            execution_time_ms,
            success,
            error,
        }
    }
}

/// The result of a call, or its error with the messages of the Code Executor Service.
fn produced(call: &Call) -> Result<Json, FailureView> {
    let skill = &call.asked.tool.name;
    let (code, message) = match &call.state {
        CallState::Finished(finished) => match &finished.produced {
            Produced::Result(result) => return Ok(result.clone()),
            Produced::Error(error) => {
                let (code, message) = (error.code.to_string(), error.message.clone());
                return Err(FailureView { code, message, details: error.details.clone() });
            }
        },
        CallState::Held { .. } => (
            "approval_required",
            format!("Skill '{skill}' requires policy approval due to side-effect flags."),
        ),
        CallState::Denied { reasons } => {
            let all: Vec<_> = reasons.iter().map(|reason| reason.message.as_str()).collect();
            ("policy_denied", format!("Policy does not allow '{skill}': {}", all.join("; ")))
        }
        CallState::Expired { .. } => {
            ("approval_expired", format!("'{skill}' was not approved in time"))
        }
        CallState::Cancelled { .. } => ("cancelled", "Execution was cancelled".to_owned()),
        CallState::OutcomeUnknown => {
            ("outcome_unknown", "The service stopped during the execution".to_owned())
        }
        other => ("still_running", format!("Execution is still {}", other.name())),
    };
    let details = json!({"call": format!("/v1/calls/{}", call.asked.id)});
    Err(FailureView { code: code.to_owned(), message, details: Json::of(&details).ok() })
}

fn logs(skill: &str, began_at: Timestamp, ended: &Ended) -> Vec<LogView> {
    let began = LogView {
        timestamp: began_at,
        level: "INFO",
        message: format!("Executing skill: {skill}"),
        context: None,
    };
    let (level, message, context) = match &ended.produced {
        Ok(_) => ("INFO", format!("Skill executed: {skill}"), None),
        Err(failure) => ("ERROR", failure.message.clone(), Some(json!({"code": failure.code}))),
    };
    vec![began, LogView { timestamp: ended.at, level, message, context }]
}
