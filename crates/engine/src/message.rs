//! Messages on the bus that follow from a commit.

use std::{borrow::Cow, collections::BTreeMap};

use ringfence_bus::{MAX_MESSAGE_BYTES, Message};
use ringfence_store::Commit;
use ringfence_types::{
    Asked, Call, CallFile, CallId, ErrorCode, Fact, FactKind, Finished, Json, Outcome, PersonaId,
    Produced, SessionId, State, TenantId, Timestamp, ToolName,
};
use serde::Serialize;
use serde_json::value::RawValue;

/// Topic of calls that policy held or denied.
const BLOCKED_TOPIC: &str = "policy.blocked";

/// Topic of results.
const RESULTS_TOPIC: &str = "tool.results";

/// Topic of what SomaAgent 01 shows in a conversation.
const CONVERSATION_TOPIC: &str = "conversation.outbound";

/// The topics that messages are published to.
pub(crate) const TOPICS: [&str; 3] = [BLOCKED_TOPIC, RESULTS_TOPIC, CONVERSATION_TOPIC];

/// Bytes of each output stream that a result contains.
pub(crate) const MAX_OUTPUT_BYTES: u64 = 16 << 10;

/// Beginning of the output of a program, as far as a result contains it.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Surroundings of the messages of one round.
#[derive(Debug)]
pub(crate) struct Round<'a> {
    /// Topics that some group reads.
    pub(crate) topics: &'a [&'a str],
    /// Source of the events: two installations on one broker differ in it.
    pub(crate) source: &'a str,
}

impl Round<'_> {
    /// Whether some group reads results.
    pub(crate) fn has_results(&self) -> bool {
        self.topics.contains(&RESULTS_TOPIC) || self.topics.contains(&CONVERSATION_TOPIC)
    }

    /// The messages of a commit, in the order of its facts.
    pub(crate) fn messages(&self, commit: &Commit, outputs: &Outputs) -> Vec<Message> {
        let is_read = |topic| self.topics.contains(&topic);
        let mut messages = Vec::new();
        for (index, fact) in commit.facts.iter().enumerate() {
            let event_id = format!("{}-{index}", commit.position);
            let call = &commit.call;
            let is_held = fact.kind == FactKind::Held;
            if is_read(BLOCKED_TOPIC) && (is_held || fact.kind == FactKind::Denied) {
                // A denial has a result as well, which has the plain id.
                let event_id = if is_held { &event_id } else { &format!("{event_id}-blocked") };
                let payload = blocked(call, fact, event_id);
                messages.push(self.message(call, fact, BLOCKED_TOPIC, event_id, payload));
            }
            if is_read(RESULTS_TOPIC) && is_held {
                let event_id = format!("{event_id}-result");
                let payload = held(call, &event_id);
                messages.push(self.message(call, fact, RESULTS_TOPIC, &event_id, payload));
            }
            if is_read(RESULTS_TOPIC) && fact.kind.is_final() {
                messages.push(self.ended(call, fact, &event_id, outputs));
            }
            if is_read(CONVERSATION_TOPIC) && call.asked.session.is_some() {
                messages.extend(self.shown(call, fact, &event_id, outputs));
            }
        }
        messages
    }

    /// End of a call. One result that no bus takes must not keep back those behind it, so such a
    /// message says where the result is instead.
    fn ended(&self, call: &Call, fact: &Fact, event_id: &str, outputs: &Outputs) -> Message {
        let send = |payload| self.message(call, fact, RESULTS_TOPIC, event_id, payload);
        let whole = send(result(call, event_id, outputs));
        if whole.size() <= MAX_MESSAGE_BYTES {
            return whole;
        }
        let mut short = send(reference(call, event_id));
        // The name of CloudEvents' extension for data that is elsewhere.
        short.headers.push(("ce_dataref".to_owned(), place(call).into_bytes()));
        short
    }

    /// Copy of the start or the end of a call for the conversation of its session. One that is too large
    /// for a message is left out: the result names its address.
    fn shown(
        &self,
        call: &Call,
        fact: &Fact,
        event_id: &str,
        outputs: &Outputs,
    ) -> Option<Message> {
        let (event_id, payload) = match fact.kind {
            FactKind::Dispatched => {
                let event_id = format!("{event_id}-start");
                let payload = started(call, &event_id);
                (event_id, payload)
            }
            kind if kind.is_final() => {
                let event_id = format!("{event_id}-shown");
                let payload = shown_result(call, &event_id, outputs);
                (event_id, payload)
            }
            _ => return None,
        };
        let message = self.message(call, fact, CONVERSATION_TOPIC, &event_id, payload);
        (message.size() <= MAX_MESSAGE_BYTES).then_some(message)
    }

    fn message(
        &self,
        call: &Call,
        fact: &Fact,
        topic: &str,
        event_id: &str,
        payload: Vec<u8>,
    ) -> Message {
        let asked = &call.asked;
        let key = asked.session.as_ref().map_or_else(|| asked.id.to_string(), ToString::to_string);
        let mut headers = vec![
            ("content-type".to_owned(), b"application/json".to_vec()),
            ("ce_specversion".to_owned(), b"1.0".to_vec()),
            ("ce_id".to_owned(), event_id.as_bytes().to_vec()),
            ("ce_source".to_owned(), self.source.as_bytes().to_vec()),
            ("ce_type".to_owned(), topic.as_bytes().to_vec()),
            ("ce_time".to_owned(), fact.at.to_string().into_bytes()),
        ];
        // The names of CloudEvents' extension for distributed tracing.
        let trace = TraceCarrier::of(asked);
        for (name, value) in
            [("ce_traceparent", trace.traceparent), ("ce_tracestate", trace.tracestate)]
        {
            headers.extend(value.map(|value| (name.to_owned(), value.into_bytes())));
        }
        Message { topic: topic.to_owned(), key: Some(key.into_bytes()), headers, payload }
    }
}

