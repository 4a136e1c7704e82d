//! Guarded client of servers: model servers, webhooks, policy engines, tools of other servers.
//!
//! It differs from a fetch: every status is an answer, no redirect is followed, the body is
//! streamed, and connections are kept. Names are resolved and addresses vetted by the same code when a
//! connection is made.
//!
//! Invariant: a kept connection is used again only by the client that made it, so that the rule that
//! vetted its address is the rule of every request on it.

mod answer;
mod pool;

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    client::conn::http1,
};
use hyper_util::rt::TokioIo;
use ringfence_types::{Bytes as Size, TenantId, TraceParent};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, timeout_at},
};

pub use self::answer::Answer;
use self::{
    answer::Rest,
    pool::{Connection, Pool},
};
use crate::{
    error::{Cause, Error, Phase, SetupError},
    fetch::{Fetcher, Options},
    headers::{self, MAX_HEADERS},
    host::Host,
    hosts::Hosts,
    mask::Mask,
    network::Exemption,
    roots::Roots,
    secrets::{self, Injection, SecretSource},
    target::{Scheme, Target},
};

const USER_AGENT: &str = concat!("ringfence/", env!("CARGO_PKG_VERSION"));
/// Header of W3C trace context.
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");
/// Size of the buffer in which a server's headers must fit.
const MAX_BUFFER_BYTES: usize = 128 << 10;

/// Time limits of one exchange, each with an error of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Name lookup, connection and TLS handshake.
    pub connect: Duration,
    /// From the sent request to the headers of the answer.
    pub first_byte: Duration,
    /// Between two parts of the body.
    pub idle: Duration,
    /// Everything together, up to the end of the body.
    pub total: Duration,
}

impl Timeouts {
    /// Limits of an exchange that is to end within `total`.
    pub fn within(total: Duration) -> Self {
        Self { connect: total, first_byte: total, idle: total, total }
    }
}

/// Body of a request.
pub enum Payload {
    /// Body with a known length.
    Whole(Bytes),
    /// Body that is sent part by part.
    Stream(Pin<Box<dyn Stream<Item = Result<Bytes, Cause>> + Send>>),
}

impl fmt::Debug for Payload {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(bytes) => write!(out, "Whole({} bytes)", bytes.len()),
            Self::Stream(_) => out.write_str("Stream"),
        }
    }
}

/// One request to one server.
#[derive(Debug)]
pub struct Exchange {
    /// URL of the request.
    pub url: Target,
    /// Method.
    pub method: Method,
    /// Headers of the caller. Those about the connection and the length of the body are refused.
    pub headers: HeaderMap,
    /// Body of the request.
    pub body: Payload,
    /// Permitted hosts.
    pub hosts: Hosts,
    /// Time limits.
    pub timeouts: Timeouts,
    /// Size limit of the answer's body.
    pub max_body: Size,
    /// Trace context of the caller; sent only if [`Options::pass_trace`].
    pub trace_parent: Option<TraceParent>,
    /// Tenant of the exchange: lookups are bounded per tenant. Not sent to servers.
    pub tenant: Option<TenantId>,
    /// Secrets that are added on the way, for the hosts they are bound to, and masked in the answer.
    pub secrets: Option<Arc<dyn SecretSource>>,
}

impl Exchange {
    /// Request without headers and body, within ten seconds and one MiB.
    pub fn new(method: Method, url: Target) -> Self {
        Self {
            url,
            method,
            headers: HeaderMap::new(),
            body: Payload::Whole(Bytes::new()),
            hosts: Hosts::Any,
            timeouts: Timeouts::within(Duration::from_secs(10)),
            max_body: Size::mib(1),
            trace_parent: None,
            tenant: None,
            secrets: None,
        }
    }
}

/// Guarded client. Cheap to clone; clones share their connections.
#[derive(Debug, Clone)]
pub struct GuardedClient {
    fetcher: Fetcher,
    pool: Arc<Pool>,
}

impl GuardedClient {
    /// Client with the rules of `fetcher`: public addresses, and those that its options exempt.
    pub fn new(fetcher: Fetcher) -> Self {
        Self { fetcher, pool: Arc::default() }
    }

    /// Client for servers whose URLs the operator configured. Private and loopback addresses are
    /// allowed, because such servers are usually there; metadata services are not.
    pub fn configured(roots: Roots) -> Self {
        let options = Options { allow_private: Exemption::all(), roots, ..Options::default() };
        Self::new(Fetcher::unchecked(options))
    }

