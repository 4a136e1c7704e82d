//! The last step: what is on record is told to the bus, at least once, in order.
//!
//! The facts are the outbox. A cursor remembers how far they were published; it moves only after
//! the bus took them, so a crash in between publishes again and never skips.

use std::{sync::Arc, time::Duration};

use ringfence_bus::Message;
use ringfence_store::{FactQuery, Logged};
use ringfence_types::{Asked, Call, Produced, State};
use serde_json::{Value, json};

use crate::engine::Inner;

/// Who reads the facts.
const CURSOR: &str = "publish";

/// Facts per round.
const ROUND: usize = 500;

/// After a round that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// Publishes until the engine stops and nothing is left.
pub(crate) async fn run(inner: Arc<Inner>) {
    let mut newest = inner.parts.store.newest();
    loop {
        match round(&inner).await {
            Ok(0) if inner.stopping.is_cancelled() => return,
            Ok(0) => {
                tokio::select! {
                    _ = newest.changed() => {}
                    () = inner.stopping.cancelled() => {}
                }
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(error, "results are not published yet");
                if inner.stopping.is_cancelled() {
                    return;
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Publishes the next facts; how many there were.
async fn round(inner: &Inner) -> Result<usize, Box<dyn std::error::Error + Send + Sync>> {
    let after = inner.parts.store.cursor(CURSOR).await?;
    let query = FactQuery { tenant: None, call: None, after, limit: ROUND };
    let facts = inner.parts.store.facts(query).await?;
    let Some(last) = facts.last().map(|logged| logged.position) else { return Ok(0) };
    let mut messages = Vec::new();
    for logged in &facts {
        messages.extend(message(inner, logged).await?);
    }
    let count = messages.len();
    if count > 0 {
        let sent = inner.parts.bus.publish(messages).await;
        inner.metrics.published(sent.is_ok(), count);
        sent?;
    }
    inner.parts.store.set_cursor(CURSOR, last).await?;
    Ok(facts.len())
}

/// What others want to know of a fact, if anything.
async fn message(
    inner: &Inner,
    logged: &Logged,
) -> Result<Option<Message>, ringfence_store::Error> {
    let topic = match logged.fact.kind.as_str() {
        "call.finished" | "call.denied" | "call.cancelled" | "call.outcome_unknown" => {
            "tool.results"
        }
        "call.held" => "policy.blocked",
        _ => return Ok(None),
    };
    let Some(stored) = inner.parts.store.call(&logged.tenant, logged.fact.call).await? else {
        return Ok(None);
    };
    let event_id = format!("{}-{}", logged.position, logged.index);
    let body = match topic {
        "tool.results" => result(&stored.call, &event_id),
        _ => blocked(&stored.call, logged, &event_id),
    };
    let call = &stored.call.asked;
    let key = call.session.as_ref().map_or_else(|| call.id.to_string(), ToString::to_string);
    let trace = call.trace_context().map(|trace| trace.to_string());
    let state = call.trace_state.as_ref().map(ToString::to_string);
    let mut headers = vec![
        ("content-type".to_owned(), b"application/json".to_vec()),
        ("ce_specversion".to_owned(), b"1.0".to_vec()),
        ("ce_id".to_owned(), event_id.into_bytes()),
        ("ce_source".to_owned(), b"/ringfence".to_vec()),
        ("ce_type".to_owned(), topic.as_bytes().to_vec()),
        ("ce_time".to_owned(), logged.fact.at.to_string().into_bytes()),
    ];
    // The names of CloudEvents' extension for distributed tracing.
    for (name, value) in [("ce_traceparent", trace), ("ce_tracestate", state)] {
        headers.extend(value.map(|value| (name.to_owned(), value.into_bytes())));
    }
    let payload = body.to_string().into_bytes();
    Ok(Some(Message { topic: topic.to_owned(), key: Some(key.into_bytes()), headers, payload }))
}

/// A `tool_result` as its schema defines it.
fn result(call: &Call, event_id: &str) -> Value {
    let (status, payload, seconds) = status(call);
    let mut metadata = call.asked.metadata.to_value();
    if let Some(metadata) = metadata.as_object_mut() {
        // The one field that ties a result to its request; filled in if the client sent none.
        let id = call.asked.id.to_string();
        metadata.entry("request_id").or_insert_with(|| Value::String(id));
    }
    json!({
        "event_id": event_id,
        "session_id": call.asked.session.as_ref().map_or("", |session| session.as_str()),
        "persona_id": call.asked.persona,
        "tool_name": call.asked.tool.name,
        "status": status,
        "payload": payload,
        "metadata": metadata,
        "execution_time": seconds,
        "trace_context": trace_context(&call.asked),
    })
}

/// What the originals merge into every message, for whoever goes on with the trace.
fn trace_context(asked: &Asked) -> Value {
    let mut carrier = serde_json::Map::new();
    if let Some(trace) = asked.trace_context() {
        carrier.insert("traceparent".to_owned(), trace.to_string().into());
    }
    if let Some(state) = &asked.trace_state {
        carrier.insert("tracestate".to_owned(), state.as_str().into());
    }
    Value::Object(carrier)
}

fn status(call: &Call) -> (&'static str, Value, f64) {
    let said = |message: &str| json!({"message": message});
    match &call.state {
        State::Finished(finished) => {
            let seconds = finished.duration.as_secs_f64();
            match &finished.produced {
                Produced::Result(result) => ("success", object(result.to_value()), seconds),
                Produced::Error(error) if error.code == "timeout" => {
                    ("timeout", said("Tool execution timed out"), seconds)
                }
                Produced::Error(error) => {
                    ("error", json!({"message": error.message, "code": error.code}), seconds)
                }
            }
        }
        State::Denied { .. } => ("blocked", said("Policy denied tool execution."), 0.0),
        State::Cancelled { .. } => ("cancelled", said("The call was cancelled."), 0.0),
        _ => ("outcome_unknown", said("The outcome of the call is unknown."), 0.0),
    }
}

/// The schema wants an object.
fn object(result: Value) -> Value {
    if result.is_object() { result } else { json!({"result": result}) }
}

fn blocked(call: &Call, logged: &Logged, event_id: &str) -> Value {
    let reasons = call.decision.as_ref().map(|decision| &decision.reasons);
    let reason = reasons.and_then(|reasons| reasons.first()).map(|reason| &reason.message);
    json!({
        "event_id": event_id,
        "type": "policy.blocked",
        "session_id": call.asked.session,
        "persona_id": call.asked.persona,
        "tenant": call.asked.tenant,
        "action": "tool.execute",
        "resource": call.asked.tool.name,
        "reason": reason,
        "requeue_id": call.asked.id,
        "request_event_id": call.asked.id,
        "timestamp": logged.fact.at,
        "trace_context": trace_context(&call.asked),
    })
}
