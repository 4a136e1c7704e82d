//! `http_fetch`: one page, through the vetted way out.

use std::{collections::BTreeMap, time::Duration};

use ringfence_egress::{Hop, Request, Response, Target};
use ringfence_types::{CallError, ErrorCode, Flow, Obligations};
use serde_json::{Value, json};

use super::{error, text};
use crate::{active_call::ActiveCall, engine::Inner, obligations};

/// What came, or why nothing did. The hops are those that were made, also if it is given up.
pub(super) async fn run(
    inner: &Inner,
    request: Request,
    hops: &mut Vec<Hop>,
) -> Result<(Value, u64), CallError> {
    let fetcher = &inner.parts.fetcher;
    let fetcher =
        fetcher.as_ref().map_err(|problem| error(ErrorCode::FetchUnavailable, problem))?;
    let response = fetcher.fetch_along(request, hops).await;
    let response = response.map_err(|failed| error(failed.code(), &failed))?;
    Ok((given(&response), response.body.len() as u64))
}

/// Where a fetch went. Of all hops but the last nobody read the body.
pub(super) fn flows(hops: &[Hop], bytes: Option<u64>) -> Vec<Flow> {
    let mut flows: Vec<_> = hops.iter().map(flow).collect();
    if let Some(last) = flows.last_mut() {
        last.bytes = bytes;
    }
    flows
}

pub(super) fn request(
    active: &ActiveCall,
    obligations: &Obligations,
    args: &Value,
) -> Result<Request, CallError> {
    let invalid = || error(ErrorCode::UrlInvalid, &"Valid 'url' argument required");
    let url = Target::parse(text(args, "url")).map_err(|_| invalid())?;
    let timeout = args.get("timeout").and_then(Value::as_f64).unwrap_or(10.0);
    // The fetcher has its own upper bound; nobody waits for longer than a day for a number.
    let timeout = Duration::from_secs_f64(timeout.clamp(0.001, 86_400.0));
    // Its own answer to the same trace; what other systems put into its state stays inside.
    let trace_parent = active.asked().trace_context();
    let hosts = obligations::hosts(obligations)?;
    let tenant = Some(active.asked().tenant.clone());
    Ok(Request { timeout, trace_parent, hosts, tenant, ..Request::get(url) })
}

fn given(response: &Response) -> Value {
    let headers: BTreeMap<_, _> = response
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value.as_bytes())))
        .collect();
    json!({
        "url": response.url.to_string(),
        "status_code": response.status,
        "headers": headers,
        "text": response.text(),
    })
}

fn flow(hop: &Hop) -> Flow {
    Flow {
        host: hop.url.host().to_string(),
        peer: hop.peer.map(|peer| peer.to_string()),
        status: hop.status,
        bytes: None,
    }
}
