//! Remote policy engines, asked over HTTP.
//!
//! They use the guarded client with connection reuse, bounds on time, size and concurrency, and a
//! [`Health`] that keeps a dead engine from costing every call its full timeout. The protocols
//! differ; see the modules in this folder.

mod authzen;
mod evaluate;
mod health;
mod line;
mod opa;
mod openfga;
mod plain;
mod probe;
mod template;

use std::time::Duration;

use reqwest::Url;
use ringfence_egress::{HeaderValue, Target, UrlProblem};

pub use self::{
    authzen::{AuthZen, AuthZenProtocol},
    evaluate::{Evaluate, EvaluateProtocol},
    opa::{Opa, OpaConfig, Shape, Undefined},
    openfga::{OpenFga, OpenFgaConfig, Relation},
    plain::{Plain, Protocol},
    template::{InvalidTemplate, Template},
};
use self::{health::Health, line::Line};

/// Address and limits of a remote engine.
#[derive(Debug, Clone)]
pub struct Remote {
    /// Name of the engine in decisions.
    pub name: String,
    /// Base URL. Plain HTTP is for engines on the same host.
    pub url: Url,
    /// Time limit of one question, at most [`MAX_REMOTE_TIMEOUT`].
    pub timeout: Duration,
    /// Value of the `authorization` header, marked as sensitive.
    pub authorization: Option<HeaderValue>,
}

/// Upper bound of a remote engine's timeout: calls wait for it.
pub const MAX_REMOTE_TIMEOUT: Duration = Duration::from_secs(4);

/// Failure to set up a remote engine.
#[derive(Debug, thiserror::Error)]
#[error("the address of the policy engine {0}")]
pub struct SetupError(#[from] UrlProblem);

/// Target of a path below a base URL, with a query.
fn target(base: &Url, path: &str, query: Option<&str>) -> Result<Target, SetupError> {
    let mut url = below(base, path);
    url.set_query(query.or(base.query()));
    Ok(Target::parse(url.as_str())?)
}

/// URL of a path below a base URL.
fn below(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    let joined = format!("{}/{}", base.path().trim_end_matches('/'), path.trim_start_matches('/'));
    url.set_path(&joined);
    url
}
