//! A piece of work as traces show it. Plain data: whoever exports it decides on the wire.

use std::{borrow::Cow, fmt};

use crate::{SpanId, Timestamp, TraceId, TraceParent, TraceState};

/// One piece of work that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Its trace, its own name and whether it is recorded.
    pub context: TraceParent,
    /// The work that it is part of, unless it is the first of its trace.
    pub parent: Option<SpanId>,
    /// Whether that work was somewhere else.
    pub is_parent_remote: bool,
    /// What other systems passed on.
    pub state: Option<TraceState>,
    /// What was done. One of few: what differs from one to the next is an attribute.
    pub name: Cow<'static, str>,
    /// Whose side it is seen from.
    pub kind: SpanKind,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// Under names of the semantic conventions where they have one, else under our own. Never an
    /// argument, a result or a secret.
    pub attributes: Vec<(&'static str, Attribute)>,
    /// In a word or a short sentence, why it failed.
    pub failure: Option<String>,
}

/// Whose side a span is seen from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// Within the process.
    Internal,
    /// The answer to a request from outside.
    Server,
    /// A request to somebody outside.
    Client,
}

/// A value of a span's attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Attribute {
    /// Text.
    Text(Cow<'static, str>),
    /// A whole number.
    Whole(i64),
    /// Any number.
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

/// Where spans go. Taking one never waits: work is not slowed down by those who watch it.
pub trait Spans: fmt::Debug + Send + Sync + 'static {
    /// Whether a trace that begins here is to be recorded.
    fn samples(&self, trace: TraceId) -> bool;

    /// Takes a span that has ended.
    fn take(&self, span: Span);
}