    /// Sends a request and returns the answer as soon as its headers are here. Dropping the future
    /// or the answer ends the exchange.
    pub async fn send(&self, exchange: Exchange) -> Result<Answer, Error> {
        headers::check_own(&exchange.headers)?;
        let Exchange { url, method, timeouts, tenant, .. } = &exchange;
        if !exchange.hosts.permits(method, url) {
            return Err(Error::HostRefused { host: url.host().clone() });
        }
        let (url, timeouts, tenant) = (url.clone(), *timeouts, tenant.clone());
        let limits = Limits { deadline: Instant::now() + timeouts.total, timeouts };
        let max_body = exchange.max_body;
        let source = exchange.secrets.as_deref();
        let added = secrets::of_request(source, &exchange.method, &url).await?;
        let mask = secrets::mask(&added);
        let mut request = self.request(exchange, &added)?;
        loop {
            let kept = self.pool.take(&url).await;
            let is_kept = kept.is_some();
            let mut connection = match kept {
                Some(connection) => connection,
                None => {
                    let opening = self.open(&url, tenant.as_ref());
                    limits.within(Phase::Connect, opening).await??
                }
            };
            let sending = connection.sender.try_send_request(request);
            match limits.within(Phase::FirstByte, sending).await? {
                Ok(response) => {
                    check(&response, &mask, url.host())?;
                    let rest = Rest::new(response, connection, self.pool.clone(), &mask);
                    return Ok(Answer::new(rest, url, limits, max_body));
                }
                Err(mut failed) => match failed.take_message() {
                    // The server closed a kept connection before anything was sent on it.
                    Some(unsent) if is_kept => request = unsent,
                    _ => return Err(broken(failed.into_error(), url.host())),
                },
            }
        }
    }

    /// Request as it is sent: our own headers first, so that the caller's replace them.
    fn request(
        &self,
        exchange: Exchange,
        added: &[Injection],
    ) -> Result<Request<RequestBody>, Error> {
        let Exchange { url, method, headers, body, trace_parent, .. } = exchange;
        let invalid = |source: Cause| Error::Setup(SetupError::Client { source });
        let path = secrets::path_and_query(&url, added);
        let host = HeaderValue::from_str(&url.authority()).map_err(|e| invalid(e.into()))?;
        let mut request = Request::new(payload(body));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().map_err(|e: http::uri::InvalidUri| invalid(e.into()))?;
        let ours = request.headers_mut();
        ours.insert(header::HOST, host);
        ours.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        ours.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
        ours.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let trace = trace_parent.filter(|_| self.fetcher.passes_trace());
        if let Some(trace) = trace.and_then(|trace| trace.to_string().parse().ok()) {
            ours.insert(TRACE_PARENT, trace);
        }
        for name in headers.keys() {
            ours.remove(name);
        }
        for (name, value) in &headers {
            ours.append(name, value.clone());
        }
        let refused = |problem| Error::SecretRefused { host: url.host().clone(), problem };
        secrets::add_headers(added, ours).map_err(refused)?;
        Ok(request)
    }

    async fn open(&self, url: &Target, tenant: Option<&TenantId>) -> Result<Connection, Error> {
        // The caller keeps the time of all steps together.
        let stream = self.fetcher.dial(url, tenant, Duration::MAX).await?;
        let peer = stream.peer_addr().ok();
        let sender = match url.scheme() {
            Scheme::Http => handshake(stream, url.host()).await?,
            Scheme::Https => {
                let encrypted = self.fetcher.encrypt(url, stream, Duration::MAX).await?;
                handshake(encrypted, url.host()).await?
            }
        };
        Ok(Connection { sender, peer })
    }
}

/// Body of a request as the HTTP library takes it.
type RequestBody = UnsyncBoxBody<Bytes, Cause>;

fn payload(body: Payload) -> RequestBody {
    match body {
        Payload::Whole(bytes) => Full::new(bytes).map_err(|never| match never {}).boxed_unsync(),
        Payload::Stream(parts) => {
            BodyExt::boxed_unsync(StreamBody::new(parts.map(|part| part.map(Frame::data))))
        }
    }
}

async fn handshake<S>(stream: S, host: &Host) -> Result<http1::SendRequest<RequestBody>, Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::Builder::new()
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_BUFFER_BYTES)
        .handshake::<_, RequestBody>(TokioIo::new(stream))
        .await
        .map_err(|error| broken(error, host))?;
    // It ends when its sender and the body that it reads are dropped.
    tokio::spawn(connection);
    Ok(sender)
}

fn check(response: &Response<Incoming>, mask: &Mask, host: &Host) -> Result<(), Error> {
    headers::check(response.headers())?;
    let invalid =
        |source: &str| Error::ResponseInvalid { host: host.clone(), source: source.into() };
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Err(invalid("the server changes the protocol"));
    }
    if !mask.is_empty() && secrets::is_opaque(response.headers()) {
        return Err(invalid("the response is compressed, and could hide a secret"));
    }
    Ok(())
}

fn broken(error: hyper::Error, host: &Host) -> Error {
    match error.is_parse_too_large() {
        true => headers::too_many(),
        false => Error::ResponseInvalid { host: host.clone(), source: error.into() },
    }
}

/// Time limits of one exchange, with its deadline.
#[derive(Debug, Clone, Copy)]
struct Limits {
    deadline: Instant,
    timeouts: Timeouts,
}

impl Limits {
    /// Waits for one phase, which begins now.
    async fn within<T>(&self, phase: Phase, step: impl Future<Output = T>) -> Result<T, Error> {
        let after = match phase {
            Phase::Connect => self.timeouts.connect,
            Phase::FirstByte => self.timeouts.first_byte,
            Phase::Idle => self.timeouts.idle,
            Phase::Total => self.timeouts.total,
        };
        let end = Instant::now() + after;
        let (until, phase, after) = match end < self.deadline {
            true => (end, phase, after),
            false => (self.deadline, Phase::Total, self.timeouts.total),
        };
        timeout_at(until, step).await.map_err(|_| Error::Timeout { phase, after })
    }
}
