//! Remote engines, against real servers.

mod answers;
mod authzen;
mod evaluate;
mod faults;
mod opa;
mod openfga;

use std::time::Duration;

use ringfence_policy::{OpaConfig, Remote, Shape, Undefined};

/// Built-in rules, for an OPA server.
const BUILT_IN: &str = include_str!("../../../../../policy/ringfence.rego");

/// Address of a test server.
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
