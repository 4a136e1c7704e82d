//! `llm_generate`: an answer of a model server, streamed into the output of the call.
//!
//! The servers are those of the model profiles, so the arguments name a role and never an address. Tokens
//! are part of the end of the call, also where the answer failed, and are counted by the call's budgets.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use ringfence_llm::{
    Caller, ChatMessage, ChatRequest, Delta, Error as LlmError, Finish, Reply, Role,
};
use ringfence_policy::{Action, Permit};
use ringfence_registry::{Schema, Violation};
use ringfence_sandbox::Output;
use ringfence_store::{OtherUsage, Used};
use ringfence_types::{
    CallError, ErrorCode, Flow, Json, ReceiptDetails, RedactRoot, SandboxNetwork, Tokens,
    error_chain,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::{Builtin, Job, Starting, UsedSandbox, error, object, produced};
use crate::{
    obligations,
    record::Ended,
    runners::{
        program::kept,
        work::{Started, Work, ended, failure, without_program},
    },
};

/// Time limit of a call: small machines write slowly.
pub(super) const WALL: Duration = Duration::from_secs(600);

/// Bound of an answer in tokens, if the call names none.
const USUAL_MAX_TOKENS: u32 = 1_024;
/// Bytes of an answer that are kept as output; the result has the whole.
const KEPT_OUTPUT: u64 = 1 << 20;
/// Answers that are asked for until one fits the schema.
const MAX_ANSWERS: u32 = 2;

pub(super) const TOOL: Builtin = Builtin {
    name: "llm_generate",
    description: "Asks a language model for a text, or for JSON that fits a schema. The model is the \
                  one that the server's model profiles name for the role.",
    flags: &["none"],
    input,
    output: || {
        object(
            &["content", "model", "role", "finish_reason", "usage"],
            json!({
                "content": {"type": "string"},
                "json": {"description": "The answer as JSON, if a schema was given"},
                "model": {"type": "string"},
                "base_url": {"type": "string"},
                "role": {"enum": ["dialogue", "escalation", "slm"]},
                "finish_reason": {"enum": ["stop", "length", "content_filter", "tool_calls"]},
                "usage": object(
                    &["input_tokens", "output_tokens"],
                    json!({
                        "input_tokens": {"type": "integer"},
                        "output_tokens": {"type": "integer"},
                    }),
                ),
            }),
        )
    },
    argument_errors: &[],
    sandbox: UsedSandbox::None,
    queued: true,
    repeatable: false,
    action: || Action::ToolExecute,
    start,
};

fn input() -> Value {
    let roles = json!(["dialogue", "escalation", "slm"]);
    let text = json!({"type": "string", "maxLength": 400_000});
    let message = object(
        &["role", "content"],
        json!({"role": {"enum": ["system", "user", "assistant"]}, "content": text}),
    );
    let mut schema = object(
        &[],
        json!({
            "prompt": {"type": "string", "minLength": 1, "maxLength": 400_000},
            "messages": {"type": "array", "minItems": 1, "maxItems": 200, "items": message},
            "system": text,
            "role": {"enum": roles, "description": "Role of the model; default: dialogue"},
            "profile": {"enum": roles, "description": "Another name of `role`"},
            "model": {
                "type": "string", "minLength": 1, "maxLength": 200,
                "description": "Model of the same server instead of the profile's",
            },
            "max_tokens": {"type": "integer", "minimum": 1, "maximum": 131_072, "default": 1_024},
            "temperature": {"type": "number", "minimum": 0, "maximum": 2},
            "schema": {
                "type": "object",
                "description": "JSON schema that the answer must fit; the result has it as `json`",
            },
            "extra": {
                "type": "object", "maxProperties": 32,
                "description": "Further fields of the request to the server, such as `top_p`",
            },
        }),
    );
    schema["oneOf"] = json!([{"required": ["prompt"]}, {"required": ["messages"]}]);
    schema
}

/// Arguments, which the schema has checked.
#[derive(Debug, Deserialize)]
struct Args {
    #[serde(default)]
    prompt: Option<String>,
    #[serde(default)]
    messages: Vec<Message>,
    #[serde(default)]
    system: Option<String>,
    #[serde(default, alias = "profile")]
    role: Option<Role>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    max_tokens: Option<u32>,
    #[serde(default)]
    temperature: Option<f64>,
    #[serde(default)]
    schema: Option<Value>,
    #[serde(default)]
    extra: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
struct Message {
    role: String,
    content: String,
}

impl Args {
    fn request(&self) -> ChatRequest {
        let system = self.system.iter().map(|text| ChatMessage::new("system", text));
        let given = self.messages.iter().map(|given| ChatMessage::new(&given.role, &given.content));
        let prompt = self.prompt.iter().map(|text| ChatMessage::new("user", text));
        let mut extra = self.extra.clone();
        if let Some(schema) = &self.schema {
            let format = json!({"name": "answer", "strict": true, "schema": schema});
            let format = json!({"type": "json_schema", "json_schema": format});
            extra.insert("response_format".to_owned(), format);
        }
        ChatRequest {
            messages: system.chain(given).chain(prompt).collect(),
            model: self.model.clone(),
            temperature: self.temperature,
            max_tokens: Some(self.max_tokens.unwrap_or(USUAL_MAX_TOKENS)),
            extra,
            ..ChatRequest::default()
        }
    }
}

/// Tokens that a call with these arguments may take, by estimate.
pub(super) fn tokens(args: &Json) -> u64 {
    let Ok(args) = args.read::<Args>() else { return 0 };
    let request = args.request();
    request.estimated_tokens().saturating_add(request.max_tokens.unwrap_or(0).into())
}

fn start(permit: Permit, job: Job<'_>) -> Starting<'_> {
    Box::pin(async move {
        match Generation::new(&permit, &job) {
            Ok(generation) => run(&job, generation),
            Err(error) => ended(failure(error.code, error.message, job.started_at)),
        }
    })
}

/// One call on its way.
struct Generation {
    llm: ringfence_llm::Llm,
    caller: Caller,
    role: Role,
    request: ChatRequest,
    schema: Option<Schema>,
    /// Text of the answer, as people follow it.
    output: Output,
    spent: Mutex<Spent>,
}

/// Numbers of a call that are known whenever it ends.
#[derive(Default, Clone)]
struct Spent {
    tokens: Tokens,
    flow: Option<Flow>,
}

impl Generation {
    fn new(permit: &Permit, job: &Job<'_>) -> Result<Self, CallError> {
        let args: Args = job.args().read().map_err(|problem| {
            error(ErrorCode::ModelFailed, &format!("invalid arguments: {problem}"))
        })?;
        let obliged = permit.obligations();
        let caps = obliged.limits.as_ref();
        if caps.and_then(|caps| caps.network) == Some(SandboxNetwork::None) {
            return Err(error(ErrorCode::HostRefused, &"policy allows this call no network"));
        }
        let schema = args.schema.as_ref().map(compiled).transpose()?;
        let asked = job.asked();
        let output = Output::new(KEPT_OUTPUT);
        let redact = &obliged.redact;
        if !redact.has(RedactRoot::Stdout) && !redact.has(RedactRoot::Result) {
            let stderr = Output::new(0);
            stderr.close();
            job.in_flight().print_to(output.clone(), stderr);
        }
        Ok(Self {
            llm: job.inner().parts.llm.clone(),
            caller: Caller {
                tenant: Some(asked.tenant.clone()),
                trace: asked.trace_context(),
                hosts: obligations::hosts(obliged)?,
            },
            role: args.role.unwrap_or(Role::Dialogue),
            request: args.request(),
            schema,
            output,
            spent: Mutex::default(),
        })
    }

    /// Answers until one fits the schema, if there is one.
    async fn answer(&self) -> Result<Value, CallError> {
        let mut request = self.request.clone();
        for attempt in 1.. {
            let reply = self.ask(&request).await.map_err(|problem| failed(&problem))?;
            let Some(schema) = &self.schema else { return Ok(self.result(reply, None)) };
            let problems = match fitting(schema, &reply.content) {
                Ok(value) => return Ok(self.result(reply, Some(value))),
                Err(problems) => problems,
            };
            if attempt >= MAX_ANSWERS {
                let message =
                    format!("the answer of the model does not fit the schema: {problems}");
                return Err(error(ErrorCode::OutputInvalid, &message));
            }
            request.messages.push(ChatMessage::new("assistant", reply.content));
            let again = format!("This does not fit the schema: {problems}. Answer with JSON only.");
            request.messages.push(ChatMessage::new("user", again));
            self.output.append(b"\n");
        }
        unreachable!("the last answer returns")
    }

    /// One answer, streamed into the output.
    async fn ask(&self, request: &ChatRequest) -> Result<Reply, LlmError> {
        let before = self.spent().tokens;
        let mut streaming = self.llm.stream(self.role, &self.caller, request).await?;
        let flow = Flow { host: streaming.host().to_owned(), ..Flow::default() };
        let mut written = 0;
        loop {
            let next = streaming.next().await;
            if let Ok(Some(Delta::Text(text))) = &next {
                self.output.append(text.as_bytes());
                written += text.len() as u64;
            }
            let tokens = before.and(streaming.tokens(request));
            let flow = Some(Flow { bytes: Some(written), status: Some(200), ..flow.clone() });
            *self.spent.lock().unwrap_or_else(PoisonError::into_inner) = Spent { tokens, flow };
            if next?.is_none() {
                return Ok(streaming.finish());
            }
        }
    }

    fn spent(&self) -> Spent {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn result(&self, reply: Reply, value: Option<Value>) -> Value {
        let Tokens { input, output } = self.spent().tokens;
        let mut result = json!({
            "content": reply.content,
            "model": reply.model,
            "base_url": reply.base_url,
            "role": self.role,
            "finish_reason": match reply.finish {
                Finish::Stop => "stop",
                Finish::ToolCalls => "tool_calls",
                Finish::Length => "length",
                Finish::ContentFilter => "content_filter",
            },
            "usage": {"input_tokens": input, "output_tokens": output},
        });
        if let Some(value) = value {
            result["json"] = value;
        }
        result
    }
}

fn run(job: &Job<'_>, generation: Generation) -> Started {
    let (inner, entry, started_at) = (job.inner().clone(), job.entry.clone(), job.started_at);
    let wall = entry.tool.limits.wall.min(inner.parts.settings.max_wall_time);
    let (tenant, key) = (job.asked().tenant.clone(), job.asked().key);
    let stop = CancellationToken::new();
    let asked = stop.clone();
    let work = async move {
        let given = tokio::select! {
            biased;
            () = asked.cancelled() => None,
            given = tokio::time::timeout(wall, generation.answer()) => Some(given),
        };
        generation.output.close();
        let Spent { tokens, flow } = generation.spent();
        let details = ReceiptDetails { egress: flow.into_iter().collect(), ..Default::default() };
        let Some(given) = given else {
            // A cancelled call has no numbers of its own.
            let used = Used { tokens, ..Used::default() };
            let at = inner.parts.clock.now();
            let usage = OtherUsage { tenant, key, tool: TOOL.name, at, used };
            if let Err(problem) = inner.parts.store.add_usage(usage).await {
                tracing::warn!(error = error_chain(&problem), "tokens of a call are not counted");
            }
            return Ended::Stopped { details };
        };
        let late = || {
            let message = format!("no answer within {} s", wall.as_secs());
            error(ErrorCode::Timeout, &message)
        };
        let given = given.unwrap_or_else(|_| Err(late()));
        let took = inner.parts.clock.now().since(started_at);
        let mut end = without_program(produced(&entry, given), started_at, took);
        if let Ended::Finished { finished, blobs, details: of_end, .. } = &mut end {
            let (stdout, bytes) = kept(&generation.output);
            (finished.stdout, finished.tokens) = (stdout, Some(tokens));
            blobs.extend(Some(bytes).filter(|bytes| !bytes.is_empty()));
            *of_end = details;
        }
        end
    };
    Started::Running(Work::ours(work, stop))
}

fn compiled(schema: &Value) -> Result<Schema, CallError> {
    let invalid = |problems: Vec<String>| {
        error(ErrorCode::ModelFailed, &format!("the schema is invalid: {}", problems.join("; ")))
    };
    let source = Json::from_value(schema);
    let source = source.ok_or_else(|| invalid(vec!["it is nested too deep".to_owned()]))?;
    Schema::compile_modern("answer", &source).map_err(invalid)
}

/// The JSON of an answer, if it fits the schema; else the problems.
fn fitting(schema: &Schema, content: &str) -> Result<Value, String> {
    let text = content.trim();
    // Some models wrap JSON as Markdown has it, whatever they are told.
    let fenced = text.strip_prefix("```json").or_else(|| text.strip_prefix("```"));
    let text = fenced.and_then(|text| text.strip_suffix("```")).unwrap_or(text).trim();
    let parsed = Json::parse(text.as_bytes()).map_err(|problem| format!("not JSON: {problem}"))?;
    let told = |violation: &Violation| match violation.pointer.as_str() {
        "" => violation.message.clone(),
        pointer => format!("{pointer}: {}", violation.message),
    };
    let checked = schema.check(&parsed);
    checked.map_err(|found| found.iter().take(5).map(told).collect::<Vec<_>>().join("; "))?;
    Ok(parsed.to_value())
}

fn failed(problem: &LlmError) -> CallError {
    let code = match problem {
        LlmError::NoProfile(_) => ErrorCode::ProfileMissing,
        LlmError::Timeout { .. } => ErrorCode::ModelTimeout,
        LlmError::Unreachable { .. } | LlmError::CircuitOpen(_) => ErrorCode::ModelUnavailable,
        LlmError::Refused { status: 408 | 429 | 500..=599, .. } => ErrorCode::ModelUnavailable,
        _ => ErrorCode::ModelFailed,
    };
    error(code, &error_chain(problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_as_json_and_checked() {
        let schema = compiled(&json!({"type": "object", "required": ["a"]})).expect("valid");
        assert_eq!(fitting(&schema, " {\"a\":1}\n"), Ok(json!({"a": 1})));
        assert_eq!(fitting(&schema, "```json\n{\"a\":1}\n```"), Ok(json!({"a": 1})));
        assert!(fitting(&schema, "{\"b\":1}").expect_err("no `a`").contains("\"a\""));
        assert!(fitting(&schema, "sure: {").expect_err("no JSON").starts_with("not JSON"));
    }

    #[test]
    fn tokens_are_estimated_with_the_bound_of_the_answer() {
        let args = Json::of(&json!({"prompt": "x".repeat(400), "max_tokens": 50})).expect("JSON");
        assert_eq!(tokens(&args), 100 + 4 + 50);
    }
}
