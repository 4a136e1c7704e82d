//! Fetch of one URL.
//!
//! Each hop has the same five steps: is the host permitted, what are its addresses, may they be
//! reached, exchange with one of them, follow its redirect. Nothing is carried from hop to hop.

mod hop;

use std::{borrow::Cow, net::SocketAddr, sync::Arc, time::Duration};

use http::{HeaderMap, Method};
use ringfence_types::{Bytes, TenantId, TraceParent};
use rustls::ClientConfig;
use tokio::{sync::OnceCell, task::spawn_blocking, time::timeout};

use crate::{
    body::{self, Bound},
    client,
    error::{Error, Phase, SetupError},
    headers,
    hosts::Hosts,
    network::Exemption,
    redirect::{self, MAX_REDIRECTS},
    resolve::{Resolver, System},
    roots::{Roots, install_cryptography},
    secrets::SecretSource,
    target::Target,
};

/// Options of all fetches, set by the operator.
#[derive(Debug, Clone)]
pub struct Options {
    /// Internal services that may be reached although they are not public. None by default.
    pub allow_private: Vec<Exemption>,
    /// Trusted root certificates.
    pub roots: Roots,
    /// Upper bound of the time of a fetch.
    pub longest_timeout: Duration,
    /// Upper bound of the size of a body.
    pub largest_body: Bytes,
    /// Whether the `traceparent` header is sent to servers.
    pub pass_trace: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            allow_private: Vec::new(),
            roots: Roots::System,
            longest_timeout: Duration::from_secs(60),
            largest_body: Bytes::mib(16),
            pass_trace: true,
        }
    }
}

/// Behaviour when a body is larger than requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overflow {
    /// Fail: half a document may say something else than the whole.
    #[default]
    Refuse,
    /// Keep the beginning and mark it as truncated.
    Truncate,
}

/// One request, with all its redirects.
#[derive(Debug, Clone)]
pub struct Request {
    /// URL to fetch.
    pub url: Target,
    /// Method. Redirects of methods other than GET and HEAD are not followed.
    pub method: Method,
    /// Headers of the caller, sent to the host of `url` and to no other. Those about the connection
    /// and the length of the body are refused.
    pub headers: HeaderMap,
    /// Body of the request.
    pub body: bytes::Bytes,
    /// Time limit of everything: lookups, handshakes, all hops and the body.
    pub timeout: Duration,
    /// Size limit of the body.
    pub max_body: Bytes,
    /// Behaviour when the body is larger.
    pub overflow: Overflow,
    /// Permitted hosts, on every hop.
    pub hosts: Hosts,
    /// Trace context of the caller; sent only if [`Options::pass_trace`].
    pub trace_parent: Option<TraceParent>,
    /// Tenant of the fetch: lookups are bounded per tenant. Not sent to servers.
    pub tenant: Option<TenantId>,
    /// Secrets that are added on the way, for the hosts they are bound to.
    pub secrets: Option<Arc<dyn SecretSource>>,
}

impl Request {
    /// Request for `url` within ten seconds and one MiB, from any public host.
    pub fn get(url: Target) -> Self {
        let timeout = Duration::from_secs(10);
        let (max_body, overflow) = (Bytes::mib(1), Overflow::Refuse);
        let (hosts, trace_parent, tenant, secrets) = (Hosts::Any, None, None, None);
        let (method, headers, body) = (Method::GET, HeaderMap::new(), bytes::Bytes::new());
        Self {
            url,
            method,
            headers,
            body,
            timeout,
            max_body,
            overflow,
            hosts,
            trace_parent,
            tenant,
            secrets,
        }
    }
}

/// Successful response.
#[derive(Debug, Clone)]
pub struct Response {
    /// URL that answered, after redirects.
    pub url: Target,
    /// Status from 200 to 299.
    pub status: u16,
    /// Headers as sent.
    pub headers: HeaderMap,
    /// Body as sent, never decompressed.
    pub body: bytes::Bytes,
    /// Whether the body is incomplete; only with [`Overflow::Truncate`].
    pub truncated: bool,
    /// Every exchange of this fetch, the answering one last.
    pub hops: Vec<Hop>,
}

impl Response {
    /// Body as text, with a replacement character for each run of bytes that is not UTF-8.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }
}

