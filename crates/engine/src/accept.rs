//! The first step: identity, tool, arguments, idempotency. A refused request leaves no trace.
//!
//! The caller may disconnect at any moment, and the future of this step is then dropped half-way.
//! Everything held meanwhile is released by its drop, and a call whose record was begun goes on
//! without its caller.

mod idempotency;

use std::{sync::Arc, time::Duration};

use ringfence_registry::{Entry, Violation};
use ringfence_store::Error;
use ringfence_types::{
    Asked, Call, CallId, Digest, Idempotency, Json, PersonaId, Principal, State, Timestamp,
    artifact_label as label,
};
use tokio::sync::oneshot;

use self::idempotency::{Earlier, Reserved};
use crate::{
    By, CallRequest, Engine, Refused, Ticket,
    active_call::ActiveCall,
    cause::{self, Loan, Origin},
    detach_on_drop::DetachOnDrop,
    engine::Inner,
    given::{self, Given, Unresolved},
    network, pipeline,
    queue::Claim,
    runners,
    sandboxes::TooMuch,
    trace::new_trace,
};

/// Identity of a call, known before its tool is looked up.
struct Known {
    id: CallId,
    at: Timestamp,
    persona: Option<PersonaId>,
    args_digest: Digest,
    inputs_hash: String,
    idempotency: Option<Idempotency>,
    taint: Vec<String>,
}

impl Engine {
    /// Accepts a call, or finds an earlier one with the same idempotency key. The call is driven by
    /// its ticket, and by a task of its own once the ticket is dropped.
    pub async fn call(&self, who: &Principal, request: CallRequest) -> Result<Ticket, Refused> {
        self.call_by(who, request, By::Client).await
    }

    /// Accepts a call that the server makes by itself. A child runs in the place of its parent and
    /// with its rights; the idempotency key is derived, so equal requests make one call.
    pub async fn call_by(
        &self,
        who: &Principal,
        mut request: CallRequest,
        by: By,
    ) -> Result<Ticket, Refused> {
        let inner = &self.inner;
        if inner.stopping.is_cancelled() {
            return Err(Refused::Stopping);
        }
        // Before it runs: a pure call is recorded when it ends.
        inner.parts.store.check_files()?;
        let origin = cause::origin(inner, who, &by)?;
        let who = &origin.principal;
        let mut known = known(inner, &origin, &request)?;
        // Before everything that may have changed since: a call that was made is found when it is
        // asked for again, even if its tool was changed or removed.
        let reserved = match idempotency::find_earlier(inner, who.key, &known).await? {
            Earlier::Call(ticket) => return Ok(*ticket),
            Earlier::None(reserved) => reserved,
        };
        inner.parts.store.room().admit(&who.tenant).map_err(ringfence_store::Error::from)?;
        let entry = find(inner, &request)?;
        let given = check_arguments(&entry, &request.args)?;
        let resolved = given.resolve(inner, &who.tenant, &request.args).await;
        let resolved = resolved.map_err(|error| unresolved(&entry, error))?;
        known.taint = label::union(&resolved.taint, &origin.taint);
        if let Some(args) = resolved.args {
            (known.args_digest, known.inputs_hash) = args.hashes();
            request.args = args;
        }
        network::parse(&runners::of(&entry).network(&entry, &request.args)).map_err(|error| {
            Refused::InvalidArguments { summary: error.message, violations: Vec::new() }
        })?;
        let is_run_here = inner.parts.settings.role.runs_calls();
        if is_run_here
            && runners::of(&entry).makes_sandbox(&entry)
            && inner.parts.sandbox.available().is_err()
        {
            return Err(Refused::NoSandbox);
        }
        inner.circuits.check(&who.tenant, entry.tool.digest, known.at).map_err(|open| {
            let tool = entry.tool.name.to_string();
            Refused::CircuitOpen { tool, retry_after: open.retry_after }
        })?;
        let call = call(inner, &origin, known, &entry, &request);
        set_out(inner, entry, call, origin.loan, reserved, request).await
    }
}

fn known(inner: &Inner, origin: &Origin, request: &CallRequest) -> Result<Known, Refused> {
    let at = inner.parts.clock.now();
    let persona = persona(&origin.principal, request.persona.clone())?;
    let (args_digest, inputs_hash) = request.args.hashes();
    let idempotency =
        idempotency::idempotency(request, origin.key.clone(), args_digest, persona.as_ref())?;
    let (id, taint) = (inner.ids.call(at), Vec::new());
    Ok(Known { id, at, persona, args_digest, inputs_hash, idempotency, taint })
}

fn find(inner: &Inner, request: &CallRequest) -> Result<Arc<Entry>, Refused> {
    let catalogue = inner.parts.registry.catalogue();
    let name = request.tool.as_str();
    if let Some(entry) = catalogue.get(name, request.version.as_deref()) {
        return Ok(entry.clone());
    }
    if let Some(inactive) = catalogue.find_inactive(name, request.version.as_deref()) {
        let (name, version) = (name.to_owned(), inactive.tool.version.clone());
        return Err(Refused::NotActive { name, version, status: inactive.status });
    }
    let name = name.to_owned();
    if let Some(broken) = catalogue.broken().iter().find(|broken| broken.name == name) {
        return Err(Refused::BrokenTool { name, problems: broken.problems.clone() });
    }
    Err(match &request.version {
        Some(version) if catalogue.get(&name, None).is_some() => {
            Refused::UnknownVersion { name, version: version.clone() }
        }
        _ => Refused::UnknownTool { name },
    })
}

