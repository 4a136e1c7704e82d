//! An answer that is a problem, as RFC 9457 has it.
//!
//! A handler says what is wrong; the edge, which alone knows path and trace, writes the answer.

use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, Uri, header};
use ringfence_types::Json;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    problem_codes::{self, ProblemCode},
    reply,
};

/// An answer that says what is wrong.
#[derive(Debug, Clone)]
pub struct Problem(Box<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    code: &'static ProblemCode,
    detail: String,
    faults: Vec<Fault>,
    headers: Vec<(HeaderName, HeaderValue)>,
    more: serde_json::Map<String, serde_json::Value>,
}

/// One thing that is wrong with a request, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Fault {
    /// Where in the body, as a JSON Pointer; or the name of a query parameter after `?`.
    pub pointer: String,
    /// Description of the fault.
    pub detail: String,
}

/// A problem as it is written.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemView<'a> {
    /// Where the code is explained, relative to this server.
    r#type: String,
    /// The same for every problem of the code.
    title: &'a str,
    /// The status code.
    status: u16,
    /// Description of this occurrence.
    detail: &'a str,
    /// The path that was asked for.
    instance: &'a str,
    /// Stable, for programs.
    code: &'a str,
    /// For finding it in traces.
    trace_id: &'a str,
    /// Every fault of the request.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [Fault],
    /// Further members, by code.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    more: &'a serde_json::Map<String, serde_json::Value>,
}

impl Problem {
    /// A problem of this code, and what happened this time.
    pub fn new(code: &'static ProblemCode, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        let (faults, headers, more) = (Vec::new(), Vec::new(), serde_json::Map::new());
        Self(Box::new(Inner { code, detail, faults, headers, more }))
    }

    /// Nothing of that name exists for the key that asks.
    pub fn not_found() -> Self {
        Self::new(&problem_codes::NOT_FOUND, "nothing of this name exists for this key")
    }

    /// Lists every fault of the request.
    #[must_use]
    pub fn faults(mut self, faults: Vec<Fault>) -> Self {
        self.0.faults = faults;
        self
    }

    /// Adds a header field to the answer.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers.push((name, value));
        self
    }

    /// Says when to try again.
    #[must_use]
    pub fn retry_after(self, after: std::time::Duration) -> Self {
        let secs = after.as_secs_f64().ceil().clamp(1.0, 3_600.0) as u64;
        self.header(header::RETRY_AFTER, secs.into())
    }

    /// Adds a member beside the usual ones.
    #[must_use]
    pub fn with<T: Serialize>(mut self, name: &str, value: T) -> Self {
        if let Ok(value) = serde_json::to_value(value) {
            self.0.more.insert(name.to_owned(), value);
        }
        self
    }

    /// Its code.
    pub const fn code(&self) -> &'static ProblemCode {
        self.0.code
    }

    /// Description of what happened this time.
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// Every fault of the request.
    pub fn all_faults(&self) -> &[Fault] {
        &self.0.faults
    }

    /// The answer, complete.
    pub(crate) fn write(&self, uri: &Uri, trace_id: &str) -> Response {
        let inner = &self.0;
        let view = ProblemView {
            r#type: format!("/docs#{}", inner.code.code),
            title: inner.code.title,
            status: inner.code.status.as_u16(),
            detail: &inner.detail,
            instance: uri.path(),
            code: inner.code.code,
            trace_id,
            errors: &inner.faults,
            more: &inner.more,
        };
        let mut response = reply::json(inner.code.status, &view);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, PROBLEM_JSON);
        headers.extend(inner.headers.iter().cloned());
        response
    }
}

const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

impl IntoResponse for Problem {
    /// Leaves the writing to the edge.
    fn into_response(self) -> Response {
        let mut response = self.code().status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// The pointer to a member of what `base` points to.
pub fn pointer(base: &str, member: &str) -> String {
    format!("{base}/{}", member.replace('~', "~0").replace('/', "~1"))
}

/// The body of a request that is not JSON.
pub fn malformed(error: &ringfence_types::json::Malformed) -> Problem {
    Problem::new(&problem_codes::BODY_MALFORMED, error.to_string())
}

/// Reads JSON from outside.
pub fn parse(bytes: &[u8]) -> Result<Json, Problem> {
    Json::parse(bytes).map_err(|error| malformed(&error))
}
