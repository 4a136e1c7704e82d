//! Span of a trace, as plain data. The exporter chooses the wire format.

use std::{borrow::Cow, fmt};

use crate::{SpanId, Timestamp, TraceId, TraceParent, TraceState};

/// Finished span.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Trace, span id and sampling flag.
    pub context: TraceParent,
    /// Parent span, unless it is the first of its trace.
    pub parent: Option<SpanId>,
    /// Whether the parent is in another process.
    pub is_parent_remote: bool,
    /// State passed on by other tracing systems.
    pub state: Option<TraceState>,
    /// Name of the operation, one of few: details are attributes.
    pub name: Cow<'static, str>,
    /// Kind of span.
    pub kind: SpanKind,
    /// Start time.
    pub started_at: Timestamp,
    /// End time.
    pub ended_at: Timestamp,
    /// Attributes, under names of the semantic conventions where there is one. Never an argument, a
    /// result or a secret.
    pub attributes: Vec<(&'static str, Attribute)>,
    /// Reason of a failure, in a word or a short sentence.
    pub failure: Option<String>,
}

/// Kind of span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// Operation within the process.
    Internal,
    /// Answer to a request from outside.
    Server,
    /// Request to another service.
    Client,
}

/// Value of a span attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Attribute {
    /// Text.
    Text(Cow<'static, str>),
    /// Integer.
    Whole(i64),
    /// Floating point number.
    Real(f64),
}

impl From<String> for Attribute {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<&'static str> for Attribute {
    fn from(text: &'static str) -> Self {
        Self::Text(text.into())
    }
}

impl From<i64> for Attribute {
    fn from(number: i64) -> Self {
        Self::Whole(number)
    }
}

impl From<f64> for Attribute {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

/// Sink of spans. It never blocks: tracing does not slow down the traced work.
pub trait Spans: fmt::Debug + Send + Sync + 'static {
    /// Whether a trace that begins here is recorded.
    fn samples(&self, trace: TraceId) -> bool;

    /// Accepts a finished span.
    fn take(&self, span: Span);
}
