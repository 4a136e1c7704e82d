//! Network access without internal addresses: fetches ([`Fetcher`]), a client of servers that streams
//! and keeps connections ([`GuardedClient`]), and the proxy of a sandbox ([`Proxy`]).
//!
//! A URL becomes a [`Target`] once; its host is resolved once per hop; every address is vetted; a
//! vetted address is dialled and no other. Redirects are hops: each is parsed, resolved and vetted
//! again. Headers, body and time are bounded over the whole fetch, and name lookups per tenant.
//!
//! Invariant: between the vetting of an address and its dialling there is no second lookup.
//!
//! Deliberately absent: proxies from the environment, cookies, referrers, decompression, and any way
//! to switch off the verification of certificates.
//!
//! ```no_run
//! # async fn example() -> Result<(), ringfence_egress::Error> {
//! use ringfence_egress::{Fetcher, Options, Request, Target};
//!
//! let fetcher = Fetcher::system(Options::default())?;
//! let page = fetcher.fetch(Request::get(Target::parse("https://example.com/")?)).await?;
//! assert_eq!(page.text().contains("Example"), page.status == 200);
//! # Ok(())
//! # }
//! ```

mod body;
mod classify;
mod client;
mod dial;
mod error;
mod exchange;
mod fetch;
mod headers;
mod host;
mod hosts;
mod mask;
mod network;
mod proxy;
mod redirect;
mod resolve;
mod roots;
mod secrets;
mod target;
mod vet;

pub use error::{Cause, Error, Part, Phase, RedirectProblem, SetupError};
pub use exchange::{Answer, Exchange, GuardedClient, Payload, Timeouts};
pub use fetch::{Fetcher, Hop, Options, Overflow, Request, Response};
pub use host::{Host, InvalidName, Name};
pub use hosts::{HostRule, Hosts, InvalidPattern, Pattern};
pub use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
pub use network::{Exemption, InvalidExemption, Network};
pub use proxy::{FlowLog, Grant, Proxy, ProxyLimits};
pub use resolve::{LookupError, LookupLimits, Resolver, System};
pub use roots::Roots;
pub use secrets::{Injection, NoSecrets, Place, SecretSource};
pub use target::{Scheme, Target, UrlProblem};
pub use vet::{Refused, vet, vet_with};