fn place(call: &Call) -> String {
    format!("/v1/calls/{}", call.asked.id)
}

/// Trace context in the body, where SomaAgent 01 reads it.
#[derive(Serialize)]
struct TraceCarrier {
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tracestate: Option<String>,
}

impl TraceCarrier {
    fn of(asked: &Asked) -> Self {
        Self {
            traceparent: asked.trace_context().map(|trace| trace.to_string()),
            tracestate: asked.trace_state.as_ref().map(ToString::to_string),
        }
    }
}

/// A `tool_result` as its schema defines it.
#[derive(Serialize)]
struct ToolResultMessage<'a> {
    event_id: &'a str,
    execution_time: f64,
    metadata: Metadata<'a>,
    payload: Payload<'a>,
    persona_id: Option<&'a PersonaId>,
    session_id: &'a str,
    status: &'static str,
    tool_name: &'a ToolName,
    trace_context: TraceCarrier,
}

/// Payload of a result: the schema wants an object.
#[derive(Serialize)]
#[serde(untagged)]
enum Payload<'a> {
    Object(&'a Json),
    Fields(BTreeMap<Cow<'a, str>, Cow<'a, RawValue>>),
    Other { result: &'a Json },
    Error { code: ErrorCode, message: &'a str },
    Message { message: &'static str },
    Elsewhere { dataref: String, message: &'static str },
}

/// Facts about the program of a call, in its result.
#[derive(Serialize)]
struct Execution<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    stdout: &'a str,
    stderr: &'a str,
    /// Whether the streams are longer than this; `/v1/calls/{id}/output` has all that is kept.
    is_truncated: bool,
    /// Files that the program left, as artifacts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attachments: Vec<Attached<'a>>,
    wall_seconds: f64,
    cpu_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_peak_bytes: Option<u64>,
}

/// File that a program left.
#[derive(Serialize)]
struct Attached<'a> {
    #[serde(flatten)]
    file: &'a CallFile,
    href: String,
}

/// Files that a result names; `/v1/calls/{id}` has all.
const MAX_ATTACHMENTS: usize = 64;

fn attachments(finished: &Finished) -> Vec<Attached<'_>> {
    let files = finished.files.iter().flat_map(|files| &files.stored);
    let href = |file: &CallFile| format!("/v1/artifacts/{}/content?version=1", file.artifact);
    files.take(MAX_ATTACHMENTS).map(|file| Attached { href: href(file), file }).collect()
}

impl<'a> Execution<'a> {
    /// `None` for a call that ran no program.
    fn of(finished: &'a Finished, outputs: &'a Outputs) -> Option<Self> {
        let usage = finished.usage.as_ref()?;
        let (exit_code, signal) = match finished.outcome {
            Some(Outcome::Exited { code }) => (Some(code), None),
            Some(Outcome::Signaled { signal }) => (None, Some(signal)),
            _ => (None, None),
        };
        let is_longer = |stream: &ringfence_types::Stream, kept: &str| {
            stream.length > kept.len() as u64 && !kept.is_empty()
        };
        Some(Self {
            exit_code,
            signal,
            stdout: &outputs.stdout,
            stderr: &outputs.stderr,
            is_truncated: is_longer(&finished.stdout, &outputs.stdout)
                || is_longer(&finished.stderr, &outputs.stderr),
            attachments: attachments(finished),
            wall_seconds: usage.wall.as_secs_f64(),
            cpu_seconds: (usage.cpu_user + usage.cpu_system).as_secs_f64(),
            memory_peak_bytes: usage.memory_peak.map(|bytes| bytes.0),
        })
    }
}

fn result(call: &Call, event_id: &str, outputs: &Outputs) -> Vec<u8> {
    tool_result(call, event_id, metadata(call), whole(call, outputs))
}

/// Status, payload with facts about the program, and seconds.
fn whole<'a>(call: &'a Call, outputs: &Outputs) -> (&'static str, Payload<'a>, f64) {
    let (status, payload, execution_time) = status(call);
    let execution = match &call.state {
        State::Finished(finished) => Execution::of(finished, outputs),
        _ => None,
    };
    let payload = match execution {
        Some(execution) => with_execution(payload, &execution),
        None => payload,
    };
    (status, payload, execution_time)
}

