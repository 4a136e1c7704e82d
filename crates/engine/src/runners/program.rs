//! A program in a sandbox of its own, from its request to what its call produced.

use std::{sync::Arc, time::Duration};

use ringfence_policy::Permit;
use ringfence_sandbox::{Output, Report, Request, Running};
use ringfence_types::{
    CallError, Digest, ErrorCode, Finished, Json, Limit, Limits, MinIsolation, Outcome, Produced,
    Seen, Stream, Timestamp,
};

use super::{
    Job,
    work::{Started, Work, ended, failure, outputs_hash},
};
use crate::{engine::Inner, obligations, record::Ended};

/// Turns the report of a program into what the call produced.
pub(crate) type Reading = Box<dyn FnOnce(&Report) -> Produced + Send>;

/// Runs a request in a sandbox, within its limits and the permit's obligations.
pub(crate) async fn sandboxed(
    job: &Job<'_>,
    permit: Permit,
    mut request: Request,
    reading: Reading,
) -> Started {
    let (inner, started_at) = (job.inner().clone(), job.started_at);
    request.limits = limits(&inner, &request.limits, &permit);
    obligations::isolate(permit.obligations(), &mut request);
    let seen = Seen { limits: Some(request.limits.clone()), ..Seen::default() };
    let kept_to = permit.obligations().clone();
    match inner.parts.sandbox.run(permit, request).await {
        Ok(running) => {
            obligations::show(&kept_to, &job.in_flight(), &running);
            let canceller = running.canceller();
            let least = kept_to.min_isolation;
            let wait = report(inner, running, least, reading, started_at, seen);
            Started::Running(Work::program(wait, canceller))
        }
        Err(error) => ended(failure(error.code(), error.public_message(), started_at)),
    }
}

fn limits(inner: &Inner, of_tool: &Limits, permit: &Permit) -> Limits {
    let mut limits = of_tool.clone();
    limits.wall = limits.wall.min(inner.parts.settings.longest);
    match &permit.obligations().limits {
        Some(caps) => caps.apply(limits),
        None => limits,
    }
}

async fn report(
    inner: Arc<Inner>,
    running: Running,
    least: Option<MinIsolation>,
    reading: Reading,
    started_at: Timestamp,
    seen: Seen,
) -> Ended {
    match running.wait().await {
        Ok(report) if report.outcome == Outcome::Cancelled => Ended::Stopped { seen },
        Ok(report) => {
            let produced = match obligations::met(least.as_ref(), &report) {
                Ok(()) => over_limit(&report).unwrap_or_else(|| reading(&report)),
                Err(error) => Produced::Error(error),
            };
            let duration = inner.parts.clock.now().since(started_at);
            finished(&report, produced, started_at, duration, seen)
        }
        Err(error) => failure(error.code(), error.public_message(), started_at),
    }
}

fn finished(
    report: &Report,
    produced: Produced,
    started_at: Timestamp,
    duration: Duration,
    seen: Seen,
) -> Ended {
    let (stdout, out) = kept(&report.stdout);
    let (stderr, err) = kept(&report.stderr);
    let finished = Finished {
        outputs_hash: outputs_hash(&produced),
        true_result: None,
        produced,
        outcome: Some(report.outcome.clone()),
        stdout,
        stderr,
        usage: Some(report.usage),
        isolation: Some(report.isolation),
        layers: Some(report.layers.clone()),
        started_at,
        duration,
        memoised: None,
    };
    let blobs = [out, err].into_iter().filter(|bytes| !bytes.is_empty()).collect();
    Ended::Finished { finished: Box::new(finished), blobs, session_events: Vec::new(), seen }
}

pub(super) fn kept(output: &Output) -> (Stream, Vec<u8>) {
    let bytes = output.kept();
    let digest = (!bytes.is_empty()).then(|| Digest::of(&bytes));
    (Stream { length: output.total(), digest, truncated: output.truncated() }, bytes)
}

/// The error of a program that met a limit, with the evidence and what to change.
fn over_limit(report: &Report) -> Option<Produced> {
    let Outcome::OverLimit(hit) = &report.outcome else { return None };
    let code = ErrorCode::of_limit(hit.limit);
    let message = match hit.limit {
        Limit::Wall => format!("Execution exceeded timeout of {}", hit.allowed),
        Limit::Host => format!("ended by the watchdog: more than {} was taken", hit.allowed),
        _ => {
            let name = code.as_str().trim_end_matches("_limit");
            format!("the limit of {} was met: {name}", hit.allowed)
        }
    };
    let details = Json::of(hit).ok();
    Some(Produced::Error(CallError { code, message, details }))
}

/// How much of a traceback goes into an error.
const TRACEBACK: usize = 16 << 10;

/// Whether a line is about what went wrong: Node ends with where it was and which version it is.
fn says_why(line: &str) -> bool {
    !line.trim().is_empty() && !line.starts_with("    at ") && !line.starts_with("Node.js v")
}

/// The error of a program that failed by itself, with the end of what it complained.
pub(crate) fn failed(code: ErrorCode, what: &str, report: &Report) -> CallError {
    let stderr = report.stderr.kept();
    let tail = &stderr[stderr.len().saturating_sub(TRACEBACK)..];
    let traceback = String::from_utf8_lossy(tail);
    let last = traceback.lines().rev().find(|line| says_why(line));
    let how = match (last, report.exit_code, report.signal) {
        (Some(last), ..) => last.trim().chars().take(500).collect(),
        (None, Some(code), _) => format!("exit code {code}"),
        (None, None, Some(signal)) => format!("signal {signal}"),
        (None, None, None) => "no exit status".to_owned(),
    };
    let details = serde_json::json!({
        "traceback": traceback, "exit_code": report.exit_code, "signal": report.signal,
    });
    CallError { code, message: format!("{what}: {how}"), details: Json::of(&details).ok() }
}
