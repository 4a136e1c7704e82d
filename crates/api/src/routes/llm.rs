//! Answers of models, with the paths and fields of SomaAgent 01. Each is a call of `llm_generate`.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    response::Response,
};
use bytes::Bytes;
use http::StatusCode;
use ringfence_edge::{
    Problem, body,
    fields::Fields,
    identity::{self, May},
    problem_codes, reply,
    sse::{self, Source, StreamSlot},
};
use ringfence_engine::{CallRequest, OutputChunk, OutputStream, Ticket};
use ringfence_types::{
    Call, CallError, ErrorCode, Json, PersonaId, Principal, Produced, SessionId,
    State as CallState, TenantId,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::{
    routes::calls::create::{idempotency_key, refusal, unrecorded},
    shared::Shared,
    views::call::CallView,
};

/// Name of the tool.
const TOOL: &str = "llm_generate";

/// A request for an answer of a model.
#[derive(ToSchema)]
#[schema(as = LlmInvokeRequest)]
#[expect(dead_code, reason = "it documents what `read` reads field by field")]
pub(crate) struct InvokeBody {
    /// `dialogue`, `escalation` or `slm`: the role of the model profile.
    role: Option<String>,
    session_id: Option<String>,
    persona_id: Option<String>,
    /// The key's own tenant, if it is given.
    tenant: Option<String>,
    /// Messages with `role` (`system`, `user` or `assistant`) and `content`.
    #[schema(value_type = Vec<Object>)]
    messages: Json,
    /// `model`, `temperature` and `kwargs` instead of the profile's. The server of a profile cannot be replaced.
    #[schema(value_type = Option<Object>)]
    overrides: Option<Json>,
}

/// An answer of a model.
#[derive(Serialize, ToSchema)]
#[schema(as = LlmInvokeResult)]
pub(crate) struct InvokeView {
    content: String,
    usage: UsageView,
    model: String,
    base_url: String,
    /// Call that is on record.
    call_id: String,
}

/// Tokens of an answer.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = LlmUsage)]
struct UsageView {
    input_tokens: u64,
    output_tokens: u64,
}

/// Result of the tool.
#[derive(Deserialize)]
struct Generated {
    content: String,
    model: String,
    #[serde(default)]
    base_url: String,
    finish_reason: String,
    usage: UsageView,
}

/// Asks a model and waits for its answer: a call of `llm_generate`.
#[utoipa::path(
    post, path = "/v1/llm/invoke", tag = "conversations", request_body = InvokeBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "As for `POST /v1/calls`")),
    responses(
        (status = 200, description = "The answer", body = InvokeView),
        (status = 202, description = "The call is running or held", body = CallView<'static>),
        (status = 400, description = "No model profile has the role"),
        (status = 403, description = "Policy does not allow it"),
        (status = 409, description = "The call with this idempotency key has not ended"),
        (status = 410, description = "The records of the call with this idempotency key were erased"),
        (status = 422, description = "Invalid body or idempotency key"),
        (status = 502, description = "The model server failed"),
        (status = 504, description = "The model server did not answer in time"),
    )
)]
pub(crate) async fn invoke(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    request: Request,
) -> Result<Response, Problem> {
    let key = idempotency_key(request.headers())?;
    let body = body::json(&shared.edge, request).await?;
    let call = read(&body, caller.principal())?;
    let trace = Some(caller.trace().clone());
    let call = CallRequest { idempotency_key: key, trace, ..call };
    let ticket = shared.engine.call(caller.principal(), call).await;
    let mut ticket = ticket.map_err(|error| refusal(&shared, &caller, &error))?;
    let call = ticket.wait(shared.edge.config().max_wait).await;
    let call = call.ok_or_else(|| unrecorded(&shared, &ticket))?;
    match ended(&call) {
        Ok(Some(generated)) => Ok(reply::ok(&InvokeView {
            content: generated.content,
            usage: generated.usage,
            model: generated.model,
            base_url: generated.base_url,
            call_id: call.asked.id.to_string(),
        })),
        Ok(None) => Ok(reply::json(StatusCode::ACCEPTED, &CallView::of(&call))),
        Err(problem) => Err(problem),
    }
}

