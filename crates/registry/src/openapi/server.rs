//! Servers of a document, with their variables.

use ringfence_egress::{Host, Target, vet};
use serde_json::Value;

use super::Document;
use crate::text::shown;

/// URL of the server of an operation, without a slash at its end, and its host with the port that it names.
pub(super) fn of(
    document: &Document<'_>,
    item: &Value,
    operation: &Value,
) -> Result<(String, String), String> {
    let url = match &document.options.server {
        Some(server) => server.clone(),
        None => described(document, item, operation)?,
    };
    let target = match (Target::parse(&url), &document.base) {
        (Ok(target), _) => target,
        (Err(_), Some(base)) => {
            base.join(&url).map_err(|problem| format!("server `{}`: {problem}", shown(&url)))?
        }
        (Err(problem), None) => {
            let hint = "; name a server with --server";
            return Err(format!("server `{}`: {problem}{hint}", shown(&url)));
        }
    };
    check_address(&target)?;
    let authority = host_of(&target);
    let url = target.as_str();
    if url.contains(['?', '#']) {
        return Err(format!("server `{}` has a query or a fragment", shown(url)));
    }
    Ok((url.trim_end_matches('/').to_owned(), authority))
}

/// The first server of the operation, its path or the document, with its variables filled in.
fn described(document: &Document<'_>, item: &Value, operation: &Value) -> Result<String, String> {
    let lists = [operation, item, document.root].into_iter().map(|part| part.get("servers"));
    let found = lists.flatten().filter_map(Value::as_array).find_map(|servers| servers.first());
    let Some(server) = found else { return Ok("/".to_owned()) };
    let mut url = server.get("url").and_then(Value::as_str).unwrap_or("/").to_owned();
    let variables = server.get("variables").and_then(Value::as_object);
    for (name, variable) in variables.into_iter().flatten().take(32) {
        let default = variable.get("default").and_then(Value::as_str).unwrap_or_default();
        url = url.replace(&format!("{{{name}}}"), default);
        if url.len() > 4_096 {
            return Err("the URL of the server is too long".to_owned());
        }
    }
    match url.contains(['{', '}']) {
        true => Err(format!("server `{}` has a variable without a default", shown(&url))),
        false => Ok(url),
    }
}

/// Refuses addresses that the guarded client would refuse anyway, so that the import says so.
fn check_address(target: &Target) -> Result<(), String> {
    if let Host::Address(address) = target.host()
        && let Err(refused) = vet(*address)
        && !address.is_loopback()
    {
        return Err(format!("server `{}`: {refused}", shown(target.as_str())));
    }
    Ok(())
}

/// Host as a rule names it, with its port unless it is the usual one.
fn host_of(target: &Target) -> String {
    let usual = match target.scheme() {
        ringfence_egress::Scheme::Http => 80,
        ringfence_egress::Scheme::Https => 443,
    };
    match target.port() {
        port if port == usual => target.host().to_string(),
        port => format!("{}:{port}", target.host()),
    }
}

/// Host and port of a URL; none if it is none.
pub(crate) fn authority(url: &str) -> Option<String> {
    let target = Target::parse(url).ok()?;
    check_address(&target).ok()?;
    Some(host_of(&target))
}
