//! Pipeline of a call, in order: decide, reserve budget, wait for a place, dispatch, run, record.
//!
//! Accepting comes before (see `accept`); publishing comes after, from the record (see `publish`).

use std::{
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use ringfence_policy::Permit;
use ringfence_registry::Entry;
use ringfence_store::Error;
use ringfence_types::{Call, CallId, ErrorCode, Event, FactKind, Json, Produced, State, Stopper};
use serde::Serialize;

use crate::{
    Subject,
    active_call::ActiveCall,
    budget, cause, circuit,
    decide::{self, Authorised, PolicyOutcome, UsedApproval, ask_policy, decide},
    dispatch::{self, Started, Work},
    engine::Inner,
    handover, lifecycle, memo,
    queue::{Claim, Place, Seat},
    record::Ended,
    stage_spans::Stage,
};

/// Run time after which a pure call is recorded while it runs. A faster one costs a single commit:
/// its id has not been sent yet, and running it again would do no harm.
const RECORD_AFTER: Duration = Duration::from_millis(25);

/// Delay before a call that could not be recorded is tried again.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(5);

/// Drives one call until it is held or has ended.
pub(crate) async fn run(active: ActiveCall, entry: Arc<Entry>, claim: Claim) {
    let policy = active.inner.parts.policy.revision();
    match Subject::of_call(active.asked(), policy) {
        Some(subject) => subject.scope(run_unscoped(active, entry, claim)).await,
        None => run_unscoped(active, entry, claim).await,
    }
}

async fn run_unscoped(mut active: ActiveCall, entry: Arc<Entry>, claim: Claim) {
    let driven = run_stages(&mut active, &entry, claim).await;
    active.end_stage(Stage::Record);
    active.emit_spans();
    note(&active.call);
    cause::end_held_children(&active).await;
    if matches!(driven, Err(Error::Stale)) && active.is_durable() {
        tracing::debug!("another task took the next step of the call");
        active.abandon();
        active.look_again();
    } else if let (Err(Error::Repeated(earlier)), false) = (&driven, active.is_durable()) {
        tracing::debug!(%earlier, "another process used the idempotency key of the call first");
        active.in_flight().set_repeats(*earlier);
        active.abandon();
    } else if let Err(error) = driven {
        tracing::error!(error = &error as &dyn std::error::Error, "a call is not recorded");
        active.inner.disk_full.store(error.is_disk_full(), Ordering::Relaxed);
        active.abandon();
        if active.is_durable() {
            let inner = active.inner.clone();
            let later = retry_later(inner.clone(), active.call.clone(), entry);
            inner.tasks.spawn(later);
        }
    }
}

/// Logs one line per call: its tool and its end, never its content.
fn note(call: &Call) {
    let (tool, state) = (&call.asked.tool.name, call.state.name());
    let (error, milliseconds) = match &call.state {
        State::Finished(finished) => {
            let error = match &finished.produced {
                Produced::Error(error) => Some(error.code.as_str()),
                Produced::Result(_) => None,
            };
            (error, Some(finished.duration.as_millis() as u64))
        }
        _ => (None, None),
    };
    tracing::info!(%tool, state, error, milliseconds, "call");
}

/// Continues a recorded call whose next step the store did not take. Nothing starts without a
/// record, so the call goes on from its newest record when the store can be used again.
fn retry_later(
    inner: Arc<Inner>,
    call: Arc<Call>,
    entry: Arc<Entry>,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        let (tenant, id) = (&call.asked.tenant, call.asked.id);
        let stored = loop {
            tokio::select! {
                () = tokio::time::sleep(STORE_RETRY_DELAY) => {}
                // The next start recovers all of them.
                () = inner.stopping.cancelled() => return,
            }
            if let Ok(stored) = inner.parts.store.call(tenant, id).await {
                break stored;
            }
        };
        let is_under_way = inner.in_flight.get(id).is_some();
        match stored.filter(|_| !is_under_way) {
            Some(stored) if stored.call.hold().is_some() => {
                inner.rechecks.recheck_later(id, inner.parts.clock.now());
            }
            Some(stored) if matches!(stored.call.state, State::Accepted) => {
                let place = inner.place_again(&entry, tenant);
                run(ActiveCall::from_record(inner, stored), entry, Claim::Made(place)).await;
            }
            _ => {}
        }
    })
}

