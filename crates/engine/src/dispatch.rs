//! From a permit to something that runs. The permit is consumed here: one permit, one run.

use std::{sync::Arc, time::Duration};

use ringfence_policy::Permit;
use ringfence_registry::{Entry, Runs};
use ringfence_sandbox::{
    Canceller, InputFile, Language, Program, Report, Request, Running, files::BoxPath,
};
use ringfence_types::{
    CallError, Digest, ErrorCode, Finished, Json, Limit, Limits, MinIsolation, Origin, Outcome,
    Produced, Seen, Stream, Timestamp, Tool,
};
use tokio_util::sync::CancellationToken;

use crate::{active_call::ActiveCall, builtin, engine::Inner, obligations, record::Ended};

/// What became of the attempt to start.
pub(crate) enum Started {
    /// It is over already.
    Ended(Box<Ended>),
    /// It runs.
    Running(Work),
}

/// A program in its sandbox, and how its report becomes the call's end; or a tool of ours that
/// takes its time.
pub(crate) struct Work {
    wait: std::pin::Pin<Box<dyn Future<Output = Ended> + Send>>,
    stop: Stop,
}

enum Stop {
    Sandbox(Canceller),
    Ours(CancellationToken),
}

impl Work {
    /// What ends by itself, and soon after `stop`.
    pub(crate) fn ours(
        wait: impl Future<Output = Ended> + Send + 'static,
        stop: CancellationToken,
    ) -> Self {
        Self { wait: Box::pin(wait), stop: Stop::Ours(stop) }
    }

    /// Waits for the end. Cancelling the wait loses nothing.
    pub(crate) async fn wait(&mut self) -> Ended {
        (&mut self.wait).await
    }

    /// Ends it.
    pub(crate) fn stop(&self) {
        match &self.stop {
            Stop::Sandbox(canceller) => canceller.cancel(),
            Stop::Ours(stop) => stop.cancel(),
        }
    }
}

/// Turns the report of a program into what the call produced.
pub(crate) type Reading = Box<dyn FnOnce(&Report) -> Produced + Send>;

/// Starts what the permit allows.
pub(crate) async fn start(active: &ActiveCall, entry: &Arc<Entry>, permit: Permit) -> Started {
    let started_at = active.inner.parts.clock.now();
    if !is_for(&permit, active) {
        let message = "the permit is for another tool or other arguments".to_owned();
        return ended(failure(ErrorCode::PermitMismatch, message, started_at));
    }
    if let Err(error) = obligations::check(&active.inner, entry, permit.obligations()) {
        return ended(without_program(Produced::Error(error), started_at, Duration::ZERO));
    }
    match &entry.runs {
        Runs::Builtin => builtin::start(active, entry, permit, started_at).await,
        Runs::Python { code, module, function, files } => {
            let program = Program::Call {
                language: Language::Python,
                code: code.clone(),
                file: format!("{module}.py"),
                function: Some(function.clone()),
                args: active.args().clone(),
                ahead: ahead(&entry.tool),
            };
            let files = files.iter().filter_map(|(path, content)| file(path, content)).collect();
            let request = Request { files, ..Request::new(program) };
            let tool = entry.clone();
            let reading = Box::new(move |report: &Report| handler_result(&tool, report));
            let request = Request { limits: entry.tool.limits.clone(), ..request };
            sandboxed(active, permit, request, reading, started_at).await
        }
    }
}

/// Whoever put a folder beside the server is trusted with all its calls; whoever sent one is not.
fn ahead(tool: &Tool) -> Option<Digest> {
    (tool.origin != Origin::Upload).then_some(tool.digest)
}

pub(crate) fn is_for(permit: &Permit, active: &ActiveCall) -> bool {
    let asked = active.asked();
    permit.call() == asked.id
        && permit.tool() == asked.tool.digest
        && permit.args() == active.call.args_digest()
}

fn file(path: &str, content: &Arc<[u8]>) -> Option<InputFile> {
    let path = BoxPath::parse(path).ok()?;
    Some(InputFile { path, mode: 0o644, content: content.clone() })
}

/// Runs a request in a sandbox, within its limits and the permit's obligations.
pub(crate) async fn sandboxed(
    active: &ActiveCall,
    permit: Permit,
    mut request: Request,
    reading: Reading,
    started_at: Timestamp,
) -> Started {
    let inner = active.inner.clone();
    request.limits = limits(&inner, &request.limits, &permit);
    obligations::isolate(permit.obligations(), &mut request);
    let seen = Seen { limits: Some(request.limits.clone()), ..Seen::default() };
    let kept_to = permit.obligations().clone();
    match inner.parts.sandbox.run(permit, request).await {
        Ok(running) => {
            obligations::show(&kept_to, &active.in_flight(), &running);
            let canceller = running.canceller();
            let least = kept_to.min_isolation;
            let wait = Box::pin(report(inner, running, least, reading, started_at, seen));
            Started::Running(Work { wait, stop: Stop::Sandbox(canceller) })
        }
        Err(error) => ended(failure(error.code(), chain(&error), started_at)),
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
        Err(error) => failure(error.code(), chain(&error), started_at),
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

fn kept(output: &ringfence_sandbox::Output) -> (Stream, Vec<u8>) {
    let bytes = output.kept();
    let digest = (!bytes.is_empty()).then(|| Digest::of(&bytes));
    (Stream { length: output.total(), digest, truncated: output.truncated() }, bytes)
}

pub(crate) fn outputs_hash(produced: &Produced) -> String {
    match produced {
        Produced::Result(result) => ringfence_types::json::canonical::python_hash(result),
        Produced::Error(_) => String::new(),
    }
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

/// What a skill's handler returned.
fn handler_result(entry: &Entry, report: &Report) -> Produced {
    if report.exit_code != Some(0) {
        return Produced::Error(failed(
            ErrorCode::HandlerFailed,
            "Handler execution failed",
            report,
        ));
    }
    if let Some(truncated) = report.result_truncated {
        let message = format!("the result is {} bytes too long", truncated.dropped);
        return Produced::Error(CallError {
            code: ErrorCode::OutputTooLarge,
            message,
            details: None,
        });
    }
    match Json::parse(&report.result) {
        Ok(result) => crate::validate::output(entry, result),
        Err(error) => Produced::Error(CallError {
            code: ErrorCode::OutputInvalid,
            message: format!("Output validation failed for {}: {error}", entry.tool.name),
            details: None,
        }),
    }
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

/// A call that ended without a program.
pub(crate) fn without_program(produced: Produced, started_at: Timestamp, took: Duration) -> Ended {
    let finished = Finished {
        outputs_hash: outputs_hash(&produced),
        true_result: None,
        produced,
        outcome: None,
        stdout: Stream::default(),
        stderr: Stream::default(),
        usage: None,
        isolation: None,
        layers: None,
        started_at,
        duration: took,
        memoised: None,
    };
    let (blobs, session_events, seen) = (Vec::new(), Vec::new(), Seen::default());
    Ended::Finished { finished: Box::new(finished), blobs, session_events, seen }
}

pub(crate) fn failure(code: ErrorCode, message: String, started_at: Timestamp) -> Ended {
    let error = CallError { code, message, details: None };
    without_program(Produced::Error(error), started_at, Duration::ZERO)
}

pub(crate) fn ended(ended: Ended) -> Started {
    Started::Ended(Box::new(ended))
}

/// An error with its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text += &format!(": {cause}");
        next = cause.source();
    }
    text
}
