//! HTTP client for one hop: it knows one name and its vetted addresses, nothing else.
//!
//! A client per hop costs a few milliseconds and buys the invariant: there is no pool that could
//! hand out a connection vetted for another fetch, and no resolver behind the addresses.

use std::{net::SocketAddr, sync::Arc};

use reqwest::{
    Client, ClientBuilder,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect::Policy,
    retry,
};

use crate::{
    error::SetupError,
    headers::MAX_HEADERS,
    roots::Roots,
    target::{Scheme, Target},
};

const USER_AGENT: &str = concat!("ringfence/", env!("CARGO_PKG_VERSION"));

/// Client that can reach only `addresses`, under the name of `target`.
pub(crate) fn build(
    roots: &Roots,
    target: &Target,
    addresses: Vec<SocketAddr>,
) -> Result<Client, SetupError> {
    let pinned = Pinned { host: target.host().to_string(), addresses };
    let builder = plain().dns_resolver(Arc::new(pinned));
    match target.scheme() {
        Scheme::Https => verifying(roots, builder.https_only(true)),
        // No certificate is verified over plain HTTP, so the CA store is not read.
        Scheme::Http => builder
            .tls_certs_only([])
            .build()
            .map_err(|error| SetupError::Client { source: error.into() }),
    }
}

/// Checks that a client that verifies certificates can be built at all.
pub(crate) fn check(roots: &Roots) -> Result<(), SetupError> {
    verifying(roots, plain()).map(drop)
}

/// Client that verifies certificates; fails if the CA store is missing.
fn verifying(roots: &Roots, builder: ClientBuilder) -> Result<Client, SetupError> {
    roots.apply(builder).build().map_err(|error| SetupError::Roots { source: error.into() })
}

/// Builder with every automatic behaviour switched off. Features of the library that this crate does
/// not enable are named too: another crate of the same build may enable them for all.
fn plain() -> ClientBuilder {
    Client::builder()
        .user_agent(USER_AGENT)
        .no_proxy()
        .redirect(Policy::none())
        .retry(retry::never())
        .referer(false)
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate()
        .http1_only()
        .http1_max_headers(MAX_HEADERS)
        .pool_max_idle_per_host(0)
}

/// Resolver that answers for one name with its vetted addresses.
#[derive(Debug)]
struct Pinned {
    host: String,
    addresses: Vec<SocketAddr>,
}

impl Resolve for Pinned {
    fn resolve(&self, name: Name) -> Resolving {
        let answer = match name.as_str() == self.host {
            true => Ok(Box::new(self.addresses.clone().into_iter()) as Addrs),
            false => Err("a name was asked for that was not vetted".into()),
        };
        Box::pin(std::future::ready(answer))
    }
}
