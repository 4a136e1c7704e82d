//! Conversion of spans to OTLP messages.

use prost::Message;
use ringfence_types::{Attribute, Span, SpanKind, Timestamp};

use crate::wire;

/// Span flags: whether the parent is remote is known, and that it is.
const KNOWS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;
/// Trace flag: the trace is recorded. Exported spans always are.
const SAMPLED: u32 = 1;
/// Status code of a failure.
const FAILED: i32 = 2;

/// Body of one request.
pub(crate) fn request(resource: &[(String, String)], spans: Vec<Span>) -> Vec<u8> {
    let attributes = resource.iter().map(|(key, value)| text(key.clone(), value.clone())).collect();
    let scope =
        wire::Scope { name: "ringfence".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let spans = spans.into_iter().map(span).collect();
    let request = wire::ExportRequest {
        resource_spans: vec![wire::ResourceSpans {
            resource: Some(wire::Resource { attributes }),
            scope_spans: vec![wire::ScopeSpans { scope: Some(scope), spans }],
        }],
    };
    request.encode_to_vec()
}

fn span(span: Span) -> wire::Span {
    let remote = if span.is_parent_remote { IS_REMOTE } else { 0 };
    wire::Span {
        trace_id: span.context.trace.to_bytes().to_vec(),
        span_id: span.context.span.to_bytes().to_vec(),
        trace_state: span.state.map(|state| state.to_string()).unwrap_or_default(),
        parent_span_id: span.parent.map(|id| id.to_bytes().to_vec()).unwrap_or_default(),
        name: span.name.into_owned(),
        kind: match span.kind {
            SpanKind::Internal => 1,
            SpanKind::Server => 2,
            SpanKind::Client => 3,
        },
        start_time_unix_nano: nanos(span.started_at),
        // A clock that was set back must not make a span end before it began.
        end_time_unix_nano: nanos(span.ended_at.max(span.started_at)),
        attributes: span.attributes.into_iter().map(attribute).collect(),
        status: span.failure.map(|message| wire::Status { message, code: FAILED }),
        flags: SAMPLED | KNOWS_REMOTE | remote,
    }
}

fn attribute((key, value): (&'static str, Attribute)) -> wire::KeyValue {
    let value = match value {
        Attribute::Text(text) => wire::Value::Text(text.into_owned()),
        Attribute::Whole(number) => wire::Value::Whole(number),
        Attribute::Real(number) => wire::Value::Real(number),
    };
    wire::KeyValue { key: key.to_owned(), value: Some(wire::AnyValue { value: Some(value) }) }
}

fn text(key: String, value: String) -> wire::KeyValue {
    let value = wire::AnyValue { value: Some(wire::Value::Text(value)) };
    wire::KeyValue { key, value: Some(value) }
}

fn nanos(at: Timestamp) -> u64 {
    u64::try_from(at.as_micros()).unwrap_or(0).saturating_mul(1_000)
}
