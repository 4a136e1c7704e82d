//! Engines in other processes, against the real thing.

mod answers;
mod authzen;
mod evaluate;
mod faults;
mod opa;
mod openfga;

use std::time::Duration;

use ringfence_policy::{OpaConfig, Remote, Shape, Undefined};

/// The rules that are part of the binary, for a server of others.
const BUILT_IN: &str = include_str!("../../../../../policy/ringfence.rego");

/// How a server at this address is reached.
fn remote(name: &str, url: &str) -> Remote {
    let url = url.parse().expect("an address");
    let timeout = Duration::from_secs(3);
    Remote { name: name.to_owned(), url, timeout, authorization: None }
}

pub(crate) fn opa(url: &str) -> OpaConfig {
    OpaConfig {
        remote: remote("opa", url),
        path: "/v1/data/ringfence/decision".to_owned(),
        shape: Shape::Document,
        undefined: Undefined::Deny,
    }
}
