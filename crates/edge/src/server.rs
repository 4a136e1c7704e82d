//! Steps of every request before and after its handler.
//!
//! Before: trace, name of the server, key, rate. After: problems are written, every answer says
//! which trace it belongs to, and is counted. All of it in one place and in one order.

use std::{
    convert::Infallible,
    io,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{self, Poll},
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::Request,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use ringfence_access::KnownKey;
use ringfence_engine::{
    Owned,
    data::{Process, ProcessRole},
};
use ringfence_types::{TraceContext, TraceParent};
use tokio::net::TcpListener;
use tower::Service;

use crate::{
    Door, Edge, Problem, Tls, credentials, forward, host,
    identity::RequestContext,
    problem_codes,
    request_trace::{Answered, RequestTrace},
    route_pattern::Paths,
    serve,
};

/// Doors behind one listener. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Server {
    pub(crate) edge: Edge,
    pub(crate) tls: Option<Tls>,
    router: Router,
    paths: Arc<Paths>,
}

/// Identity of a request that may go on to its handler.
#[derive(Debug, Default)]
struct Admitted {
    known: Option<Arc<KnownKey>>,
    /// Token of the browser's session, if the key was found by one.
    session: Option<String>,
}

/// Marks the answer to a request that carried a valid key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Authenticated;

impl Service<Request> for Server {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let server = self.clone();
        Box::pin(async move { Ok(server.handle(request).await) })
    }
}

impl Server {
    /// Doors behind one edge.
    pub fn new(edge: Edge, doors: &[&dyn Door]) -> Self {
        let routes = doors.iter().map(|door| door.routes());
        let router = routes.fold(Router::new(), Router::merge);
        let router = router.fallback(no_path).method_not_allowed_fallback(no_method);
        Self { edge, tls: None, router, paths: Arc::new(Paths::of(doors)) }
    }

    /// The same server, with TLS on every connection.
    pub fn with_tls(self, tls: Option<Tls>) -> Self {
        Self { tls, ..self }
    }

    /// The server as a router, for callers that have a listener of their own. It takes requests for
    /// loopback names only, as a server on loopback does.
    pub fn router(&self) -> Router {
        Router::new().fallback_service(self.clone())
    }

    /// Serves until `stop`; then event streams end at once and requests within the grace.
    pub async fn serve(
        self,
        listener: TcpListener,
        stop: impl Future<Output = ()>,
    ) -> io::Result<()> {
        serve::run(self, listener, stop).await
    }

    /// Answers one request.
    pub(crate) async fn handle(mut self, mut request: Request) -> Response {
        let began = Instant::now();
        let (uri, method) = (request.uri().clone(), request.method().clone());
        let trace = RequestTrace::begin(self.edge.engine(), request.headers());
        let admitting = self.admit(&uri, request.headers());
        let (answer, known) = match trace.subject(None).scope(admitting).await {
            Ok(Admitted { known, session }) => {
                let (context, key) = (trace.context.clone(), known.clone());
                let context = RequestContext { trace: context, known: key, session };
                request.extensions_mut().insert(Arc::new(context));
                let subject = trace.subject(known.as_deref());
                let answering = self.answer(request, known.as_deref(), &trace.context);
                (subject.scope(answering).await, known)
            }
            Err(problem) => (problem.into_response(), None),
        };
        let mut answer = finish(answer, &uri, &trace.context.parent);
        if known.is_some() {
            answer.extensions_mut().insert(Authenticated);
        }
        let (status, took) = (answer.status(), began.elapsed());
        let answered = Answered { method: &method, uri: &uri, status, took, paths: &self.paths };
        self.end(trace, known.as_deref(), &answered);
        answer
    }

    /// Answers one request for which there is no room.
    pub(crate) fn turn_away<B>(&self, request: &http::Request<B>) -> Response {
        let (uri, method) = (request.uri(), request.method());
        let busy = Problem::new(&problem_codes::BUSY, "too many clients are connected")
            .retry_after(Duration::from_secs(1));
        let trace = RequestTrace::begin(self.edge.engine(), request.headers());
        let answer = finish(busy.into_response(), uri, &trace.context.parent);
        let (status, took) = (answer.status(), Duration::ZERO);
        self.end(trace, None, &Answered { method, uri, status, took, paths: &self.paths });
        answer
    }

    /// Counts, logs and records an answer.
    fn end(&self, trace: RequestTrace, known: Option<&KnownKey>, answered: &Answered<'_>) {
        let Answered { method, uri, status, took, paths } = *answered;
        self.edge.0.metrics.answered(paths.area(uri.path()), method, status, took);
        trace.end(self.edge.engine(), known, answered);
    }

