//! Obligations of a permit. A call whose obligations cannot be kept is refused with the reason.

use ringfence_egress::{HostRule, Hosts};
use ringfence_registry::{Entry, Runs};
use ringfence_sandbox::{Backend, Report, Request, Running};
use ringfence_types::{
    CallError, Digest, ErrorCode, Finished, Layer, LayerState, MinIsolation, Obligations, Produced,
    REDACTED, Redact, RedactRoot, Stream,
};

use crate::{engine::Inner, in_flight::InFlight, runners};

/// Refuses a call whose sandbox would be weaker than policy requires, before there is one.
pub(crate) fn check(
    inner: &Inner,
    entry: &Entry,
    obligations: &Obligations,
) -> Result<(), CallError> {
    let Some(least) = &obligations.min_isolation else { return Ok(()) };
    let has_sandbox = runners::of(entry).needs_sandbox(entry);
    if !has_sandbox {
        let message = format!(
            "policy requires a sandbox, and tool `{}` is built in and runs without one",
            entry.tool.name
        );
        return Err(refusal(message));
    }
    let backend = inner.backend(entry);
    if let Some(runtime) = &least.runtime
        && backend.name() == inner.parts.sandbox.name()
    {
        return Err(refusal(format!(
            "policy requires the container runtime `{runtime}`, and tool `{}` runs in a native sandbox",
            entry.tool.name
        )));
    }
    backend.check(&least.layers).map_err(|error| {
        let missing = error.public_message();
        refusal(format!("policy requires an isolation layer that this host lacks: {missing}"))
    })
}

impl Inner {
    /// Backend that programs of a tool run on.
    pub(crate) fn backend(&self, entry: &Entry) -> &dyn Backend {
        match (&self.parts.containers, &entry.runs) {
            (Some(containers), Runs::Command(command)) if command.image.is_some() => {
                containers.as_ref()
            }
            _ => self.parts.sandbox.as_ref(),
        }
    }
}

fn refusal(message: String) -> CallError {
    CallError { code: ErrorCode::IsolationUnavailable, message, details: None }
}

/// Raises the isolation of a request to the obligations; never lowers it.
pub(crate) fn isolate(obligations: &Obligations, request: &mut Request) {
    if let Some(least) = &obligations.min_isolation {
        request.isolation = least.tier(request.isolation);
        request.runtime = least.runtime.clone();
        request.may_miss.retain(|layer| !least.layers.contains(layer));
    }
}

/// Checks that the observed sandbox was as strong as policy requires. It was requested that way, so
/// only a bug of ours or a change of the host fails here; then the result is withheld.
pub(crate) fn met(least: Option<&MinIsolation>, report: &Report) -> Result<(), CallError> {
    let Some(least) = least else { return Ok(()) };
    let stands = |layer: &Layer| matches!(report.layers.0.get(layer), Some(LayerState::Active(_)));
    let missing: Vec<_> = least.layers.iter().filter(|layer| !stands(layer)).collect();
    let runtime = report.container.as_ref().map(|container| &container.runtime);
    let is_under = least.runtime.is_none() || runtime == least.runtime.as_ref();
    if least.is_met_by(report.isolation) && missing.is_empty() && is_under {
        return Ok(());
    }
    let tier = report.isolation;
    Err(refusal(format!(
        "the sandbox was weaker than policy requires: {tier:?}, without {missing:?}"
    )))
}

/// Hosts that a fetch may contact, on every hop.
pub(crate) fn hosts(obligations: &Obligations) -> Result<Hosts, CallError> {
    let Some(network) = &obligations.network else { return Ok(Hosts::Any) };
    let rules: Result<Vec<HostRule>, _> = network.hosts().iter().map(|host| host.parse()).collect();
    rules.map(Hosts::Only).map_err(|invalid| CallError {
        code: ErrorCode::ObligationInvalid,
        message: format!("invalid host in the `network` obligation: {invalid}"),
        details: None,
    })
}

/// Publishes the output of a running program, unless it is masked.
pub(crate) fn show(obligations: &Obligations, in_flight: &InFlight, running: &Running) {
    let redact = &obligations.redact;
    if !redact.has(RedactRoot::Stdout) && !redact.has(RedactRoot::Stderr) {
        in_flight.print_to(running.stdout.clone(), running.stderr.clone());
    }
}

/// Masks the end of a call before it is stored, shown or published. Digests stay those of the
/// unmasked data.
pub(crate) fn mask(redact: &Redact, finished: &mut Finished, blobs: &mut Vec<Vec<u8>>) {
    if redact.is_empty() {
        return;
    }
    match &mut finished.produced {
        Produced::Result(result) if redact.has(RedactRoot::Result) => {
            finished.true_result = Some(Digest::of_json(result));
            *result = redact.apply(RedactRoot::Result, result);
        }
        Produced::Error(error) if quotes(redact, error) => {
            error.message = REDACTED.to_owned();
            error.details = None;
        }
        Produced::Result(_) | Produced::Error(_) => {}
    }
    for (root, stream) in
        [(RedactRoot::Stdout, &finished.stdout), (RedactRoot::Stderr, &finished.stderr)]
    {
        if redact.has(root) {
            forget(stream, blobs);
        }
    }
}

/// Whether an error quotes masked data: the program's own output, or a result that violates its
/// schema.
fn quotes(redact: &Redact, error: &CallError) -> bool {
    let of_result = error.code.quotes_the_result() && redact.has(RedactRoot::Result);
    of_result || redact.has(RedactRoot::Stderr)
}

/// Drops the bytes of a stream; the digest stays.
fn forget(stream: &Stream, blobs: &mut Vec<Vec<u8>>) {
    blobs.retain(|bytes| Some(Digest::of(bytes)) != stream.digest);
}
