//! The first step: identity, tool, arguments, idempotency. What is refused here leaves no trace.

use std::{sync::Arc, time::Duration};

use ringfence_registry::Entry;
use ringfence_types::{
    Asked, Call, CallId, Digest, Idempotency, Json, PersonaId, Principal, State, json::canonical,
};

use crate::{
    CallRequest, Engine, Refused, Ticket, builtin, engine::Inner, journey::Journey, live::Live,
    onward::Onward, path, queue::Claim, trace::new_trace,
};

/// Longest idempotency key.
const KEY: usize = 255;

impl Engine {
    /// Accepts a call, or an earlier one with the same idempotency key. It goes on with its ticket,
    /// whether somebody waits or the ticket is dropped.
    pub async fn call(&self, who: &Principal, request: CallRequest) -> Result<Ticket, Refused> {
        let inner = &self.inner;
        if inner.stopping.is_cancelled() {
            return Err(Refused::Stopping);
        }
        let entry = find(inner, &request)?;
        check_arguments(&entry, &request.args)?;
        let persona = persona(who, request.persona.clone())?;
        let call = call(inner, who, persona, &entry, &request)?;
        match earlier(inner, &call).await? {
            Some(ticket) => Ok(ticket),
            None => set_out(inner, entry, call, request.detached).await,
        }
    }
}

fn find(inner: &Inner, request: &CallRequest) -> Result<Arc<Entry>, Refused> {
    let catalogue = inner.parts.registry.catalogue();
    let name = request.tool.as_str();
    if let Some(entry) = catalogue.get(name, request.version.as_deref()) {
        return Ok(entry.clone());
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

fn check_arguments(entry: &Entry, args: &Json) -> Result<(), Refused> {
    entry.check_input(args).map_err(|violations| {
        let name = entry.tool.name.as_str();
        let summary = builtin::complaint(name, &violations)
            .map(str::to_owned)
            .unwrap_or_else(|| format!("the arguments do not fit tool `{name}`"));
        Refused::InvalidArguments { summary, violations }
    })
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
    who: &Principal,
    persona: Option<PersonaId>,
    entry: &Entry,
    request: &CallRequest,
) -> Result<Call, Refused> {
    let now = inner.parts.clock.now();
    let args_digest = Digest::of_json(&request.args);
    let fresh = || new_trace(inner.parts.telemetry.spans.as_deref()).into();
    let trace = request.trace.clone().unwrap_or_else(fresh);
    let asked = Asked {
        id: inner.ids.call(now),
        tenant: who.tenant.clone(),
        key: who.key,
        scopes: who.scopes.clone(),
        persona,
        session: request.session.clone(),
        tool: entry.tool.reference(),
        pure: entry.tool.is_pure(),
        args: request.args.clone(),
        args_digest,
        inputs_hash: canonical::python_hash(&request.args),
        metadata: request.metadata.clone(),
        idempotency: idempotency(request, args_digest)?,
        fresh: request.fresh,
        trace_id: trace.parent.trace.to_string(),
        trace_parent: Some(trace.parent),
        trace_state: trace.state,
        accepted_at: now,
    };
    Ok(Call { asked, edited: None, decision: None, state: State::Accepted, changed_at: now })
}

fn idempotency(request: &CallRequest, args: Digest) -> Result<Option<Idempotency>, Refused> {
    let Some(key) = request.idempotency_key.clone() else { return Ok(None) };
    let fits = (1..=KEY).contains(&key.len()) && key.bytes().all(|b| (b' '..=b'~').contains(&b));
    if !fits {
        return Err(Refused::InvalidIdempotencyKey);
    }
    let version = request.version.as_deref().unwrap_or("");
    let session = request.session.as_ref().map_or("", |session| session.as_str());
    let whole = [request.tool.as_str(), version, session, &args.to_string()].join("\n");
    Ok(Some(Idempotency { key, fingerprint: Digest::of(whole.as_bytes()) }))
}

/// The call that used this idempotency key before, if the key was used.
async fn earlier(inner: &Arc<Inner>, call: &Call) -> Result<Option<Ticket>, Refused> {
    let Some(idempotency) = &call.asked.idempotency else { return Ok(None) };
    let slot = (call.asked.key, idempotency.key.clone());
    if let Some(holder) = inner.lives.reserve(slot.clone(), call.asked.id) {
        return Err(in_flight(inner, holder, idempotency));
    }
    // From here on nobody else of this process can use the key, so the store is asked once.
    let found = inner.parts.store.idempotent(slot.0, &slot.1, call.asked.accepted_at).await;
    match found {
        Ok(None) => Ok(None),
        Ok(Some(stored)) => {
            inner.lives.release(&slot);
            replay(stored.call, idempotency).map(Some)
        }
        Err(error) => {
            inner.lives.release(&slot);
            Err(error.into())
        }
    }
}

fn in_flight(inner: &Inner, holder: CallId, idempotency: &Idempotency) -> Refused {
    let same = inner.lives.get(holder).is_none_or(|live| {
        let held = live.now().call.asked.idempotency.as_ref().map(|i| i.fingerprint);
        held == Some(idempotency.fingerprint)
    });
    if same { Refused::StillRunning(holder) } else { Refused::KeyReused(holder) }
}

fn replay(earlier: Call, idempotency: &Idempotency) -> Result<Ticket, Refused> {
    let id = earlier.asked.id;
    let fingerprint = earlier.asked.idempotency.as_ref().map(|earlier| earlier.fingerprint);
    if fingerprint != Some(idempotency.fingerprint) {
        return Err(Refused::KeyReused(id));
    }
    let stands_still = earlier.state.is_final() || matches!(earlier.state, State::Held { .. });
    if !stands_still {
        return Err(Refused::StillRunning(id));
    }
    let call = Arc::new(earlier);
    let live = Live::new(call.clone());
    live.show(call, true, true);
    Ok(Ticket { id, replayed: true, live: Arc::new(live), onward: None })
}

/// Gives the call a place and sends it on its way.
async fn set_out(
    inner: &Arc<Inner>,
    entry: Arc<Entry>,
    call: Call,
    detached: bool,
) -> Result<Ticket, Refused> {
    let place = match inner.queue.join(&call.asked.tenant) {
        Ok(place) => place,
        Err(crate::queue::Full) => {
            if let Some(idempotency) = &call.asked.idempotency {
                inner.lives.release(&(call.asked.key, idempotency.key.clone()));
            }
            return Err(Refused::Busy { retry_after: Duration::from_secs(1) });
        }
    };
    let id = call.asked.id;
    let mut journey = Journey::begin(inner.clone(), call);
    let live = journey.live();
    if detached {
        // Its name is about to be told, so it must survive from here on.
        if let Err(error) = journey.commit().await {
            journey.abandon();
            return Err(error.into());
        }
    }
    let onward = Onward::new(&inner.tasks, path::walk(journey, entry, Claim::Made(place)));
    // Nobody is expected to wait for one whose name is told at once.
    let onward = (!detached).then_some(onward);
    Ok(Ticket { id, replayed: false, live, onward })
}