/// Asks a model and streams its answer in chunks of the chat completions API; `data: [DONE]` is the last event,
/// and `data: {"error": …}` where there is no answer. A client that leaves cancels the call.
#[utoipa::path(
    post, path = "/v1/llm/invoke/stream", tag = "conversations", request_body = InvokeBody,
    responses(
        (status = 200, description = "Chunks", body = String, content_type = "text/event-stream"),
        (status = 422, description = "Invalid body"),
    )
)]
pub(crate) async fn stream(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    request: Request,
) -> Result<Response, Problem> {
    let body = body::json(&shared.edge, request).await?;
    let call = read(&body, caller.principal())?;
    let call = CallRequest { detached: true, trace: Some(caller.trace().clone()), ..call };
    let slot = StreamSlot::take(&shared.edge, caller.known())?;
    let ticket = shared.engine.call(caller.principal(), call).await;
    let ticket = ticket.map_err(|error| refusal(&shared, &caller, &error))?;
    let who = caller.principal().clone();
    Ok(sse::respond(Chunks::new(shared, who, ticket), slot))
}

fn read(body: &Json, who: &Principal) -> Result<CallRequest, Problem> {
    let mut fields = Fields::of(body)?;
    let role: Option<String> = fields.optional("role");
    let session: Option<SessionId> = fields.optional("session_id");
    let persona: Option<PersonaId> = fields.optional("persona_id");
    let tenant: Option<TenantId> = fields.optional("tenant");
    if tenant.is_some_and(|tenant| tenant != who.tenant) {
        fields.fault("tenant", "is not the tenant of this key");
    }
    let messages: Option<Value> = fields.required("messages");
    let overrides = fields.optional_object("overrides").map(|overrides| overrides.to_value());
    let mut args = json!({"messages": messages});
    if let Some(role) = role {
        args["role"] = role.into();
    }
    for (name, value) in overrides.as_ref().and_then(Value::as_object).into_iter().flatten() {
        match name.as_str() {
            "model" | "temperature" | "max_tokens" => args[name] = value.clone(),
            "kwargs" => args["extra"] = value.clone(),
            "base_url" => fields.fault("overrides", "the server of a profile cannot be replaced"),
            _ => fields.fault("overrides", format!("has an unknown field `{name}`")),
        }
    }
    let args = Json::from_value(&args);
    if args.is_none() {
        fields.fault("messages", "is nested too deep");
    }
    let args = fields.finish(args)?;
    let tool = TOOL.parse().expect("a valid name");
    Ok(CallRequest { session, persona, ..CallRequest::new(tool, args) })
}

/// The answer of a call that has ended; none if it has not.
fn ended(call: &Call) -> Result<Option<Generated>, Problem> {
    let failed = |detail: String| {
        Problem::new(&problem_codes::MODEL_FAILED, detail).with("call_id", call.asked.id)
    };
    match &call.state {
        CallState::Finished(finished) => match &finished.produced {
            Produced::Result(result) => result.read().map(Some).map_err(|_| {
                // Policy may have masked parts of it.
                failed("the answer is not available in this form; see the call".to_owned())
            }),
            Produced::Error(CallError { code, message, .. }) => Err(match code {
                ErrorCode::ProfileMissing => Problem::new(&problem_codes::PROFILE_MISSING, message),
                ErrorCode::ModelTimeout | ErrorCode::Timeout => {
                    Problem::new(&problem_codes::TIMEOUT, message)
                }
                _ => Problem::new(&problem_codes::MODEL_FAILED, message),
            }
            .with("call_id", call.asked.id)),
        },
        CallState::Denied { reasons } => {
            let problem = Problem::new(&problem_codes::POLICY_DENIED, "policy does not allow it");
            Err(problem.with("reasons", reasons).with("call_id", call.asked.id))
        }
        state if state.is_final() => Err(failed(format!("the call is {}", state.name()))),
        _ => Ok(None),
    }
}

/// Events of a streamed answer.
struct Chunks {
    shared: Arc<Shared>,
    who: Principal,
    ticket: Ticket,
    stage: Stage,
    /// Bytes of the output that were read.
    offset: u64,
    /// Bytes of a character that is not complete yet.
    rest: Vec<u8>,
    ready: VecDeque<Bytes>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Begin,
    Text,
    End,
    Over,
}

