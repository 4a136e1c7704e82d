//! Exchange with one server.

use std::{
    io,
    net::{IpAddr, SocketAddr},
};

use http::{
    HeaderMap, HeaderName,
    header::{ACCEPT, ACCEPT_ENCODING},
};
use ringfence_types::TenantId;
use tokio::task::spawn_blocking;

use super::{Fetcher, Hop, Request};
use crate::{
    classify::classify,
    client,
    error::{Error, SetupError},
    headers,
    host::Host,
    mask::Mask,
    resolve::LookupError,
    secrets,
    target::Target,
    vet::vet_with,
};

/// Addresses of one name that are dialled, in turn, before it counts as unreachable.
const MAX_ADDRESSES: usize = 8;

/// Header of W3C trace context.
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

impl Fetcher {
    /// Sends the request and returns a response with acceptable headers. The exchange is added to `hops`
    /// before a server can learn of it.
    pub(super) async fn exchange(
        &self,
        url: &Target,
        request: &Request,
        hops: &mut Vec<Hop>,
    ) -> Result<(reqwest::Response, Mask), Error> {
        if !request.hosts.permits(&request.method, url) {
            return Err(Error::HostRefused { host: url.host().clone() });
        }
        let addresses = self.vetted(url, request.tenant.as_ref()).await?;
        let client = self.client(url, addresses.clone()).await?;
        let source = request.secrets.as_deref();
        let added = secrets::of_request(source, &request.method, url).await?;
        let mut asked = client.request(request.method.clone(), secrets::full_url(url, &added));
        asked = asked.header(ACCEPT, "*/*").header(ACCEPT_ENCODING, "identity");
        let mut own = HeaderMap::new();
        if url.is_same_server(&request.url) {
            // The caller's own values replace ours.
            own = request.headers.clone();
            asked = asked.body(request.body.clone());
        }
        let refused = |problem| Error::SecretRefused { host: url.host().clone(), problem };
        secrets::add_headers(&added, &mut own).map_err(refused)?;
        asked = asked.headers(own);
        if let Some(trace) = request.trace_parent.filter(|_| self.options.pass_trace) {
            asked = asked.header(TRACE_PARENT, trace.to_string());
        }
        let names = added.iter().map(|secret| secret.name.clone()).collect();
        hops.push(Hop { url: url.clone(), status: None, peer: None, secrets: names });
        let sent = asked.send().await;
        let response = sent.map_err(|error| classify(error, url.host()))?;
        if let Some(hop) = hops.last_mut() {
            (hop.status, hop.peer) = (Some(response.status().as_u16()), response.remote_addr());
        }
        headers::check(response.headers())?;
        check_peer(&response, &addresses, url.host())?;
        let mask = secrets::mask(&added);
        if !mask.is_empty() && secrets::is_opaque(response.headers()) {
            let source = "the response is compressed, and could hide a secret".into();
            return Err(Error::ResponseInvalid { host: url.host().clone(), source });
        }
        Ok((response, mask))
    }

    /// Addresses that may be dialled for `url`: all of the host's, or none.
    ///
    /// One refused address refuses the name. Dialling only those that pass would let an attacker
    /// mix a public and an internal address and learn by timing and retries what lies inside; and
    /// no honest public name has an internal address.
    pub(crate) async fn vetted(
        &self,
        url: &Target,
        tenant: Option<&TenantId>,
    ) -> Result<Vec<SocketAddr>, Error> {
        let mut found = Vec::new();
        for address in self.addresses(url.host(), tenant).await? {
            let address = url.at(address);
            vet_with(&self.options.allow_private, address)
                .map_err(|why| Error::AddressRefused { host: url.host().clone(), why })?;
            found.push(address);
        }
        found.truncate(MAX_ADDRESSES);
        Ok(found)
    }

    async fn addresses(
        &self,
        host: &Host,
        tenant: Option<&TenantId>,
    ) -> Result<Vec<IpAddr>, Error> {
        let name = match host {
            Host::Address(address) => return Ok(vec![*address]),
            Host::Name(name) => name,
        };
        let found = match self.resolver.resolve(name, tenant).await {
            Ok(found) if found.is_empty() => {
                Err(io::Error::new(io::ErrorKind::NotFound, "no addresses").into())
            }
            found => found,
        };
        let name = || name.clone();
        found.map_err(|error| match error {
            LookupError::Failed(source) => Error::DnsFailed { name: name(), source },
            LookupError::Timeout(after) => Error::DnsTimeout { name: name(), after },
            LookupError::Busy => Error::DnsBusy { name: name() },
        })
    }

    /// Builds the client on a blocking thread, because it reads the CA store from disk.
    async fn client(
        &self,
        url: &Target,
        addresses: Vec<SocketAddr>,
    ) -> Result<reqwest::Client, Error> {
        let (options, url) = (self.options.clone(), url.clone());
        let building = spawn_blocking(move || client::build(&options.roots, &url, addresses));
        let built = building.await.map_err(|error| SetupError::Client { source: error.into() })?;
        Ok(built?)
    }
}

/// Checks afterwards that the HTTP client dialled a vetted address. Should a later version of it use
/// another one, no byte of the answer reaches the caller.
fn check_peer(
    response: &reqwest::Response,
    vetted: &[SocketAddr],
    host: &Host,
) -> Result<(), Error> {
    let is_vetted = response.remote_addr().is_some_and(|peer| vetted.contains(&peer));
    let source = "the peer is not an address that was vetted";
    let failed = || Error::ConnectFailed { host: host.clone(), source: source.into() };
    is_vetted.then_some(()).ok_or_else(failed)
}
