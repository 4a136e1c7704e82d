//! Idempotency: equal keys mean the same request, done once.

use std::sync::Arc;

use ringfence_store::KeyUse;
use ringfence_types::{Call, CallId, Digest, Idempotency, KeyId, PersonaId, State};

use super::Known;
use crate::{CallRequest, Refused, Ticket, engine::Inner, in_flight::InFlight};

/// Maximum length of an idempotency key.
const MAX_KEY_BYTES: usize = 255;

/// Result of the search for an earlier call.
pub(super) enum Earlier {
    /// The call that the same request made.
    Call(Box<Ticket>),
    /// No call; the key, if there is one, is reserved for this request.
    None(Option<Reserved>),
}

/// Reservation of an idempotency key in this process. Dropping it frees the key, unless a call owns
/// the key by then.
pub(super) struct Reserved {
    inner: Arc<Inner>,
    slot: Option<(KeyId, String)>,
}

impl Reserved {
    /// Leaves the key to the call, which frees it when it is over.
    pub(super) fn leave_to_call(mut self) {
        self.slot = None;
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(slot) = &self.slot {
            self.inner.in_flight.release(slot);
        }
    }
}

/// The idempotency key of a request, with a digest of everything that identifies the request:
/// another request with the same key is refused.
pub(super) fn idempotency(
    request: &CallRequest,
    derived: Option<String>,
    args: Digest,
    persona: Option<&PersonaId>,
) -> Result<Option<Idempotency>, Refused> {
    let key = match (derived, request.idempotency_key.clone()) {
        (Some(derived), None) => derived,
        (None, Some(key)) if is_valid(&key) => key,
        (None, None) => return Ok(None),
        _ => return Err(Refused::InvalidIdempotencyKey),
    };
    let whole = [
        request.tool.as_str(),
        request.version.as_deref().unwrap_or(""),
        request.session.as_ref().map_or("", |session| session.as_str()),
        persona.map_or("", |persona| persona.as_str()),
        &args.to_string(),
        &Digest::of_json(&request.metadata).to_string(),
        if request.fresh { "fresh" } else { "" },
    ];
    Ok(Some(Idempotency { key, fingerprint: Digest::of(whole.join("\n").as_bytes()) }))
}

/// Whether a client may send this key. Derived keys of the server are never valid here.
fn is_valid(key: &str) -> bool {
    (1..=MAX_KEY_BYTES).contains(&key.len()) && key.bytes().all(|b| (b' '..=b'~').contains(&b))
}

/// The call that used this idempotency key before, if the key was used.
pub(super) async fn find_earlier(
    inner: &Arc<Inner>,
    who: KeyId,
    known: &Known,
) -> Result<Earlier, Refused> {
    let Some(idempotency) = &known.idempotency else { return Ok(Earlier::None(None)) };
    let slot = (who, idempotency.key.clone());
    let holder = inner.in_flight.reserve(slot.clone(), known.id);
    let reserved =
        holder.is_none().then(|| Reserved { inner: inner.clone(), slot: Some(slot.clone()) });
    // A key reserved here is used by no other request of this process, so one query is enough. A
    // key reserved by another request may have a record that is newer than the in-memory state.
    let found = inner.parts.store.idempotent(slot.0, &slot.1, known.at).await?;
    match (found, holder) {
        (None, None) => Ok(Earlier::None(reserved)),
        (Some(KeyUse::Erased(id)), None) => Err(Refused::Erased(id)),
        (Some(KeyUse::Call(stored)), None) => replay(stored.call, idempotency),
        (Some(KeyUse::Call(stored)), Some(_)) if stands_still(&stored.call) => {
            replay(stored.call, idempotency)
        }
        (_, Some(holder)) => Err(in_flight(inner, holder, idempotency)),
    }
}

fn in_flight(inner: &Inner, holder: CallId, idempotency: &Idempotency) -> Refused {
    let same = inner.in_flight.get(holder).is_none_or(|in_flight| {
        let held = in_flight.now().call.asked.idempotency.as_ref().map(|i| i.fingerprint);
        held == Some(idempotency.fingerprint)
    });
    if same { Refused::StillRunning(holder) } else { Refused::KeyReused(holder) }
}

/// Whether the call only continues on request: it is held, or has ended.
fn stands_still(call: &Call) -> bool {
    call.state.is_final() || matches!(call.state, State::Held { .. })
}

fn replay(earlier: Call, idempotency: &Idempotency) -> Result<Earlier, Refused> {
    let id = earlier.asked.id;
    let fingerprint = earlier.asked.idempotency.as_ref().map(|earlier| earlier.fingerprint);
    if fingerprint != Some(idempotency.fingerprint) {
        return Err(Refused::KeyReused(id));
    }
    if !stands_still(&earlier) {
        return Err(Refused::StillRunning(id));
    }
    let call = Arc::new(earlier);
    let in_flight = InFlight::new(call.clone(), None);
    in_flight.show(call, true, true);
    let in_flight = Arc::new(in_flight);
    Ok(Earlier::Call(Box::new(Ticket { id, replayed: true, in_flight, driver: None })))
}