async fn run_stages(
    active: &mut ActiveCall,
    entry: &Arc<Entry>,
    claim: Claim,
) -> Result<(), Error> {
    if !active.inner.parts.settings.role.runs_calls() {
        return handover::hand_over(active, entry, claim).await;
    }
    let Some(allowed) = decide(active, entry).await? else {
        return active.commit().await;
    };
    let Some(reserved) = budget::reserve(active, entry).await? else {
        return active.commit().await;
    };
    let Some(seat) = wait_for_place(active, entry, claim).await? else {
        return active.commit().await;
    };
    active.end_stage(Stage::Queue);
    let regranted = lifecycle::regranted(&active.inner, entry);
    let (is_same, entry) = (regranted.is_none(), regranted.as_ref().unwrap_or(entry));
    let Some(permit) = dispatch(active, entry, allowed, is_same).await? else {
        return active.commit().await;
    };
    let ended = match memo::recall(active, &entry.tool, &permit).await {
        Some(ended) => ended,
        None => run_tool(active, entry, permit, &seat).await?,
    };
    drop(seat);
    memo::settle(active).await;
    active.end_stage(Stage::Run);
    active.end(ended);
    let recorded = active.commit_the_end().await;
    // Only now is it counted.
    drop(reserved);
    recorded
}

/// Records the intent before anything can have an effect; none if the call is held instead.
async fn dispatch(
    active: &mut ActiveCall,
    entry: &Entry,
    allowed: Authorised,
    is_same: bool,
) -> Result<Option<Permit>, Error> {
    // While the call waited for its place, its tool may have been withdrawn.
    if decide::deny_withdrawn(active, entry).await? {
        return Ok(None);
    }
    let Authorised { permit, by } = allowed;
    if by.is_none() && is_same {
        active.step(Event::Allow);
        if !active.asked().pure || active.is_durable() {
            active.commit().await?;
            active.end_stage(Stage::Record);
        }
        return Ok(Some(permit));
    }
    // While the call waited for its place, the approved state or the grants of the tool may have changed.
    drop((permit, by));
    match decide(active, entry).await? {
        Some(Authorised { permit, by: Some(by) }) => spend(active, permit, by).await,
        Some(Authorised { permit, by: None }) => {
            active.step(Event::Allow);
            active.commit().await?;
            Ok(Some(permit))
        }
        None => Ok(None),
    }
}