/// An event of a conversation, as SomaAgent 01's tool executor publishes it. Its role is `tool`, which
/// the schema of conversation events does not have: consumers know it from there.
#[derive(Serialize)]
struct ConversationMessage<'a> {
    event_id: &'a str,
    message: String,
    metadata: Metadata<'a>,
    persona_id: Option<&'a PersonaId>,
    role: &'static str,
    session_id: &'a str,
    trace_context: TraceCarrier,
    #[serde(rename = "type")]
    kind: &'static str,
    version: &'static str,
}

fn started(call: &Call, event_id: &str) -> Vec<u8> {
    conversation(call, event_id, "tool.start", String::new(), [("status", owned("start"))])
}

fn shown_result(call: &Call, event_id: &str, outputs: &Outputs) -> Vec<u8> {
    let (status, payload, seconds) = whole(call, outputs);
    let message = String::from_utf8(written(&payload)).unwrap_or_default();
    let further = [("status", owned(status)), ("execution_time", owned(&seconds))];
    conversation(call, event_id, "tool.result", message, further)
}

fn conversation<const N: usize>(
    call: &Call,
    event_id: &str,
    kind: &'static str,
    message: String,
    further: [(&'static str, Cow<'static, RawValue>); N],
) -> Vec<u8> {
    let mut metadata = metadata(call);
    let own = [("source", owned("tool_executor")), ("tool_name", owned(&call.asked.tool.name))];
    metadata.extend(own.into_iter().chain(further).map(|(name, value)| (name.into(), value)));
    written(&ConversationMessage {
        event_id,
        message,
        metadata,
        persona_id: call.asked.persona.as_ref(),
        role: "tool",
        session_id: call.asked.session.as_ref().map_or("", |session| session.as_str()),
        trace_context: TraceCarrier::of(&call.asked),
        kind,
        version: "sa01-v1",
    })
}

/// The payload with facts about the program, unless the tool has a field of that name itself.
fn with_execution<'a>(payload: Payload<'a>, execution: &Execution<'_>) -> Payload<'a> {
    let mut fields: BTreeMap<Cow<'_, str>, Cow<'_, RawValue>> = match &payload {
        Payload::Object(object) => {
            let fields: BTreeMap<String, &RawValue> = object.read().unwrap_or_default();
            fields.into_iter().map(|(name, value)| (name.into(), Cow::Borrowed(value))).collect()
        }
        Payload::Other { result } => [("result".into(), owned(result))].into(),
        Payload::Error { code, message } => {
            [("code".into(), owned(code)), ("message".into(), owned(message))].into()
        }
        Payload::Message { message } => [("message".into(), owned(message))].into(),
        Payload::Fields(_) | Payload::Elsewhere { .. } => return payload,
    };
    fields.entry("execution".into()).or_insert_with(|| owned(execution));
    Payload::Fields(fields)
}

fn owned<T: Serialize + ?Sized>(value: &T) -> Cow<'static, RawValue> {
    let raw = serde_json::value::to_raw_value(value);
    Cow::Owned(raw.expect("plain data with text keys can be written"))
}

/// Result of a call that waits for a person: a second one follows when the hold ends.
fn held(call: &Call, event_id: &str) -> Vec<u8> {
    let message = "Policy holds tool execution until it is approved.";
    let payload = Payload::Message { message };
    tool_result(call, event_id, metadata(call), ("blocked", payload, 0.0))
}

/// The same without parts that can be large: the tool's output and the client's data.
fn reference(call: &Call, event_id: &str) -> Vec<u8> {
    let mut metadata = metadata(call);
    metadata
        .retain(|name, value| name == "request_id" && value.get().len() <= MAX_REQUEST_ID_BYTES);
    let (status, _, execution_time) = status(call);
    let message = "The result is too large for a message.";
    let payload = Payload::Elsewhere { dataref: place(call), message };
    tool_result(call, event_id, metadata, (status, payload, execution_time))
}

