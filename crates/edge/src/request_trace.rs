//! One request as part of a trace, a line of the log, a span.
//!
//! The record names the route, never the path's query, a header or a body: those may hold secrets.

use std::time::Duration;

use http::{HeaderMap, Method, StatusCode, Uri};
use ringfence_access::KnownKey;
use ringfence_engine::{Engine, Subject, new_span, new_trace};
use ringfence_types::{
    Attribute, Digest, Span, SpanId, SpanKind, Timestamp, TraceContext, TraceParent, TraceState,
};

use crate::{metrics::method_name, route_pattern::Paths};

/// A request under way.
#[derive(Debug)]
pub(crate) struct RequestTrace {
    /// The request itself, as part of its trace.
    pub(crate) context: TraceContext,
    /// The span of the client that it is part of, if the client said.
    parent: Option<SpanId>,
    /// When it came, if its trace is recorded.
    recorded_from: Option<Timestamp>,
    /// Digest of the rules in force when it came.
    policy: Digest,
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct Answered<'a> {
    pub(crate) method: &'a Method,
    pub(crate) uri: &'a Uri,
    pub(crate) status: StatusCode,
    pub(crate) took: Duration,
    /// For the route pattern.
    pub(crate) paths: &'a Paths,
}

impl RequestTrace {
    pub(crate) fn begin(engine: &Engine, headers: &HeaderMap) -> Self {
        let given = given(headers);
        let parent = given.as_ref().map(|given| given.parent.span);
        let trace = match given {
            Some(given) => TraceContext { parent: given.parent.with_span(new_span()), ..given },
            None => new_trace(engine.spans()).into(),
        };
        let is_recorded = engine.spans().is_some() && trace.parent.is_sampled();
        let recorded_from = is_recorded.then(|| engine.clock().now());
        Self { context: trace, parent, recorded_from, policy: engine.policy_revision() }
    }

    /// The subject of the request, as far as that is known.
    pub(crate) fn subject(&self, known: Option<&KnownKey>) -> Subject {
        let principal = known.map(|known| &known.principal);
        Subject {
            tenant: principal.map(|principal| principal.tenant.clone()),
            persona: principal.and_then(|principal| principal.persona.clone()),
            policy: Some(self.policy),
            ..Subject::of_trace(self.context.parent.trace)
        }
    }

    /// Logs and records the end; almost nothing happens if neither is on.
    pub(crate) fn end(self, engine: &Engine, known: Option<&KnownKey>, answered: &Answered<'_>) {
        if tracing::enabled!(tracing::Level::DEBUG) {
            self.subject(known).say(|| log(answered));
        }
        if let (Some(began), Some(spans)) = (self.recorded_from, engine.spans()) {
            let ended = began.after(answered.took);
            spans.take(self.span(known, answered, began, ended));
        }
    }

    fn span(
        self,
        known: Option<&KnownKey>,
        answered: &Answered<'_>,
        started_at: Timestamp,
        ended_at: Timestamp,
    ) -> Span {
        let (method, route) =
            (method_name(answered.method), answered.paths.pattern(answered.uri.path()));
        let subject = self.subject(known);
        let path: String = answered.uri.path().chars().take(256).collect();
        let mut attributes: Vec<(&'static str, Attribute)> = vec![
            ("http.request.method", if method == "other" { "_OTHER" } else { method }.into()),
            ("http.response.status_code", i64::from(answered.status.as_u16()).into()),
            ("url.scheme", "http".into()),
            ("url.path", path.into()),
        ];
        attributes.extend(route.map(|route| ("http.route", route.to_owned().into())));
        let tenant = subject.tenant.map(|id| ("ringfence.tenant.id", id.to_string().into()));
        let persona = subject.persona.map(|id| ("ringfence.persona.id", id.to_string().into()));
        attributes.extend([tenant, persona].into_iter().flatten());
        let is_fault = answered.status.is_server_error();
        let failure = is_fault.then(|| answered.status.as_str().to_owned());
        attributes.extend(failure.clone().map(|status| ("error.type", status.into())));
        let method = if method == "other" { "HTTP" } else { method };
        Span {
            context: self.context.parent,
            parent: self.parent,
            is_parent_remote: self.parent.is_some(),
            state: self.context.state,
            name: route.map_or(method.into(), |route| format!("{method} {route}").into()),
            kind: SpanKind::Server,
            started_at,
            ended_at,
            attributes,
            failure,
        }
    }
}

fn log(answered: &Answered<'_>) {
    let Answered { method, uri, status, took, paths } = answered;
    let (method, route) = (method_name(method), paths.pattern(uri.path()).unwrap_or("none"));
    let (status, milliseconds) = (status.as_u16(), took.as_secs_f64() * 1_000.0);
    tracing::debug!(method, route, status, milliseconds, "answered");
}

/// The trace of the client. The specification asks to ignore what is not valid, and to ignore the
/// state of a trace that is ignored.
fn given(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all("traceparent").iter();
    let parent: TraceParent = parents.next()?.to_str().ok()?.trim().parse().ok()?;
    if parents.next().is_some() {
        return None;
    }
    let fields = headers.get_all("tracestate").iter().map(|field| field.to_str().ok());
    // A field that is not text spoils the list, as any other bad member does.
    let fields: Option<Vec<&str>> = fields.collect();
    Some(TraceContext { parent, state: fields.and_then(TraceState::parse) })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn check(pairs: &[(&'static str, &str)], expected: Option<(&str, Option<&str>)>) {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let found = given(&headers).map(|context| {
            (context.parent.to_string(), context.state.map(|state| state.to_string()))
        });
        let expected =
            expected.map(|(parent, state)| (parent.to_owned(), state.map(str::to_owned)));
        assert_eq!(found, expected, "{pairs:?}");
    }

    #[test]
    fn one_valid_parent_is_taken_with_its_state() {
        check(&[("traceparent", GOOD)], Some((GOOD, None)));
        check(
            &[("tracestate", "a=1"), ("traceparent", GOOD), ("tracestate", "b=2")],
            Some((GOOD, Some("a=1,b=2"))),
        );
        check(&[("traceparent", GOOD), ("tracestate", "A=1")], Some((GOOD, None)));
        check(&[("traceparent", GOOD), ("tracestate", "a=\u{e9}")], Some((GOOD, None)));
    }

    #[test]
    fn what_is_not_one_valid_parent_is_ignored_with_its_state() {
        check(&[], None);
        check(&[("tracestate", "a=1")], None);
        check(&[("traceparent", GOOD), ("traceparent", GOOD)], None);
        check(&[("traceparent", "00-x-y-z"), ("tracestate", "a=1")], None);
    }
}
