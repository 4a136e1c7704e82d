//! The path of a call, in order: decide, wait for a place, dispatch, run, record.
//!
//! Accepting came before (see `accept`); publishing comes after, from the record (see `publish`).

use std::{
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use ringfence_policy::Permit;
use ringfence_registry::Entry;
use ringfence_store::Error;
use ringfence_types::{Call, Event, Produced, State, Stopper};

use crate::{
    Subject,
    dispatch::{self, Started, Work},
    engine::Inner,
    hold::{self, Allowed, By, Said},
    journey::Journey,
    laps::Lap,
    memo,
    queue::{Claim, Place, Turn},
    record::Ended,
};

/// A pure call that takes longer than this is put on record while it runs. One that is faster
/// costs a single commit: nobody knows its name yet, and running it again would do no harm.
const UNRECORDED: Duration = Duration::from_millis(25);

/// Before a call that could not be recorded is looked at again.
const STORE_PAUSE: Duration = Duration::from_secs(5);

/// Drives one call to where it stands still.
pub(crate) async fn walk(journey: Journey, entry: Arc<Entry>, claim: Claim) {
    let policy = journey.inner.parts.policy.revision();
    match Subject::of_call(journey.asked(), policy) {
        Some(subject) => subject.scope(drive(journey, entry, claim)).await,
        None => drive(journey, entry, claim).await,
    }
}

async fn drive(mut journey: Journey, entry: Arc<Entry>, claim: Claim) {
    let driven = stages(&mut journey, &entry, claim).await;
    journey.lap(Lap::Record);
    journey.tell_spans();
    note(&journey.call);
    if matches!(driven, Err(Error::Stale)) && journey.is_durable() {
        tracing::debug!("somebody else took the call's next step");
        journey.abandon();
        journey.look_again();
    } else if let Err(error) = driven {
        tracing::error!(error = &error as &dyn std::error::Error, "a call is not recorded");
        journey.inner.disk_full.store(error.is_disk_full(), Ordering::Relaxed);
        journey.abandon();
        if journey.is_durable() {
            let inner = journey.inner.clone();
            let later = again_later(inner.clone(), journey.call.clone(), entry);
            inner.tasks.spawn(later);
        }
    }
}

/// One line of the log per call: what it was and how it ended, never what was in it.
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

/// Somebody was told of a call, and the store did not take its next step. Nothing has begun without a
/// record, so the call goes on from the record that it has, when the store can be used again.
fn again_later(
    inner: Arc<Inner>,
    call: Arc<Call>,
    entry: Arc<Entry>,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        let (tenant, id) = (&call.asked.tenant, call.asked.id);
        let stored = loop {
            tokio::select! {
                () = tokio::time::sleep(STORE_PAUSE) => {}
                // The next start looks at all of them.
                () = inner.stopping.cancelled() => return,
            }
            if let Ok(stored) = inner.parts.store.call(tenant, id).await {
                break stored;
            }
        };
        let is_under_way = inner.lives.get(id).is_some();
        match stored.filter(|_| !is_under_way) {
            Some(stored) if stored.call.hold().is_some() => {
                inner.dues.again(id, inner.parts.clock.now());
            }
            Some(stored) if matches!(stored.call.state, State::Accepted) => {
                let place = inner.queue.rejoin(tenant);
                walk(Journey::resume(inner, stored), entry, Claim::Made(place)).await;
            }
            _ => {}
        }
    })
}

async fn stages(journey: &mut Journey, entry: &Arc<Entry>, claim: Claim) -> Result<(), Error> {
    let Some(allowed) = decide(journey, entry).await? else {
        return journey.commit().await;
    };
    let Some(turn) = wait_for_turn(journey, claim).await? else {
        return journey.commit().await;
    };
    journey.lap(Lap::Queue);
    let Some(permit) = dispatch(journey, entry, allowed).await? else {
        return journey.commit().await;
    };
    let ended = match memo::recall(journey, &entry.tool, &permit).await {
        Some(ended) => ended,
        None => run(journey, entry, permit).await?,
    };
    drop(turn);
    memo::settle(journey).await;
    journey.lap(Lap::Run);
    journey.end(ended);
    journey.commit_the_end().await
}