/// Wait for the end of a call whose output has ended.
const END_WAIT: Duration = Duration::from_secs(60);

impl Chunks {
    fn new(shared: Arc<Shared>, who: Principal, ticket: Ticket) -> Self {
        let (stage, offset, rest) = (Stage::Begin, 0, Vec::new());
        Self { shared, who, ticket, stage, offset, rest, ready: VecDeque::new() }
    }

    fn data(&mut self, value: &Value) {
        self.ready.push_back(Bytes::from(format!("data: {value}\n\n")));
    }

    fn chunk(&mut self, delta: Value, finish: Option<&str>, model: &str) {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        let id = format!("chatcmpl-{}", self.ticket.id());
        self.data(&json!({
            "id": id, "object": "chat.completion.chunk", "model": model, "choices": [choice],
        }));
    }

    async fn step(&mut self) {
        match self.stage {
            Stage::Begin => {
                let started = self.ticket.started().await;
                let is_running = started.is_some_and(|call| call.hold().is_none());
                self.stage = if is_running { Stage::Text } else { Stage::End };
                if is_running {
                    self.chunk(json!({"role": "assistant", "content": ""}), None, "");
                }
            }
            Stage::Text => {
                let (id, stream) = (self.ticket.id(), OutputStream::Stdout);
                let read = self.shared.engine.output(&self.who, id, stream, self.offset).await;
                match read {
                    Ok(Some(chunk)) => self.text(&chunk),
                    Ok(None) | Err(_) => self.stage = Stage::End,
                }
            }
            Stage::End => {
                let call = self.ticket.wait(END_WAIT).await;
                self.finish(call.as_deref());
                self.stage = Stage::Over;
            }
            Stage::Over => {}
        }
    }

    fn text(&mut self, chunk: &OutputChunk) {
        self.offset = chunk.next;
        self.rest.extend_from_slice(&chunk.bytes);
        let whole = match std::str::from_utf8(&self.rest) {
            Ok(_) => self.rest.len(),
            Err(error) => error.valid_up_to(),
        };
        let text: Vec<u8> = self.rest.drain(..whole).collect();
        let text = String::from_utf8_lossy(&text);
        if !text.is_empty() {
            self.chunk(json!({"content": text}), None, "");
        }
        if chunk.is_end {
            self.stage = Stage::End;
        }
    }

    fn finish(&mut self, call: Option<&Call>) {
        let Some(call) = call else {
            return self.data(&json!({"error": "the call could not be recorded"}));
        };
        match ended(call) {
            Ok(Some(generated)) => {
                // Nothing is shown of an answer that policy masks before it is whole.
                if self.offset == 0 && !generated.content.is_empty() {
                    self.chunk(json!({"content": generated.content}), None, &generated.model);
                }
                self.chunk(json!({}), Some(&generated.finish_reason), &generated.model);
                let UsageView { input_tokens, output_tokens } = generated.usage;
                self.data(&json!({
                    "id": format!("chatcmpl-{}", self.ticket.id()),
                    "object": "chat.completion.chunk", "model": generated.model, "choices": [],
                    "usage": {
                        "prompt_tokens": input_tokens, "completion_tokens": output_tokens,
                        "total_tokens": input_tokens.saturating_add(output_tokens),
                    },
                }));
            }
            Ok(None) => {
                let (id, state) = (call.asked.id, call.state.name());
                self.data(&json!({"error": format!("call {id} is {state}"), "call_id": id}));
            }
            Err(problem) => {
                let text = format!("provider_error: {}", problem.detail());
                self.data(&json!({"error": text, "call_id": call.asked.id}));
            }
        }
        self.ready.push_back(Bytes::from_static(b"data: [DONE]\n\n"));
    }
}

impl Source for Chunks {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready);
            }
            if self.stage == Stage::Over {
                return None;
            }
            self.step().await;
        }
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        if self.stage == Stage::Over {
            return;
        }
        let (shared, who, id) = (self.shared.clone(), self.who.clone(), self.ticket.id());
        tokio::spawn(async move {
            if let Err(error) = shared.engine.cancel(&who, id).await {
                tracing::warn!(error = %error, "a call whose client left is not cancelled");
            }
        });
    }
}