/// Exchange with one server, perhaps without an answer. For the operator's log: the peer may be an
/// internal address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// URL of the request.
    pub url: Target,
    /// Status of the answer.
    pub status: Option<u16>,
    /// Address that answered.
    pub peer: Option<SocketAddr>,
    /// Names of the secrets that were added.
    pub secrets: Vec<String>,
}

/// Fetcher of URLs. Cheap to clone; fetches share only the options and the resolver.
#[derive(Debug, Clone)]
pub struct Fetcher {
    options: Arc<Options>,
    resolver: Arc<dyn Resolver>,
    /// Client configuration of TLS connections that are not made by the HTTP client.
    tls: Arc<OnceCell<Arc<ClientConfig>>>,
}

impl Fetcher {
    /// Fetcher with the resolver of the operating system.
    pub fn system(options: Options) -> Result<Self, SetupError> {
        Self::new(options, Arc::new(System::default()))
    }

    /// Fetcher with this resolver. Fails if no certificate could be verified.
    pub fn new(options: Options, resolver: Arc<dyn Resolver>) -> Result<Self, SetupError> {
        install_cryptography();
        client::check(&options.roots)?;
        Ok(Self { options: Arc::new(options), resolver, tls: Arc::default() })
    }

    /// Fetcher that finds out with the first encrypted connection whether certificates can be verified.
    pub(crate) fn unchecked(options: Options) -> Self {
        install_cryptography();
        let resolver = Arc::new(System::default());
        Self { options: Arc::new(options), resolver, tls: Arc::default() }
    }

    /// Whether the trace context of a caller is sent to servers.
    pub(crate) fn passes_trace(&self) -> bool {
        self.options.pass_trace
    }

    /// Configuration of TLS clients with the trusted roots; made on first use, because it reads the
    /// CA store.
    pub(crate) async fn tls(&self) -> Result<Arc<ClientConfig>, SetupError> {
        let options = self.options.clone();
        let build = || async move {
            let building = spawn_blocking(move || options.roots.client_config());
            building.await.map_err(|error| SetupError::Client { source: error.into() })?
        };
        self.tls.get_or_try_init(build).await.cloned()
    }

    /// Fetches a URL. Dropping the future ends the fetch.
    pub async fn fetch(&self, request: Request) -> Result<Response, Error> {
        self.fetch_along(request, &mut Vec::new()).await
    }

    /// Like [`Fetcher::fetch`], and reports every exchange as soon as it begins, also those of a fetch
    /// that fails or is dropped.
    pub async fn fetch_along(
        &self,
        request: Request,
        hops: &mut Vec<Hop>,
    ) -> Result<Response, Error> {
        let after = request.timeout.min(self.options.longest_timeout);
        let late = Error::Timeout { phase: Phase::Total, after };
        timeout(after, self.follow(request, hops)).await.unwrap_or(Err(late))
    }

    async fn follow(&self, request: Request, hops: &mut Vec<Hop>) -> Result<Response, Error> {
        headers::check_own(&request.headers)?;
        let mut url = request.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let (response, mask) = self.exchange(&url, &request, hops).await?;
            // Masked first: a redirect must not carry a secret to another host.
            let mut headers = response.headers().clone();
            mask.headers(&mut headers);
            let next = match request.method == Method::GET || request.method == Method::HEAD {
                true => redirect::next(&url, response.status(), &headers)?,
                false => None,
            };
            let Some(next) = next else {
                let mut last =
                    finish(response, headers, url, hops.clone(), self.bound(&request)).await?;
                last.body = match (mask.is_empty(), last.truncated) {
                    (true, _) => last.body,
                    (false, true) => mask.cut(&last.body),
                    (false, false) => mask.whole(&last.body),
                };
                return Ok(last);
            };
            url = next;
        }
        Err(Error::TooManyRedirects { limit: MAX_REDIRECTS })
    }

    fn bound(&self, request: &Request) -> Bound {
        let most = request.max_body.0.min(self.options.largest_body.0);
        Bound { most: usize::try_from(most).unwrap_or(usize::MAX), overflow: request.overflow }
    }
}

async fn finish(
    response: reqwest::Response,
    headers: HeaderMap,
    url: Target,
    hops: Vec<Hop>,
    bound: Bound,
) -> Result<Response, Error> {
    let status = response.status().as_u16();
    if !response.status().is_success() {
        return Err(Error::HttpStatus { status });
    }
    let body = body::read(response, url.host(), bound).await?;
    Ok(Response { url, status, headers, body: body.bytes, truncated: body.truncated, hops })
}
