//! A program in a sandbox of its own, from its request to the result of its call.

use std::{sync::Arc, time::Duration};

use ringfence_policy::Permit;
use ringfence_sandbox::{Listener, Output, Report, Request, Root, Running, sdk_listener};
use ringfence_types::{
    CallError, CallFiles, Digest, ErrorCode, Finished, Json, Limit, Limits, MinIsolation, Outcome,
    Produced, ReceiptDetails, RedactRoot, SandboxNetwork, Stream, TenantId, Timestamp,
};

use super::{
    Job,
    work::{Started, Work, ended, failure, outputs_hash},
};
use crate::{
    engine::Inner,
    given::Loaded,
    left_files::{Found, Search},
    network::ServedProxy,
    obligations,
    record::Ended,
    roots,
    sdk::{CALL_VARIABLE, SdkCaller, ServedSdk},
    tool_data::Volume,
};

/// Turns the report of a program into the result of the call.
pub(crate) type ReadReport = Box<dyn FnOnce(&Report, &CallFiles) -> Produced + Send>;

/// Runs a request in a sandbox, within its limits and the permit's obligations.
pub(crate) async fn sandboxed(
    job: &Job<'_>,
    permit: Permit,
    mut request: Request,
    reading: ReadReport,
) -> Started {
    let (inner, started_at) = (job.inner().clone(), job.started_at);
    let mut given = match Loaded::of(job).await {
        Ok(given) => given,
        Err(error) => return ended(failure(error.code, error.message, started_at)),
    };
    given.apply(&mut request);
    request.limits = limits(&inner, &request.limits, &permit);
    let volume = Volume::load(&inner, &job.asked().tenant, job.entry, &mut request).await;
    let volume = match volume {
        Ok(volume) => volume,
        Err(error) => return ended(failure(error.code, error.message, started_at)),
    };
    let search = search(job, &permit, &given, &request);
    obligations::isolate(permit.obligations(), &mut request);
    request.root = match roots::of_call(job).await {
        Ok(root) => root,
        Err(error) => return ended(failure(error.code, error.message, started_at)),
    };
    if let Root::Image(_) = &request.root
        && (volume.is_some() || !search.patterns.is_empty())
    {
        let message =
            "files that a call leaves are not collected from containers, nor kept for others";
        return ended(failure(ErrorCode::RootUnavailable, message.to_owned(), started_at));
    }
    // Variables of the call itself replace those of its tool.
    let own = std::mem::replace(&mut request.env, job.environment());
    request.env.extend(own);
    let network = match job.network_grant(&permit).await {
        Ok(network) => network,
        Err(error) => return ended(failure(error.code, error.message, started_at)),
    };
    if network.is_some() && matches!(request.root, Root::Image(_)) {
        let message = "a container has no network: hosts are granted to native sandboxes only";
        return ended(failure(ErrorCode::RootUnavailable, message.to_owned(), started_at));
    }
    if network.is_some() {
        request.limits.network = SandboxNetwork::Loopback;
        request.listeners.push(Listener::Proxy);
    }
    let tools = job.tool_grant();
    if tools.is_some() {
        request.listeners.push(sdk_listener());
        request.env.insert(CALL_VARIABLE.to_owned(), job.asked().id.to_string());
    }
    let details = ReceiptDetails {
        limits: Some(request.limits.clone()),
        network: network.as_ref().map(|network| network.hosts.clone()).unwrap_or_default(),
        inputs: given.artifacts,
        tools: tools.as_ref().map(|tools| tools.names().to_vec()).unwrap_or_default(),
        ..ReceiptDetails::default()
    };
    let kept_to = permit.obligations().clone();
    let backend = inner.backend(job.entry);
    match backend.run(permit, request).await {
        Ok(mut running) => {
            let mut listeners = std::mem::take(&mut running.listeners);
            let socket = tools.is_some().then(|| listeners.pop()).flatten();
            let sdk = match tools.map(|tools| tools.serve(&inner, socket)).transpose() {
                Ok(sdk) => sdk.map(|sdk| (sdk.speak_for(job.asked().id), sdk)),
                Err(error) => return ended(failure(error.code, error.message, started_at)),
            };
            let tenant = &job.asked().tenant;
            let served = network.map(|network| network.serve(&inner, tenant, listeners));
            let proxy = match served.transpose() {
                Ok(proxy) => proxy,
                Err(error) => return ended(failure(error.code, error.message, started_at)),
            };
            obligations::show(&kept_to, &job.in_flight(), &running);
            let canceller = running.canceller();
            let least = kept_to.min_isolation;
            let tenant = tenant.clone();
            let ending =
                Ending { least, reading, started_at, details, proxy, sdk, search, volume, tenant };
            let wait = report(inner, running, ending);
            Started::Running(Work::program(wait, canceller))
        }
        Err(error) => ended(failure(error.code(), error.public_message(), started_at)),
    }
}

