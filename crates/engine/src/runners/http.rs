//! Tools that perform requests to HTTP APIs, through the guarded client.
//!
//! A request reaches a host only if it was granted to the tool and the obligations of the permit allow
//! it. No redirect is followed: it would carry the arguments to a host that no one granted.

use std::time::Duration;

use async_trait::async_trait;
use ringfence_egress::{
    Exchange, GuardedClient, HeaderMap, HeaderName, Hosts, Payload, Target, Timeouts,
};
use ringfence_policy::Permit;
use ringfence_registry::{Entry, Runs};
use ringfence_types::{
    Bytes, CallError, ErrorCode, Flow, Json, Produced, ReceiptDetails, SandboxNetwork,
};
use tokio_util::sync::CancellationToken;

use super::{
    Job, Runner,
    work::{Started, Work, ended, failure, without_program},
};
use crate::{network, obligations, record::Ended, validate};

/// Size limit of an answer.
const MAX_ANSWER: Bytes = Bytes::mib(8);

/// Runner of HTTP tools.
#[derive(Debug)]
pub(super) struct HttpTools;

#[async_trait]
impl Runner for HttpTools {
    async fn start(&self, permit: Permit, job: Job<'_>) -> Started {
        match exchange(&job, &permit).await {
            Ok(exchange) => run(&job, exchange),
            Err(error) => {
                let end = without_program(Produced::Error(error), job.started_at, job.took());
                ended(end)
            }
        }
    }

    fn needs_sandbox(&self, _entry: &Entry) -> bool {
        false
    }

    fn makes_sandbox(&self, _entry: &Entry) -> bool {
        false
    }
}

fn error(code: ErrorCode, message: impl Into<String>) -> CallError {
    CallError { code, message: message.into(), details: None }
}

/// The request of the call, with its secrets, to a host that is granted and allowed.
async fn exchange(job: &Job<'_>, permit: &Permit) -> Result<Exchange, CallError> {
    let Runs::Http(tool) = &job.entry.runs else {
        let message = format!("tool `{}` is not an HTTP tool", job.entry.tool.name);
        return Err(error(ErrorCode::UnknownRunner, message));
    };
    let (operation, request) = tool
        .request(&job.args().to_value())
        .map_err(|problems| error(ErrorCode::UrlInvalid, problems.join("; ")))?;
    let (mut request, mut headers) = (request, HeaderMap::new());
    for credential in &operation.credentials {
        let granted = job.entry.tool.secrets.values();
        if !granted.into_iter().any(|name| name.as_str() == credential.secret) {
            let (secret, tool) = (&credential.secret, &job.entry.tool.name);
            let message = format!("secret `{secret}` is not granted to tool `{tool}`");
            return Err(error(ErrorCode::SecretUnavailable, message));
        }
    }
    for (name, value) in &request.headers {
        let invalid = || error(ErrorCode::HeaderInvalid, format!("header `{name}` is invalid"));
        let key: HeaderName = name.parse().map_err(|_| invalid())?;
        headers.append(key, value.parse().map_err(|_| invalid())?);
    }
    let url = Target::parse(&request.url)
        .map_err(|problem| error(ErrorCode::UrlInvalid, format!("the request's URL {problem}")))?;
    let method =
        request.method.parse().map_err(|_| error(ErrorCode::UrlInvalid, "invalid method"))?;
    let obliged = permit.obligations();
    let caps = obliged.limits.as_ref();
    if caps.and_then(|caps| caps.network) == Some(SandboxNetwork::None) {
        return Err(error(ErrorCode::HostRefused, "policy allows this call no network"));
    }
    let granted = Hosts::Only(network::parse(&job.entry.tool.network)?);
    if !granted.permits(&method, &url) {
        let host = url.host();
        let message = format!("host `{host}` is not granted to tool `{}`", job.entry.tool.name);
        return Err(error(ErrorCode::HostRefused, message));
    }
    let limits = &job.entry.tool.limits;
    let limits = caps.map_or_else(|| limits.clone(), |caps| caps.apply(limits.clone()));
    let wall = limits.wall.min(job.inner().parts.settings.max_wall_time);
    Ok(Exchange {
        headers,
        body: Payload::Whole(request.body.take().unwrap_or_default().into()),
        // Both lists hold: the one that was granted was checked above.
        hosts: obligations::hosts(obliged)?,
        timeouts: Timeouts::within(wall.max(Duration::from_millis(1))),
        max_body: MAX_ANSWER,
        trace_parent: job.asked().trace_context(),
        tenant: Some(job.asked().tenant.clone()),
        // Each is read when the request is sent, and goes to hosts that it is bound to.
        secrets: job.secret_grant().await?.map(|secrets| secrets as _),
        ..Exchange::new(method, url)
    })
}

fn run(job: &Job<'_>, exchange: Exchange) -> Started {
    let client = match &job.inner().parts.fetcher {
        Ok(fetcher) => GuardedClient::new(fetcher.clone()),
        Err(problem) => {
            let message = format!("network access is not available: {problem}");
            return ended(failure(ErrorCode::FetchUnavailable, message, job.started_at));
        }
    };
    let (inner, entry, started_at) = (job.inner().clone(), job.entry.clone(), job.started_at);
    let (stop, mut flow) = (
        CancellationToken::new(),
        Flow { host: exchange.url.host().to_string(), ..Flow::default() },
    );
    let asked = stop.clone();
    let work = async move {
        let given = tokio::select! {
            biased;
            () = asked.cancelled() => None,
            given = answer(&client, exchange, &mut flow) => Some(given),
        };
        let went = ReceiptDetails { egress: vec![flow], ..ReceiptDetails::default() };
        let Some(given) = given else { return Ended::Stopped { details: went } };
        let produced = match given {
            Ok(result) => validate::output(&entry, result),
            Err(error) => Produced::Error(error),
        };
        let took = inner.parts.clock.now().since(started_at);
        let mut end = without_program(produced, started_at, took);
        if let Ended::Finished { details, .. } = &mut end {
            *details = went;
        }
        end
    };
    Started::Running(Work::ours(work, stop))
}

/// Result of a call.
#[derive(Debug, serde::Serialize)]
struct Given {
    status: u16,
    media_type: String,
    body: Json,
}

/// Status and body of the answer, as JSON where it is JSON. Every status is a result.
async fn answer(
    client: &GuardedClient,
    exchange: Exchange,
    flow: &mut Flow,
) -> Result<Json, CallError> {
    let failed = |failed: ringfence_egress::Error| error(failed.code(), failed.to_string());
    let answer = client.send(exchange).await.map_err(failed)?;
    flow.peer = answer.peer.map(|peer| peer.to_string());
    flow.status = Some(answer.status.as_u16());
    let status = answer.status.as_u16();
    let media_type = answer.headers.get("content-type").and_then(|value| value.to_str().ok());
    let media_type = media_type.unwrap_or_default().to_owned();
    let bytes = answer.bytes().await.map_err(failed)?;
    flow.bytes = Some(bytes.len() as u64);
    let body = match Json::parse(&bytes) {
        Ok(json) => json,
        Err(_) => Json::plain(&String::from_utf8_lossy(&bytes)),
    };
    Json::of(&Given { status, media_type, body })
        .map_err(|problem| error(ErrorCode::OutputInvalid, problem.to_string()))
}