fn check_arguments(entry: &Entry, args: &Json) -> Result<Given, Refused> {
    given::check(entry, args).map_err(|violations| invalid_arguments(entry, violations))
}

fn invalid_arguments(entry: &Entry, violations: Vec<Violation>) -> Refused {
    let name = entry.tool.name.as_str();
    let summary = runners::of(entry)
        .argument_error(entry, &violations)
        .map(str::to_owned)
        .unwrap_or_else(|| format!("the arguments do not fit tool `{name}`"));
    Refused::InvalidArguments { summary, violations }
}

fn unresolved(entry: &Entry, error: Unresolved) -> Refused {
    match error {
        Unresolved::Invalid(violations) => invalid_arguments(entry, violations),
        Unresolved::Store(error) => Refused::Store(error),
    }
}

fn persona(who: &Principal, asked: Option<PersonaId>) -> Result<Option<PersonaId>, Refused> {
    match (&who.persona, asked) {
        (Some(own), Some(other)) if *own != other => Err(Refused::ForeignPersona(other)),
        (Some(own), _) => Ok(Some(own.clone())),
        (None, asked) => Ok(asked),
    }
}

fn call(
    inner: &Inner,
    origin: &Origin,
    known: Known,
    entry: &Entry,
    request: &CallRequest,
) -> Call {
    let fresh = || new_trace(inner.parts.telemetry.spans.as_deref()).into();
    let trace = request.trace.clone().unwrap_or_else(fresh);
    let who = &origin.principal;
    let asked = Asked {
        id: known.id,
        tenant: who.tenant.clone(),
        key: who.key,
        scopes: who.scopes.clone(),
        persona: known.persona,
        session: request.session.clone(),
        tool: entry.tool.reference(),
        // What a program asks of a server or of other tools may have effects there.
        pure: entry.tool.is_pure()
            && !entry.keeps_data()
            && runners::of(entry).network(entry, &request.args).is_empty()
            && runners::of(entry).tools(entry, &request.args).is_empty(),
        args: request.args.clone(),
        args_digest: known.args_digest,
        inputs_hash: known.inputs_hash,
        metadata: request.metadata.clone(),
        idempotency: known.idempotency,
        fresh: request.fresh,
        trace_id: trace.parent.trace.to_string(),
        trace_parent: Some(trace.parent),
        trace_state: trace.state,
        cause: origin.cause.clone(),
        taint: known.taint,
        accepted_at: known.at,
    };
    let changed_at = known.at;
    Call { asked, edited: None, decision: None, state: State::Accepted, changed_at }
}

/// Gives the call a place and starts its pipeline.
async fn set_out(
    inner: &Arc<Inner>,
    entry: Arc<Entry>,
    call: Call,
    loan: Option<Loan>,
    reserved: Option<Reserved>,
    request: CallRequest,
) -> Result<Ticket, Refused> {
    let CallRequest { detached, attachment, .. } = request;
    let busy = || Refused::Busy { retry_after: Duration::from_secs(1) };
    let parent = loan.as_ref().map(|loan| loan.parent.clone());
    let claim = match loan.filter(|loan| loan.place.is_in_line()) {
        Some(loan) => Claim::Lent(loan),
        None => {
            let place = inner.place(&entry, &call.asked.tenant);
            Claim::Made(place.map_err(|crate::queue::Full| busy())?)
        }
    };
    let id = call.asked.id;
    if let Some(attachment) = attachment {
        let attachments = &inner.sandboxes.attachments;
        attachments.add(id, &call.asked.tenant, attachment).map_err(|TooMuch| busy())?;
    }
    let active = ActiveCall::begin(inner.clone(), call, parent);
    if let Some(reserved) = reserved {
        reserved.leave_to_call();
    }
    let in_flight = active.in_flight();
    if !detached {
        let driver = DetachOnDrop::new(&inner.tasks, pipeline::run(active, entry, claim));
        return Ok(Ticket { id, replayed: false, in_flight, driver: Some(driver) });
    }
    let (tell, told) = oneshot::channel();
    // The client learns the id at once and does not wait, so the call runs in its own task.
    drop(DetachOnDrop::new(&inner.tasks, record_and_run(active, entry, claim, tell)));
    told.await.unwrap_or(Err(Refused::Stopping))?;
    Ok(Ticket { id, replayed: false, in_flight, driver: None })
}

/// Records the call before its id is sent, so that it survives from here on.
async fn record_and_run(
    mut active: ActiveCall,
    entry: Arc<Entry>,
    claim: Claim,
    tell: oneshot::Sender<Result<(), Refused>>,
) {
    let recorded = active.commit().await;
    let is_recorded = recorded.is_ok();
    if !is_recorded {
        active.abandon();
    }
    // The client may be gone.
    let _ = tell.send(recorded.map_err(|error| match error {
        Error::Repeated(earlier) => Refused::StillRunning(earlier),
        other => Refused::Store(other),
    }));
    if is_recorded {
        pipeline::run(active, entry, claim).await;
    }
}
