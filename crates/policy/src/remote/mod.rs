//! Engines in other processes, asked over HTTP.
//!
//! What they have in common: one client that reuses connections, bounds on time, answers and
//! questions under way, and a [`Health`] that keeps a dead engine from costing every call its full
//! timeout. What differs is the wire: see the engines in this folder.

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

use reqwest::{Url, header::HeaderValue};

pub use self::{
    authzen::{AuthZen, AuthZenProtocol},
    evaluate::{Evaluate, EvaluateProtocol},
    opa::{Opa, OpaConfig, Shape, Undefined},
    openfga::{OpenFga, OpenFgaConfig, Relation},
    plain::{Plain, Protocol},
    template::{InvalidTemplate, Template},
};
use self::{health::Health, line::Line};

/// How an engine elsewhere is reached.
#[derive(Debug, Clone)]
pub struct Remote {
    /// What it is called in decisions.
    pub name: String,
    /// Its base address. Plain HTTP is for engines beside us.
    pub url: Url,
    /// How long one question may take, at most [`LONGEST`].
    pub timeout: Duration,
    /// Sent as `authorization`, marked as sensitive.
    pub authorization: Option<HeaderValue>,
}

/// No engine is waited for longer: calls wait for it.
pub const LONGEST: Duration = Duration::from_secs(4);

/// An engine that cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("no client for the policy engine")]
pub struct SetupError(#[from] reqwest::Error);

/// An address below another.
fn below(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    let joined = format!("{}/{}", base.path().trim_end_matches('/'), path.trim_start_matches('/'));
    url.set_path(&joined);
    url
}
