//! `http_fetch`: one request through the checked egress.

use std::{collections::BTreeMap, time::Duration};

use ringfence_egress::{HeaderMap, HeaderName, Hop, Method, Request, Response, Target};
use ringfence_policy::{Action, Permit};
use ringfence_types::{CallError, ErrorCode, Flow, Json, Obligations, ReceiptDetails, SecretName};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Builtin, Job, SECRET_NAME, Starting, UsedSandbox, error, object, produced, text};
use crate::{
    engine::Inner,
    obligations,
    record::Ended,
    runners::work::{Started, Work, without_program},
};

pub(super) const TOOL: Builtin = Builtin {
    name: "http_fetch",
    description: "Sends a request to a public web address and returns its answer. Private and local \
                  addresses are refused.",
    flags: &["external_call", "network_access"],
    input: || {
        object(
            &["url"],
            json!({
                "url": {"type": "string", "pattern": "^http", "maxLength": 8192},
                "timeout": {"type": "number", "minimum": 0, "default": 10.0},
                "method": {"enum": ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"], "default": "GET"},
                "headers": {
                    "type": "object", "maxProperties": 50,
                    "additionalProperties": {"type": "string", "maxLength": 8192},
                },
                "body": {"type": "string", "maxLength": 1_048_576},
                "secrets": {
                    "type": "array", "maxItems": 8, "uniqueItems": true,
                    "items": {"type": "string", "pattern": SECRET_NAME},
                    "description": "Secrets to add for the hosts they are bound to",
                },
            }),
        )
    },
    output: || {
        object(
            &["url", "status_code", "headers", "text"],
            json!({
                "url": {"type": "string"}, "status_code": {"type": "integer"},
                "headers": {"type": "object"}, "text": {"type": "string"},
            }),
        )
    },
    argument_errors: &[("url", "Valid 'url' argument required")],
    sandbox: UsedSandbox::None,
    queued: true,
    repeatable: false,
    action: || Action::ToolExecute,
    start,
};

fn start(permit: Permit, job: Job<'_>) -> Starting<'_> {
    Box::pin(async move { fetching(&job, &permit).await })
}

/// A fetch in progress. Its end lists the hosts it contacted, even if it failed.
async fn fetching(job: &Job<'_>, permit: &Permit) -> Started {
    let secrets = match job.secret_grant().await {
        Ok(secrets) => secrets,
        Err(error) => return job.inline(Err(error)),
    };
    let request = match request(job, permit.obligations(), &job.args().to_value()) {
        Ok(request) => Request { secrets: secrets.map(|secrets| secrets as _), ..request },
        Err(error) => return job.inline(Err(error)),
    };
    let (inner, entry, started_at) = (job.inner().clone(), job.entry.clone(), job.started_at);
    let stop = CancellationToken::new();
    let asked = stop.clone();
    let fetch = async move {
        let mut hops = Vec::new();
        let given = tokio::select! {
            biased;
            () = asked.cancelled() => None,
            given = run(&inner, request, &mut hops) => Some(given),
        };
        let bytes = given.as_ref().and_then(|given| given.as_ref().ok()).map(|(_, bytes)| *bytes);
        let went = ReceiptDetails { egress: flows(&hops, bytes), ..ReceiptDetails::default() };
        let Some(given) = given else { return Ended::Stopped { details: went } };
        let given = given.map(|(given, _)| given);
        let took = inner.parts.clock.now().since(started_at);
        let mut end = without_program(produced(&entry, given), started_at, took);
        if let Ended::Finished { details, .. } = &mut end {
            *details = went;
        }
        end
    };
    Started::Running(Work::ours(fetch, stop))
}

/// Secrets that the arguments ask for; programs, and so variables, there are none.
pub(super) fn secrets(args: &Json) -> BTreeMap<String, SecretName> {
    #[derive(serde::Deserialize)]
    struct Asked {
        #[serde(default)]
        secrets: Vec<SecretName>,
    }
    let asked = args.read::<Asked>().map(|asked| asked.secrets).unwrap_or_default();
    asked.into_iter().map(|name| (name.to_string(), name)).collect()
}

/// The response or the error. `hops` are the hops that were made, even if the fetch is given up.
async fn run(
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

/// Network flows of a fetch. Only the body of the last hop is read.
pub(super) fn flows(hops: &[Hop], bytes: Option<u64>) -> Vec<Flow> {
    let mut flows: Vec<_> = hops.iter().map(flow).collect();
    if let Some(last) = flows.last_mut() {
        last.bytes = bytes;
    }
    flows
}

fn request(job: &Job<'_>, obligations: &Obligations, args: &Value) -> Result<Request, CallError> {
    let invalid = || error(ErrorCode::UrlInvalid, &"Valid 'url' argument required");
    let url = Target::parse(text(args, "url")).map_err(|_| invalid())?;
    let timeout = args.get("timeout").and_then(Value::as_f64).unwrap_or(10.0);
    // The fetcher has its own upper bound; a day is enough for any number.
    let timeout = Duration::from_secs_f64(timeout.clamp(0.001, 86_400.0));
    // Its own span of the same trace; the trace state of other systems is not sent.
    let trace_parent = job.asked().trace_context();
    let hosts = obligations::hosts(obligations)?;
    let tenant = Some(job.asked().tenant.clone());
    let method = text(args, "method").parse().unwrap_or(Method::GET);
    let body = text(args, "body").to_owned().into();
    let headers = headers(args)?;
    let get = Request::get(url);
    Ok(Request { method, headers, body, timeout, trace_parent, hosts, tenant, ..get })
}

/// Headers of the arguments. The client refuses those that it sets itself.
fn headers(args: &Value) -> Result<HeaderMap, CallError> {
    let given = args.get("headers").and_then(Value::as_object).into_iter().flatten();
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let invalid = || {
            let name: String = name.chars().take(100).collect();
            error(ErrorCode::HeaderInvalid, &format!("header `{name}` is invalid"))
        };
        let key: HeaderName = name.parse().map_err(|_| invalid())?;
        let value = value.as_str().and_then(|value| value.parse().ok()).ok_or_else(invalid)?;
        headers.insert(key, value);
    }
    Ok(headers)
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
        secrets: hop.secrets.clone(),
        ..Flow::default()
    }
}