/// Asks policy. Unless it allows the call, the call stands still.
async fn decide(journey: &mut Journey, entry: &Entry) -> Result<Option<Allowed>, Error> {
    let input = dispatch::policy_input(journey, entry);
    let allowed = match hold::allowed(journey, input).await? {
        Said::Allow(allowed, judgement) => {
            journey.decided(*judgement);
            Some(*allowed)
        }
        Said::Hold(judgement, changed) => {
            journey.hold(*judgement, changed);
            None
        }
        Said::Deny(judgement) => {
            let event = Event::Deny(judgement.decision.reasons.clone());
            journey.decided(*judgement);
            journey.step(event);
            None
        }
    };
    journey.lap(Lap::Decide);
    Ok(allowed)
}

/// Puts the intent on record before anything can have an effect; none if the call is held instead.
async fn dispatch(
    journey: &mut Journey,
    entry: &Entry,
    allowed: Allowed,
) -> Result<Option<Permit>, Error> {
    let Allowed { permit, by } = allowed;
    let Some(by) = by else {
        journey.step(Event::Allow);
        if !journey.asked().pure || journey.is_durable() {
            journey.commit().await?;
            journey.lap(Lap::Record);
        }
        return Ok(Some(permit));
    };
    // While it waited for its place, what was approved may have changed.
    drop((permit, by));
    match decide(journey, entry).await? {
        Some(Allowed { permit, by: Some(by) }) => spend(journey, permit, by).await,
        Some(Allowed { permit, by: None }) => {
            journey.step(Event::Allow);
            journey.commit().await?;
            Ok(Some(permit))
        }
        None => Ok(None),
    }
}

/// Uses an approval in the same commit as the intent; whoever was faster may have used it up.
async fn spend(journey: &mut Journey, permit: Permit, by: By) -> Result<Option<Permit>, Error> {
    let before = journey.mark();
    journey.step(Event::Allow);
    journey.spend(&by.approval.approval);
    match journey.commit().await {
        Ok(()) => Ok(Some(permit)),
        Err(Error::Spent) => {
            journey.rewind(before);
            let changed = "the approval is over, was revoked or used up by other calls".to_owned();
            journey.hold(*by.held, vec![changed]);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Waits for a place; `None` if somebody cancelled meanwhile.
async fn wait_for_turn(journey: &mut Journey, claim: Claim) -> Result<Option<Turn>, Error> {
    let place = match claim {
        Claim::Made(place) => place,
        Claim::WhenAllowed(look) => {
            drop(look);
            journey.inner.queue.rejoin(&journey.asked().tenant)
        }
    };
    let mut turn = match place {
        Place::Now(turn) => return Ok(Some(turn)),
        Place::Later(turn) => turn,
    };
    let live = journey.live();
    let recorded = tokio::time::sleep(UNRECORDED);
    tokio::pin!(recorded);
    let mut waiting_on_record = journey.is_durable();
    loop {
        tokio::select! {
            turn = &mut turn => return Ok(turn.ok()),
            by = live.cancelled() => {
                journey.step(Event::Cancel(by));
                return Ok(None);
            }
            () = &mut recorded, if !waiting_on_record => {
                waiting_on_record = true;
                journey.commit().await?;
            }
        }
    }
}

/// Runs the call in its sandbox, or inline where there is nothing to confine.
async fn run(journey: &mut Journey, entry: &Arc<Entry>, permit: Permit) -> Result<Ended, Error> {
    let _in_flight = journey.inner.metrics.tool(journey.asked().tool.name.as_str()).runs();
    match dispatch::start(journey, entry, permit).await {
        Started::Ended(ended) => Ok(*ended),
        Started::Running(work) => {
            journey.step(Event::Start);
            journey.show();
            follow(journey, work).await
        }
    }
}

/// Waits for the end of what runs, keeping the record true meanwhile.
async fn follow(journey: &mut Journey, mut work: Work) -> Result<Ended, Error> {
    let live = journey.live();
    let recorded = tokio::time::sleep(UNRECORDED);
    tokio::pin!(recorded);
    let (mut on_record, mut cancelling) = (false, false);
    loop {
        tokio::select! {
            ended = work.wait() => return Ok(ended),
            by = live.cancelled(), if !cancelling => {
                cancelling = true;
                ask_to_stop(journey, &work, by);
                journey.commit_meanwhile().await?;
            }
            () = &mut recorded, if !on_record => {
                on_record = true;
                journey.commit_meanwhile().await?;
            }
        }
    }
}

fn ask_to_stop(journey: &mut Journey, work: &Work, by: Stopper) {
    if journey.step(Event::Cancel(by)) == ringfence_types::Effect::Stop {
        work.stop();
    }
}
