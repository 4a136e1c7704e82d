//! `http_fetch`: one page, through the vetted way out.

use std::{collections::BTreeMap, time::Duration};

use ringfence_egress::{Request, Response, Target};
use ringfence_types::{CallError, Flow, Obligations};
use serde_json::{Value, json};

use super::{error, text};
use crate::{journey::Journey, oblige};

/// What came, and where from.
pub(super) async fn run(
    journey: &Journey,
    obligations: &Obligations,
    args: &Value,
) -> Result<(Value, Vec<Flow>), CallError> {
    let invalid = || error("url_invalid", &"Valid 'url' argument required");
    let url = Target::parse(text(args, "url")).map_err(|_| invalid())?;
    let timeout = args.get("timeout").and_then(Value::as_f64).unwrap_or(10.0);
    // The fetcher has its own upper bound; nobody waits for longer than a day for a number.
    let timeout = Duration::from_secs_f64(timeout.clamp(0.001, 86_400.0));
    // Its own answer to the same trace; what other systems put into its state stays inside.
    let trace_parent = journey.asked().trace_context();
    let hosts = oblige::hosts(obligations)?;
    let request = Request { timeout, trace_parent, hosts, ..Request::get(url) };
    let fetcher = &journey.inner.parts.fetcher;
    let fetcher = fetcher.as_ref().map_err(|problem| error("fetch_unavailable", problem))?;
    let response = fetcher.fetch(request).await;
    let response = response.map_err(|failed| error(failed.code(), &failed))?;
    let headers: BTreeMap<_, _> = response
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value.as_bytes())))
        .collect();
    let given = json!({
        "url": response.url.to_string(),
        "status_code": response.status,
        "headers": headers,
        "text": response.text(),
    });
    Ok((given, flows(&response)))
}

/// Every hop; of all but the last nobody read the body.
fn flows(response: &Response) -> Vec<Flow> {
    let last = response.hops.len().saturating_sub(1);
    let flow = |(at, hop): (usize, &ringfence_egress::Hop)| Flow {
        host: hop.url.host().to_string(),
        peer: hop.peer.to_string(),
        status: hop.status,
        bytes: (at == last).then_some(response.body.len() as u64),
    };
    response.hops.iter().enumerate().map(flow).collect()
}
