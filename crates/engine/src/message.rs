//! Messages on the bus about a commit.

use std::{borrow::Cow, collections::BTreeMap};

use ringfence_bus::{LARGEST, Message};
use ringfence_store::Commit;
use ringfence_types::{
    Asked, Call, CallId, ErrorCode, Fact, FactKind, Json, PersonaId, Produced, SessionId, State,
    TenantId, Timestamp, ToolName,
};
use serde::Serialize;
use serde_json::value::RawValue;

/// Topic of held calls.
const BLOCKED_TOPIC: &str = "policy.blocked";

/// Topic of ended calls.
const RESULTS_TOPIC: &str = "tool.results";

/// The topics that messages are published to.
pub(crate) const TOPICS: [&str; 2] = [BLOCKED_TOPIC, RESULTS_TOPIC];

/// The messages of a commit to some of the topics, in the order of its facts.
pub(crate) fn of(commit: &Commit, topics: &[&str]) -> impl Iterator<Item = Message> {
    let facts = (0_u32..).zip(&commit.facts);
    let [is_blocked_read, is_result_read] = TOPICS.map(|topic| topics.contains(&topic));
    facts.filter_map(move |(index, fact)| {
        let event_id = format!("{}-{index}", commit.position);
        let call = &commit.call;
        match fact.kind {
            FactKind::Held if is_blocked_read => {
                let payload = blocked(call, fact, &event_id);
                Some(message(call, fact, BLOCKED_TOPIC, &event_id, payload))
            }
            kind if is_result_read && kind.is_final() => {
                Some(result_message(call, fact, &event_id))
            }
            _ => None,
        }
    })
}

/// Message about the end of a call. A result too large for the bus would block those behind it, so
/// such a message refers to the result instead.
fn result_message(call: &Call, fact: &Fact, event_id: &str) -> Message {
    let send = |payload| message(call, fact, RESULTS_TOPIC, event_id, payload);
    let whole = send(result(call, event_id));
    if whole.size() <= LARGEST {
        return whole;
    }
    let mut short = send(reference(call, event_id));
    // CloudEvents extension for data that is stored elsewhere.
    short.headers.push(("ce_dataref".to_owned(), place(call).into_bytes()));
    short
}

fn place(call: &Call) -> String {
    format!("/v1/calls/{}", call.asked.id)
}

fn message(call: &Call, fact: &Fact, topic: &str, event_id: &str, payload: Vec<u8>) -> Message {
    let asked = &call.asked;
    let key = asked.session.as_ref().map_or_else(|| asked.id.to_string(), ToString::to_string);
    let mut headers = vec![
        ("content-type".to_owned(), b"application/json".to_vec()),
        ("ce_specversion".to_owned(), b"1.0".to_vec()),
        ("ce_id".to_owned(), event_id.as_bytes().to_vec()),
        ("ce_source".to_owned(), b"/ringfence".to_vec()),
        ("ce_type".to_owned(), topic.as_bytes().to_vec()),
        ("ce_time".to_owned(), fact.at.to_string().into_bytes()),
    ];
    // CloudEvents extension for distributed tracing.
    let trace = TraceCarrier::of(asked);
    for (name, value) in
        [("ce_traceparent", trace.traceparent), ("ce_tracestate", trace.tracestate)]
    {
        headers.extend(value.map(|value| (name.to_owned(), value.into_bytes())));
    }
    Message { topic: topic.to_owned(), key: Some(key.into_bytes()), headers, payload }
}

/// Trace context that *SomaAgent 01* merges into every message, for consumers that continue the
/// trace.
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

/// Payload; the schema requires an object.
#[derive(Serialize)]
#[serde(untagged)]
enum Payload<'a> {
    Object(&'a Json),
    Other { result: &'a Json },
    Error { code: ErrorCode, message: &'a str },
    Message { message: &'static str },
    Elsewhere { dataref: String, message: &'static str },
}

fn result(call: &Call, event_id: &str) -> Vec<u8> {
    tool_result(call, event_id, metadata(call), status(call))
}

/// The message without its large parts: the tool's output and the client's data.
fn reference(call: &Call, event_id: &str) -> Vec<u8> {
    let mut metadata = metadata(call);
    metadata
        .retain(|name, value| name == "request_id" && value.get().len() <= MAX_REQUEST_ID_BYTES);
    let (status, _, execution_time) = status(call);
    let message = "The result is too large for a message.";
    let payload = Payload::Elsewhere { dataref: place(call), message };
    tool_result(call, event_id, metadata, (status, payload, execution_time))
}

/// Maximum bytes of a request id in a message by reference.
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

/// Metadata of the client, and the id that ties a result to its request if the client sent none.
fn metadata(call: &Call) -> Metadata<'_> {
    let given: BTreeMap<String, &RawValue> = call.asked.metadata.read().unwrap_or_default();
    let given = given.into_iter().map(|(name, value)| (name.into(), Cow::Borrowed(value)));
    let mut metadata: BTreeMap<_, _> = given.collect();
    metadata.entry(Cow::Borrowed("request_id")).or_insert_with(|| {
        let id = serde_json::value::to_raw_value(&call.asked.id);
        Cow::Owned(id.expect("an id can be written"))
    });
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

/// A call that waits for a person.
#[derive(Serialize)]
struct BlockedMessage<'a> {
    action: &'static str,
    event_id: &'a str,
    persona_id: Option<&'a PersonaId>,
    reason: Option<&'a str>,
    request_event_id: CallId,
    requeue_id: CallId,
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
    let first = call.decision.as_ref().and_then(|decision| decision.reasons.first());
    written(&BlockedMessage {
        action: "tool.execute",
        event_id,
        persona_id: asked.persona.as_ref(),
        reason: first.map(|reason| reason.message.as_str()),
        request_event_id: asked.id,
        requeue_id: asked.id,
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
