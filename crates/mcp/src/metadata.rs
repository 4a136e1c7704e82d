//! `_meta` of requests and results.

use ringfence_types::{Call, PersonaId, SessionId, TraceContext, TraceParent};
use rmcp::model::{MetaObject, RequestMetaObject};
use serde_json::{Value, json};

/// Prefix of our own keys.
const CALL_ID: &str = "dev.ringfence/call_id";
const STATE: &str = "dev.ringfence/state";
const RECEIPT: &str = "dev.ringfence/receipt";
const ERROR: &str = "dev.ringfence/error";
/// Key of a request: the session that its call belongs to.
const SESSION: &str = "dev.ringfence/session_id";
/// Key of a request: the persona that its call is made for.
const PERSONA: &str = "dev.ringfence/persona_id";

/// Key of a request: the agent among those that share a key, for the receipt.
pub(crate) const ACTOR: &str = "dev.ringfence/actor_id";

/// Metadata of a result about a call. A call that has ended names its receipt.
pub(crate) fn of_call(call: &Call, error: Option<&str>) -> MetaObject {
    let id = call.asked.id;
    let mut meta = MetaObject::new();
    meta.0.insert(CALL_ID.to_owned(), json!(id));
    meta.0.insert(STATE.to_owned(), json!(call.state.name()));
    if call.state.is_final() {
        meta.0.insert(RECEIPT.to_owned(), json!(format!("ringfence://receipts/{id}")));
    }
    if let Some(code) = error {
        meta.0.insert(ERROR.to_owned(), json!(code));
    }
    meta
}

/// Metadata of a request that was refused before there was a call.
pub(crate) fn of_refusal(code: &str) -> MetaObject {
    let mut meta = MetaObject::new();
    meta.0.insert(ERROR.to_owned(), json!(code));
    meta
}

/// Session and persona that a request names; an error names the key whose value is invalid.
pub(crate) fn on_behalf(
    meta: &RequestMetaObject,
) -> Result<(Option<SessionId>, Option<PersonaId>), &'static str> {
    Ok((read(meta, SESSION)?, read(meta, PERSONA)?))
}

fn read<T: std::str::FromStr>(
    meta: &RequestMetaObject,
    key: &'static str,
) -> Result<Option<T>, &'static str> {
    match meta.0.0.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => text.parse().map(Some).map_err(|_| key),
        Some(_) => Err(key),
    }
}

/// Trace that a request continues: the one in its metadata, or that of its HTTP request.
pub(crate) fn trace(meta: &RequestMetaObject, of_request: &TraceContext) -> TraceContext {
    let text = meta.0.0.get("traceparent").and_then(Value::as_str);
    match text.and_then(|text| text.parse::<TraceParent>().ok()) {
        Some(parent) => parent.into(),
        None => of_request.clone(),
    }
}