/// Bytes of a `request_id` that a short result keeps.
const MAX_REQUEST_ID_BYTES: usize = 1 << 10;

type Metadata<'a> = BTreeMap<Cow<'a, str>, Cow<'a, RawValue>>;

fn tool_result(
    call: &Call,
    event_id: &str,
    metadata: Metadata<'_>,
    (status, payload, execution_time): (&'static str, Payload<'_>, f64),
) -> Vec<u8> {
    written(&ToolResultMessage {
        event_id,
        execution_time,
        metadata,
        payload,
        persona_id: call.asked.persona.as_ref(),
        session_id: call.asked.session.as_ref().map_or("", |session| session.as_str()),
        status,
        tool_name: &call.asked.tool.name,
        trace_context: TraceCarrier::of(&call.asked),
    })
}

/// Metadata of the client, and the one field that ties a result to its request if the client sent none.
fn metadata(call: &Call) -> Metadata<'_> {
    let given: BTreeMap<String, &RawValue> = call.asked.metadata.read().unwrap_or_default();
    let given = given.into_iter().map(|(name, value)| (name.into(), Cow::Borrowed(value)));
    let mut metadata: BTreeMap<_, _> = given.collect();
    metadata.entry(Cow::Borrowed("request_id")).or_insert_with(|| owned(&call.asked.id));
    metadata
}

fn status(call: &Call) -> (&'static str, Payload<'_>, f64) {
    let message = |message| Payload::Message { message };
    match &call.state {
        State::Finished(finished) => {
            let seconds = finished.duration.as_secs_f64();
            match &finished.produced {
                Produced::Result(result) if result.is_object() => {
                    ("success", Payload::Object(result), seconds)
                }
                Produced::Result(result) => ("success", Payload::Other { result }, seconds),
                Produced::Error(error) if error.code == ErrorCode::Timeout => {
                    ("timeout", message("Tool execution timed out"), seconds)
                }
                Produced::Error(error) if error.code == ErrorCode::CircuitOpen => {
                    let message = error.message.as_str();
                    ("circuit_open", Payload::Error { code: error.code, message }, 0.0)
                }
                Produced::Error(error) => {
                    let (code, message) = (error.code, error.message.as_str());
                    ("error", Payload::Error { code, message }, seconds)
                }
            }
        }
        State::Denied { .. } => ("blocked", message("Policy denied tool execution."), 0.0),
        State::Expired { .. } => ("expired", message("The call was not approved in time."), 0.0),
        State::Cancelled { .. } => ("cancelled", message("The call was cancelled."), 0.0),
        _ => ("outcome_unknown", message("The outcome of the call is unknown."), 0.0),
    }
}

/// A call that policy held or denied.
#[derive(Serialize)]
struct BlockedMessage<'a> {
    action: &'static str,
    decision: &'static str,
    event_id: &'a str,
    persona_id: Option<&'a PersonaId>,
    reason: Option<&'a str>,
    request_event_id: Cow<'a, RawValue>,
    /// None for a denial, which is final.
    requeue_id: Option<CallId>,
    resource: &'a ToolName,
    session_id: Option<&'a SessionId>,
    tenant: &'a TenantId,
    timestamp: Timestamp,
    trace_context: TraceCarrier,
    #[serde(rename = "type")]
    kind: &'static str,
}

fn blocked(call: &Call, fact: &Fact, event_id: &str) -> Vec<u8> {
    let asked = &call.asked;
    let is_held = fact.kind == FactKind::Held;
    let request_id = metadata(call).remove("request_id");
    let first = call.decision.as_ref().and_then(|decision| decision.reasons.first());
    written(&BlockedMessage {
        action: "tool.execute",
        decision: if is_held { "hold" } else { "deny" },
        event_id,
        persona_id: asked.persona.as_ref(),
        reason: first.map(|reason| reason.message.as_str()),
        request_event_id: request_id.unwrap_or_else(|| owned(&asked.id)),
        requeue_id: is_held.then_some(asked.id),
        resource: &asked.tool.name,
        session_id: asked.session.as_ref(),
        tenant: &asked.tenant,
        timestamp: fact.at,
        trace_context: TraceCarrier::of(asked),
        kind: "policy.blocked",
    })
}

fn written<T: Serialize>(value: &T) -> Vec<u8> {
    let mut text = Vec::with_capacity(512);
    serde_json::to_writer(&mut text, value).expect("plain data with text keys can be written");
    text
}
