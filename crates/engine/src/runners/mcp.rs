//! Tools of MCP servers: a request over the connection that its source keeps.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use ringfence_mcp_client::{Answer, Error, Progress};
use ringfence_policy::Permit;
use ringfence_registry::{Entry, Runs};
use ringfence_sandbox::Output;
use ringfence_types::{CallError, ErrorCode, Json, Produced, ReceiptDetails};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    Job, Runner,
    work::{Started, Work, ended, failure, without_program},
};
use crate::record::Ended;

/// Runner of the tools of MCP servers.
#[derive(Debug)]
pub(super) struct McpTools;

/// Bytes of progress that are kept for readers.
const PROGRESS_BYTES: u64 = 64 << 10;
/// Progress messages that wait for their reader.
const PROGRESS_WAITING: usize = 16;

#[async_trait]
impl Runner for McpTools {
    async fn start(&self, permit: Permit, job: Job<'_>) -> Started {
        let fail = |code, message: String| ended(failure(code, message, job.started_at));
        let Runs::Mcp(remote) = &job.entry.runs else {
            let message = format!("tool `{}` is not of an MCP server", job.entry.tool.name);
            return fail(ErrorCode::UnknownRunner, message);
        };
        let server = &remote.server;
        // A server elsewhere is reached only if policy allows its host.
        let network = match job.network_grant(&permit).await {
            Ok(network) => network,
            Err(error) => return fail(error.code, error.message),
        };
        if !job.entry.tool.network.is_empty() && network.is_none() {
            let message = format!("policy allows no connection to MCP server `{server}`");
            return fail(ErrorCode::HostRefused, message);
        }
        let Some(connection) = job.inner().sources.connection(server) else {
            let message = job.inner().sources.problem(server);
            return fail(ErrorCode::SourceUnavailable, message);
        };
        let limit = limit(&job, &permit);
        // The permit is for this one request.
        drop(permit);
        let (listener, progress) = mpsc::channel(PROGRESS_WAITING);
        let output = Output::new(PROGRESS_BYTES);
        job.in_flight().print_to(output.clone(), Output::new(0));
        let (name, args, entry) = (remote.tool.clone(), job.args().clone(), job.entry.clone());
        let (clock, started_at) = (job.inner().parts.clock.clone(), job.started_at);
        let hosts = network.map(|network| network.hosts).unwrap_or_default();
        let stop = CancellationToken::new();
        let asked_to_stop = stop.clone();
        let work = async move {
            let details = ReceiptDetails { network: hosts, ..ReceiptDetails::default() };
            let calling = connection.call(&name, &args, limit, Some(listener));
            let answer = tokio::select! {
                answer = calling => answer,
                () = asked_to_stop.cancelled() => return Ended::Stopped { details },
                never = relay(progress, &output) => match never {},
            };
            output.close();
            let took = clock.now().since(started_at);
            let mut ended = without_program(produced(&entry, answer, limit), started_at, took);
            if let Ended::Finished { details: of_end, .. } = &mut ended {
                *of_end = details;
            }
            ended
        };
        Started::Running(Work::ours(work, stop))
    }

    fn needs_sandbox(&self, _: &Entry) -> bool {
        false
    }

    fn makes_sandbox(&self, _: &Entry) -> bool {
        false
    }

    /// A server may remember what it was asked.
    fn runs_again(&self, _: &Entry) -> bool {
        false
    }
}

fn limit(job: &Job<'_>, permit: &Permit) -> Duration {
    let limits = job.entry.tool.limits.clone();
    let limits = match &permit.obligations().limits {
        Some(caps) => caps.apply(limits),
        None => limits,
    };
    limits.wall.min(job.inner().parts.settings.max_wall_time)
}

/// Writes progress as lines for readers of the live output.
async fn relay(
    mut progress: mpsc::Receiver<Progress>,
    output: &Output,
) -> std::convert::Infallible {
    while let Some(Progress { done, total, message }) = progress.recv().await {
        let line = match total {
            Some(total) => format!("{done}/{total} {message}\n"),
            None => format!("{done} {message}\n"),
        };
        output.append(line.as_bytes());
    }
    std::future::pending().await
}

fn produced(entry: &Arc<Entry>, answer: Result<Answer, Error>, limit: Duration) -> Produced {
    let error = |code, message: String| Produced::Error(CallError { code, message, details: None });
    let answer = match answer {
        Ok(answer) => answer,
        Err(Error::Timeout(_)) => {
            let message = format!("the MCP server did not answer within {} s", limit.as_secs_f64());
            return error(ErrorCode::Timeout, message);
        }
        Err(problem @ Error::Unreachable(_)) => {
            return error(ErrorCode::SourceUnavailable, problem.to_string());
        }
        Err(problem @ Error::Bound(_)) => {
            return error(ErrorCode::OutputTooLarge, problem.to_string());
        }
        Err(problem @ (Error::Refused(_) | Error::Asks(_))) => {
            return error(ErrorCode::HandlerFailed, problem.to_string());
        }
    };
    let mut result = json!({"content": answer.content});
    if let Some(structured) = &answer.structured {
        result["structuredContent"] = structured.clone();
    }
    if answer.is_error {
        let text: String = answer.text().chars().take(2_000).collect();
        let details = Json::from_value(&result);
        return Produced::Error(CallError {
            code: ErrorCode::HandlerFailed,
            message: text,
            details,
        });
    }
    match Json::from_value(&result) {
        Some(result) => crate::validate::output(entry, result),
        None => error(ErrorCode::OutputInvalid, "the result is nested too deeply".to_owned()),
    }
}
