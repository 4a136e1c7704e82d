//! What happens to every request before and after its handler.
//!
//! Before: trace, name of the server, key, rate. After: problems are written, every answer says
//! which trace it belongs to, and is counted. All of it in one place and in one order.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{self, Poll},
    time::Instant,
};

use axum::{
    Router,
    extract::Request,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use ringfence_types::TraceParent;
use tower::Service;

use crate::{
    auth::{self, Context, Known},
    host, kinds,
    problem::Problem,
    shared::Shared,
    visit::{Answered, Visit},
};

/// Paths that need no key. Nothing here tells about tools, calls or tenants.
pub(crate) const OPEN: [&str; 8] = [
    "/",
    "/health",
    "/livez",
    "/healthz",
    "/readyz",
    "/docs",
    "/openapi.json",
    "/.well-known/authzen-configuration",
];

/// The router with its edge.
#[derive(Debug, Clone)]
pub(crate) struct Edge {
    pub(crate) shared: Arc<Shared>,
    pub(crate) router: Router,
}

/// Marks the answer to a request that carried a valid key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Authenticated;

impl Service<Request> for Edge {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let edge = self.clone();
        Box::pin(async move { Ok(edge.handle(request).await) })
    }
}

impl Edge {
    /// Answers one request.
    pub(crate) async fn handle(mut self, mut request: Request) -> Response {
        let began = Instant::now();
        let (uri, method) = (request.uri().clone(), request.method().clone());
        let visit = Visit::begin(&self.shared.engine, request.headers());
        let admitting = self.admit(&uri, request.headers());
        let (answer, known) = match visit.subject(None).scope(admitting).await {
            Ok(known) => {
                let context = Context { trace: visit.trace.clone(), known: known.clone() };
                request.extensions_mut().insert(Arc::new(context));
                let subject = visit.subject(known.as_deref());
                (subject.scope(self.route(request)).await, known)
            }
            Err(problem) => (problem.into_response(), None),
        };
        let mut answer = finish(answer, &uri, &visit.trace.parent);
        if known.is_some() {
            answer.extensions_mut().insert(Authenticated);
        }
        let (status, took) = (answer.status(), began.elapsed());
        self.shared.metrics.answered(uri.path(), &method, status, took);
        let answered = Answered { method: &method, uri: &uri, status, took };
        visit.end(&self.shared.engine, known.as_deref(), &answered);
        answer
    }

    /// Answers one request for which there is no room.
    pub(crate) fn turn_away<B>(&self, request: &http::Request<B>) -> Response {
        let (uri, method) = (request.uri(), request.method());
        let busy = Problem::new(&kinds::BUSY, "too many clients are connected")
            .retry_after(std::time::Duration::from_secs(1));
        let visit = Visit::begin(&self.shared.engine, request.headers());
        let answer = finish(busy.into_response(), uri, &visit.trace.parent);
        let (status, took) = (answer.status(), std::time::Duration::ZERO);
        self.shared.metrics.answered(uri.path(), method, status, took);
        visit.end(&self.shared.engine, None, &Answered { method, uri, status, took });
        answer
    }

    async fn admit(&self, uri: &Uri, headers: &HeaderMap) -> Result<Option<Arc<Known>>, Problem> {
        let Shared { config, is_loopback, .. } = &*self.shared;
        let is_loopback = is_loopback.load(Ordering::Relaxed);
        host::check(headers, uri, is_loopback, &config.allowed_hosts)?;
        check_transfer_coding(headers)?;
        let path = uri.path();
        if OPEN.contains(&path) || (config.open_metrics && path == "/metrics") {
            return Ok(None);
        }
        let known = auth::authenticate(&self.shared, headers).await?;
        self.check_rate(&known)?;
        Ok(Some(known))
    }

    fn check_rate(&self, known: &Known) -> Result<(), Problem> {
        let Some(rate) = self.shared.config.rate else { return Ok(()) };
        known.usage.bucket.take(rate, self.shared.ticks()).map_err(|wait| {
            let (per_second, burst) = (rate.per_second, rate.burst);
            let secs = wait.as_secs_f64().ceil().max(1.0);
            let detail = format!("a key may make {per_second} requests per second");
            Problem::new(&kinds::RATE_LIMITED, detail)
                .retry_after(wait)
                .header(RATE_LIMIT_POLICY, text(format!("\"key\";q={burst};w=1")))
                .header(RATE_LIMIT, text(format!("\"key\";r=0;t={secs}")))
        })
    }

    /// No handler takes longer than the longest wait and a body: the rest is a fault of ours.
    async fn route(&mut self, request: Request) -> Response {
        let config = &self.shared.config;
        let most = config.max_wait + config.request_timeout;
        match tokio::time::timeout(most, self.router.call(request)).await {
            Ok(Ok(response)) => response,
            Err(_) => Problem::new(&kinds::TIMEOUT, "the request took too long").into_response(),
        }
    }
}

/// Refuses every transfer coding but a single `chunked`. The HTTP library undoes `chunked` and ignores
/// those before it, so a compressed body would be taken for the body itself.
fn check_transfer_coding(headers: &HeaderMap) -> Result<(), Problem> {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let is_known = match codings.next() {
        None => true,
        Some(only) => {
            codings.next().is_none()
                && only.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked")
        }
    };
    if is_known {
        return Ok(());
    }
    let detail = "send the body with `Transfer-Encoding: chunked` alone, or with `Content-Length`";
    let problem = Problem::new(&kinds::TRANSFER_ENCODING_UNSUPPORTED, detail);
    // What follows on the connection may be framed in a way that we do not know.
    Err(problem.header(header::CONNECTION, HeaderValue::from_static("close")))
}

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const TRACE_RESPONSE: HeaderName = HeaderName::from_static("traceresponse");
const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");

fn text(text: String) -> HeaderValue {
    HeaderValue::try_from(text).expect("our own header values are printable ASCII")
}

fn finish(mut answer: Response, uri: &Uri, trace: &TraceParent) -> Response {
    if let Some(problem) = answer.extensions_mut().remove::<Problem>() {
        let allow = answer.headers_mut().remove(header::ALLOW);
        answer = problem.write(uri, &trace.trace.to_string());
        answer.headers_mut().extend(allow.map(|allow| (header::ALLOW, allow)));
    }
    let headers = answer.headers_mut();
    headers.insert(TRACE_RESPONSE, text(trace.to_string()));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, NO_SNIFF);
    answer
}