    async fn admit(&self, uri: &Uri, headers: &HeaderMap) -> Result<Admitted, Problem> {
        let is_loopback = self.edge.0.is_loopback.load(Ordering::Relaxed);
        host::check(headers, uri, is_loopback, &self.edge.config().allowed_hosts)?;
        check_transfer_coding(headers)?;
        if self.paths.is_open(uri.path()) {
            return Ok(Admitted::default());
        }
        if self.paths.takes_sessions(uri.path()) {
            let session = credentials::session(self.edge.access(), headers).await?;
            let Some((known, token)) = session else { return Ok(Admitted::default()) };
            self.check_rate(&known).await?;
            return Ok(Admitted { known: Some(known), session: Some(token) });
        }
        let known = credentials::authenticate(self.edge.access(), headers).await?;
        self.check_rate(&known).await?;
        Ok(Admitted { known: Some(known), session: None })
    }

    async fn check_rate(&self, known: &KnownKey) -> Result<(), Problem> {
        let Some(rate) = self.edge.config().rate else { return Ok(()) };
        self.edge.access().check_rate(known, rate).await.map_err(|wait| {
            let (per_second, burst) = (rate.per_second, rate.burst);
            let secs = wait.as_secs_f64().ceil().max(1.0);
            let detail = format!("a key may make {per_second} requests per second");
            Problem::new(&problem_codes::RATE_LIMITED, detail)
                .retry_after(wait)
                .header(RATE_LIMIT_POLICY, text(format!("\"key\";q={burst};w=1")))
                .header(RATE_LIMIT, text(format!("\"key\";r=0;t={secs}")))
        })
    }

    /// Answers a request, or has the process answer that has what it is about in memory.
    async fn answer(
        &mut self,
        request: Request,
        known: Option<&KnownKey>,
        trace: &TraceContext,
    ) -> Response {
        let owned = match forward::is_forwarded(request.headers()) {
            true => None,
            false => {
                if let Some(problem) = self.wrong_role(request.method(), known) {
                    return problem.into_response();
                }
                self.paths.owned(request.method(), request.uri().path())
            }
        };
        let needs_worker = owned == Some(Owned::NewSandbox);
        match self.owner_elsewhere(owned, known).await {
            Ok(None) if needs_worker && !self.edge.engine().role().runs_calls() => {
                let detail = "this server makes no sandboxes (its role is `api`), and no worker on \
                              its database is alive";
                Problem::new(&problem_codes::SANDBOX_UNAVAILABLE, detail).into_response()
            }
            Ok(None) => self.route(request).await,
            Ok(Some(process)) => {
                let forwarding = forward::forward(self, &process, request, trace);
                match tokio::time::timeout(self.longest(), forwarding).await {
                    Ok(Ok(response)) => response,
                    Ok(Err(problem)) => problem.into_response(),
                    Err(_) => too_long(),
                }
            }
            Err(problem) => problem.into_response(),
        }
    }

    /// Refuses what a worker leaves to others: changes that clients ask it for.
    fn wrong_role(&self, method: &Method, known: Option<&KnownKey>) -> Option<Problem> {
        let is_change = known.is_some() && !method.is_safe();
        let is_wrong = is_change && self.edge.engine().role() == ProcessRole::Worker;
        is_wrong.then(|| {
            let detail = "this server runs calls that others accept (its role is `worker`): ask a \
                          server whose role is `api` or `all`";
            Problem::new(&problem_codes::WRONG_ROLE, detail)
        })
    }

    async fn owner_elsewhere(
        &self,
        owned: Option<Owned>,
        known: Option<&KnownKey>,
    ) -> Result<Option<Process>, Problem> {
        match (owned, known) {
            (Some(owned), Some(known)) => {
                Ok(self.edge.engine().owner_elsewhere(&known.principal, &owned).await?)
            }
            _ => Ok(None),
        }
    }

    /// Longest time for an answer: the longest wait and a body.
    fn longest(&self) -> Duration {
        self.edge.config().max_wait + self.edge.config().request_timeout
    }

    /// Runs the handler. None takes longer than the longest wait and a body; more is a server error.
    async fn route(&mut self, request: Request) -> Response {
        let limit = self.longest();
        match tokio::time::timeout(limit, self.router.call(request)).await {
            Ok(Ok(response)) => response,
            Err(_) => too_long(),
        }
    }
}

fn too_long() -> Response {
    Problem::new(&problem_codes::TIMEOUT, "the request took too long").into_response()
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
    let problem = Problem::new(&problem_codes::TRANSFER_ENCODING_UNSUPPORTED, detail);
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

async fn no_path() -> Problem {
    Problem::new(&problem_codes::NOT_FOUND, "there is no such path; `/docs` lists all of them")
}

async fn no_method() -> Problem {
    let detail = "the `Allow` header lists the methods of this path";
    Problem::new(&problem_codes::METHOD_NOT_ALLOWED, detail)
}