fn limits(inner: &Inner, of_tool: &Limits, permit: &Permit) -> Limits {
    let mut limits = of_tool.clone();
    limits.wall = limits.wall.min(inner.parts.settings.max_wall_time);
    match &permit.obligations().limits {
        Some(caps) => caps.apply(limits),
        None => limits,
    }
}

/// Parts of a call that turn the end of its program into the end of the call.
struct Ending {
    least: Option<MinIsolation>,
    reading: ReadReport,
    started_at: Timestamp,
    details: ReceiptDetails,
    proxy: Option<ServedProxy>,
    sdk: Option<(SdkCaller, ServedSdk)>,
    search: Search,
    volume: Option<Volume>,
    tenant: TenantId,
}

/// Search for the files that the call leaves: those that it names, else those that its tool names.
fn search(job: &Job<'_>, permit: &Permit, given: &Loaded, request: &Request) -> Search {
    let patterns = given.outputs().unwrap_or(&job.entry.tool.outputs).to_vec();
    let roots = [RedactRoot::Result, RedactRoot::Stdout, RedactRoot::Stderr];
    let is_masked = roots.into_iter().any(|root| permit.obligations().redact.has(root));
    let before = request.files.iter().chain(&request.inputs).cloned().collect();
    Search { patterns, before, is_masked }
}

async fn report(inner: Arc<Inner>, running: Running, ending: Ending) -> Ended {
    let Ending { least, reading, started_at, mut details, proxy, sdk, search, volume, tenant } =
        ending;
    let ended = running.wait().await;
    // Nothing speaks for the call any more.
    drop(sdk);
    if let Some(proxy) = proxy {
        details.egress = proxy.flows.flows();
    }
    match ended {
        Ok(report) if report.outcome == Outcome::Cancelled => {
            details.container = report.container;
            Ended::Stopped { details }
        }
        Ok(report) => {
            details.container = report.container.clone();
            // The time of the call is that of its program.
            let duration = inner.parts.clock.now().since(started_at);
            let (produced, found) = match obligations::met(least.as_ref(), &report) {
                Ok(()) => {
                    let found = search.run(&inner, &tenant, report.workspace.as_ref()).await;
                    let produced = over_limit(&report);
                    let produced = produced.unwrap_or_else(|| reading(&report, &found.0));
                    let kept = match volume {
                        Some(volume) => volume.save(&inner, report.workspace.as_ref()).await,
                        None => Ok(()),
                    };
                    (refused(produced, kept), found)
                }
                Err(error) => (Produced::Error(error), Found::default()),
            };
            finished(&report, produced, found, (started_at, duration), details)
        }
        Err(error) => failure(error.code(), error.public_message(), started_at),
    }
}

/// The result, unless what the tool wanted to keep was refused. An error of the program says more.
fn refused(produced: Produced, kept: Result<(), CallError>) -> Produced {
    match (produced, kept) {
        (Produced::Result(_), Err(error)) => Produced::Error(error),
        (produced, _) => produced,
    }
}

fn finished(
    report: &Report,
    produced: Produced,
    (files, mut blobs): Found,
    (started_at, duration): (Timestamp, Duration),
    details: ReceiptDetails,
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
        files: (!files.is_empty()).then(|| Box::new(files)),
        started_at,
        duration,
        memoised: None,
        tokens: None,
    };
    blobs.extend([out, err].into_iter().filter(|bytes| !bytes.is_empty()));
    Ended::Finished { finished: Box::new(finished), blobs, session_events: Vec::new(), details }
}

pub(super) fn kept(output: &Output) -> (Stream, Vec<u8>) {
    let bytes = output.kept();
    let digest = (!bytes.is_empty()).then(|| Digest::of(&bytes));
    (Stream { length: output.total(), digest, truncated: output.truncated() }, bytes)
}

/// The error of a program that reached a limit, with the evidence and the setting to change.
fn over_limit(report: &Report) -> Option<Produced> {
    let Outcome::OverLimit(hit) = &report.outcome else { return None };
    let code = ErrorCode::of_limit(hit.limit);
    let message = match hit.limit {
        Limit::Wall => format!("Execution exceeded timeout of {}", hit.allowed),
        Limit::Host => format!("ended by the watchdog: used more than {}", hit.allowed),
        _ => {
            let name = code.as_str().trim_end_matches("_limit");
            format!("limit of {} reached: {name}", hit.allowed)
        }
    };
    let details = Json::of(hit).ok();
    Some(Produced::Error(CallError { code, message, details }))
}

/// Bytes of a traceback in an error.
const MAX_TRACEBACK_BYTES: usize = 16 << 10;

/// Whether a line describes the error: Node ends with the location and its version.
fn says_why(line: &str) -> bool {
    !line.trim().is_empty() && !line.starts_with("    at ") && !line.starts_with("Node.js v")
}

/// The error of a program that failed by itself, with the end of its standard error.
pub(crate) fn failed(code: ErrorCode, what: &str, report: &Report) -> CallError {
    let stderr = report.stderr.kept();
    let tail = &stderr[stderr.len().saturating_sub(MAX_TRACEBACK_BYTES)..];
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
