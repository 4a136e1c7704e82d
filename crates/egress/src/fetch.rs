//! One fetch, from a target to the bytes it names.
//!
//! Each hop is the same five steps: is the host permitted, what are its addresses, may they be
//! reached, speak to one of them, where does it send us. Nothing is carried from hop to hop.

mod hop;

use std::{borrow::Cow, net::SocketAddr, sync::Arc, time::Duration};

use http::HeaderMap;
use ringfence_types::{Bytes, TenantId, TraceParent};
use tokio::time::timeout;

use crate::{
    body::{self, Bound},
    client,
    error::{Error, SetupError},
    hosts::Hosts,
    network::Exemption,
    redirect::{self, MOST_REDIRECTS},
    resolve::{Resolver, System},
    roots::{Roots, install_cryptography},
    target::Target,
};

/// What the operator decides once for all fetches.
#[derive(Debug, Clone)]
pub struct Options {
    /// Internal services that may be reached although they are not public. None by default.
    pub allow_private: Vec<Exemption>,
    /// Whose word counts for who a server is.
    pub roots: Roots,
    /// No fetch takes longer, whatever it asks for.
    pub longest_timeout: Duration,
    /// No body is larger, whatever the fetch asks for.
    pub largest_body: Bytes,
    /// Whether servers are told which trace a fetch is part of.
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

/// What to do with a body that is larger than asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overflow {
    /// Fail: half a document may say something else than the whole.
    #[default]
    Refuse,
    /// Keep the beginning and say so.
    Truncate,
}

/// One thing to fetch. The method is always GET.
#[derive(Debug, Clone)]
pub struct Request {
    /// What to fetch.
    pub url: Target,
    /// The time for everything: lookups, handshakes, all hops and the body.
    pub timeout: Duration,
    /// The most bytes of body to accept.
    pub max_body: Bytes,
    /// What to do when there are more.
    pub overflow: Overflow,
    /// The hosts that may be spoken to, on every hop.
    pub hosts: Hosts,
    /// The work that asks, for servers that trace; told only if [`Options::pass_trace`].
    pub trace_parent: Option<TraceParent>,
    /// Whose fetch it is: name lookups are bounded per tenant. Not told to servers.
    pub tenant: Option<TenantId>,
}

impl Request {
    /// Asks for `url` within ten seconds and one MiB, from any public host.
    pub fn get(url: Target) -> Self {
        let timeout = Duration::from_secs(10);
        let (max_body, overflow) = (Bytes::mib(1), Overflow::Refuse);
        let (hosts, trace_parent, tenant) = (Hosts::Any, None, None);
        Self { url, timeout, max_body, overflow, hosts, trace_parent, tenant }
    }
}

/// What a server answered with success.
#[derive(Debug, Clone)]
pub struct Response {
    /// The URL that answered, after redirects.
    pub url: Target,
    /// A status from 200 to 299.
    pub status: u16,
    /// As sent.
    pub headers: HeaderMap,
    /// As sent, never decompressed.
    pub body: bytes::Bytes,
    /// The body goes on; only with [`Overflow::Truncate`].
    pub truncated: bool,
    /// Every exchange of this fetch, the answering one last.
    pub hops: Vec<Hop>,
}

impl Response {
    /// The body as text, with a replacement character for each run of bytes that is not UTF-8.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }
}

/// One exchange with one server, or one that was begun and not answered. For the operator's log: the
/// peer may be an internal address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// What was asked for.
    pub url: Target,
    /// How it was answered.
    pub status: Option<u16>,
    /// Who answered.
    pub peer: Option<SocketAddr>,
}

/// Fetches. Cheap to clone; fetches share nothing but the options and the resolver.
#[derive(Debug, Clone)]
pub struct Fetcher {
    options: Arc<Options>,
    resolver: Arc<dyn Resolver>,
}

impl Fetcher {
    /// A fetcher that resolves names like every program on this machine.
    pub fn system(options: Options) -> Result<Self, SetupError> {
        Self::new(options, Arc::new(System::default()))
    }

    /// A fetcher with a resolver of its own. Fails when no certificate could be verified.
    pub fn new(options: Options, resolver: Arc<dyn Resolver>) -> Result<Self, SetupError> {
        install_cryptography();
        client::check(&options.roots)?;
        Ok(Self { options: Arc::new(options), resolver })
    }

    /// Fetches, or says why not. Dropping the future ends the fetch.
    pub async fn fetch(&self, request: Request) -> Result<Response, Error> {
        self.fetch_along(request, &mut Vec::new()).await
    }

    /// The same, with every exchange told as soon as it is begun: also those of a fetch that fails, or
    /// that nobody waits for any more.
    pub async fn fetch_along(
        &self,
        request: Request,
        hops: &mut Vec<Hop>,
    ) -> Result<Response, Error> {
        let after = request.timeout.min(self.options.longest_timeout);
        timeout(after, self.follow(request, hops)).await.unwrap_or(Err(Error::Timeout { after }))
    }

    async fn follow(&self, request: Request, hops: &mut Vec<Hop>) -> Result<Response, Error> {
        let mut url = request.url.clone();
        for _ in 0..=MOST_REDIRECTS {
            let response = self.exchange(&url, &request, hops).await?;
            match redirect::next(&url, response.status(), response.headers())? {
                Some(next) => url = next,
                None => return finish(response, url, hops.clone(), self.bound(&request)).await,
            }
        }
        Err(Error::TooManyRedirects { limit: MOST_REDIRECTS })
    }

    fn bound(&self, request: &Request) -> Bound {
        let most = request.max_body.0.min(self.options.largest_body.0);
        Bound { most: usize::try_from(most).unwrap_or(usize::MAX), overflow: request.overflow }
    }
}

async fn finish(
    response: reqwest::Response,
    url: Target,
    hops: Vec<Hop>,
    bound: Bound,
) -> Result<Response, Error> {
    let status = response.status().as_u16();
    if !response.status().is_success() {
        return Err(Error::HttpStatus { status });
    }
    let headers = response.headers().clone();
    let body = body::read(response, url.host(), bound).await?;
    Ok(Response { url, status, headers, body: body.bytes, truncated: body.truncated, hops })
}