/// Uses an approval in the same commit as the intent; another call may have used it up first.
async fn spend(
    active: &mut ActiveCall,
    permit: Permit,
    by: UsedApproval,
) -> Result<Option<Permit>, Error> {
    let before = (active.call.clone(), active.pending.clone());
    active.step(Event::Allow);
    active.spend(&by.approval.approval);
    match active.commit().await {
        Ok(()) => Ok(Some(permit)),
        Err(Error::Spent) => {
            (active.call, active.pending) = before;
            let changed = "the approval is over, was revoked or used up by other calls".to_owned();
            active.hold(*by.held, vec![changed]);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Waits for a place; `None` if the call was cancelled meanwhile.
pub(crate) async fn wait_for_place(
    active: &mut ActiveCall,
    entry: &Entry,
    claim: Claim,
) -> Result<Option<Seat>, Error> {
    let place = match claim {
        Claim::Made(place) => place,
        Claim::WhenAllowed(look) => {
            drop(look);
            active.inner.place_again(entry, &active.asked().tenant)
        }
        Claim::Lent(loan) => return wait_for(active, Seat::lent(loan)).await,
    };
    match place {
        Place::Now(turn) => Ok(Some(Seat::own(turn))),
        Place::Later(turn) => wait_for(active, async { turn.await.ok().map(Seat::own) }).await,
    }
}

/// Waits for a place, and records the call meanwhile if that takes long.
async fn wait_for(
    active: &mut ActiveCall,
    seat: impl Future<Output = Option<Seat>>,
) -> Result<Option<Seat>, Error> {
    let in_flight = active.in_flight();
    let recorded = tokio::time::sleep(RECORD_AFTER);
    tokio::pin!(recorded, seat);
    let mut waiting_on_record = active.is_durable();
    loop {
        tokio::select! {
            biased;
            by = in_flight.cancelled() => {
                active.step(Event::Cancel(by));
                return Ok(None);
            }
            seat = &mut seat => return Ok(seat),
            () = &mut recorded, if !waiting_on_record => {
                waiting_on_record = true;
                active.commit().await?;
            }
        }
    }
}

/// Runs the call, and a pure one again if its sandbox failed.
async fn run_tool(
    active: &mut ActiveCall,
    entry: &Arc<Entry>,
    mut permit: Permit,
    seat: &Seat,
) -> Result<Ended, Error> {
    let _running = active.inner.metrics.tool(active.asked().tool.name.as_str()).runs();
    let mut tries = 0;
    loop {
        let ended = run_once(active, entry, permit, seat).await?;
        permit = match retry(active, entry, &ended, tries).await? {
            Some(permit) => permit,
            None => return Ok(ended),
        };
        tries += 1;
    }
}

/// Runs the call unless the circuit of its tool is open.
async fn run_once(
    active: &mut ActiveCall,
    entry: &Arc<Entry>,
    permit: Permit,
    seat: &Seat,
) -> Result<Ended, Error> {
    let inner = active.inner.clone();
    let (clock, tenant) = (&inner.parts.clock, &active.asked().tenant);
    let passage = match inner.circuits.enter(tenant, &entry.tool, clock.now()) {
        Ok(passage) => passage,
        Err(open) => return Ok(circuit::refused(open, &entry.tool, clock.now())),
    };
    let ended = run_in_sandbox(active, entry, permit, seat).await?;
    passage.settle(&ended, clock.now());
    Ok(ended)
}

/// A permit for another try of a pure call whose sandbox failed, after a pause. Policy is asked again: a
/// permit is for one run.
async fn retry(
    active: &mut ActiveCall,
    entry: &Arc<Entry>,
    ended: &Ended,
    tries: u32,
) -> Result<Option<Permit>, Error> {
    let Some(code) = ended.error().filter(|code| circuit::is_ours(*code)) else { return Ok(None) };
    if tries >= active.inner.parts.settings.retries || !active.asked().pure {
        return Ok(None);
    }
    let in_flight = active.in_flight();
    tokio::select! {
        biased;
        // It ends as it did.
        _ = in_flight.cancelled() => return Ok(None),
        () = tokio::time::sleep(retry_pause(active.asked().id, tries)) => {}
    }
    let permit = match ask_policy(active, entry).await? {
        PolicyOutcome::Allow(allowed, judgement) if allowed.by.is_none() => {
            active.decided(*judgement);
            allowed.permit
        }
        _ => return Ok(None),
    };
    active.inner.metrics.retried(&entry.tool.name);
    active.note(FactKind::Retried, Json::plain(&Retried { code, tries: tries + 1 }));
    Ok(Some(permit))
}

/// Another try of a call.
#[derive(Serialize)]
struct Retried {
    /// Why the last one failed.
    code: ErrorCode,
    /// Tries before this one.
    tries: u32,
}

/// Pause before the first further try; doubles each time.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Pause before another try: between half and all of its time, by the random part of the call's id, so that
/// calls that failed together do not come back together.
fn retry_pause(id: CallId, tries: u32) -> Duration {
    let whole = RETRY_PAUSE * 2_u32.saturating_pow(tries.min(6));
    let share = id.0.as_u128() as u32 % 1_000;
    whole / 2 + whole * share / 2_000
}

/// Runs the call in its sandbox, or inline where there is nothing to confine.
async fn run_in_sandbox(
    active: &mut ActiveCall,
    entry: &Arc<Entry>,
    permit: Permit,
    seat: &Seat,
) -> Result<Ended, Error> {
    match dispatch::start(active, entry, permit).await {
        Started::Ended(ended) => Ok(*ended),
        Started::Running(work) => {
            // Another try goes on in the state of the first.
            if matches!(active.call.state, State::Dispatched) {
                active.step(Event::Start);
            }
            active.show();
            let in_flight = active.in_flight();
            in_flight.set_place(Some(seat.place.clone()));
            let ended = supervise(active, work).await;
            in_flight.set_place(None);
            ended
        }
    }
}

/// Waits for the end of the work, and records the call meanwhile if that takes long.
async fn supervise(active: &mut ActiveCall, mut work: Work) -> Result<Ended, Error> {
    let in_flight = active.in_flight();
    let recorded = tokio::time::sleep(RECORD_AFTER);
    tokio::pin!(recorded);
    let (mut on_record, mut cancelling) = (false, false);
    loop {
        tokio::select! {
            ended = work.wait() => return Ok(ended),
            by = in_flight.cancelled(), if !cancelling => {
                cancelling = true;
                ask_to_stop(active, &work, by);
                active.commit_meanwhile().await?;
            }
            () = &mut recorded, if !on_record => {
                on_record = true;
                active.commit_meanwhile().await?;
            }
        }
    }
}

fn ask_to_stop(active: &mut ActiveCall, work: &Work, by: Stopper) {
    active.step(Event::Cancel(by));
    if matches!(active.call.state, State::Cancelling { .. }) {
        work.stop();
    }
}
