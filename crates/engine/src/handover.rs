//! Calls between processes that accept them and processes that run them.
//!
//! A process of role `api` asks policy, records the call and leaves it to the workers. A worker takes as many as it
//! has places for, and drives each from its record as it does after a restart: policy is asked there again, for
//! a permit does not leave its process.

use std::{sync::Arc, time::Duration};

use ringfence_registry::Entry;
use ringfence_store::{Error, QueuedCall, Stored};
use ringfence_types::{Call, ErrorCode, Event, Stopper, error_chain};

use crate::{
    active_call::ActiveCall,
    decide::{self, PolicyOutcome},
    engine::Inner,
    pipeline,
    queue::Claim,
    recover::{fail, is_whole, same_tool},
    runners::builtin,
    uploads,
};

/// Pause while every place of this process is taken.
const FULL_PAUSE: Duration = Duration::from_millis(10);

/// Pause after a round that failed.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Leaves a call that policy allows to the workers, and waits for its end.
pub(crate) async fn hand_over(
    active: &mut ActiveCall,
    entry: &Entry,
    claim: Claim,
) -> Result<(), Error> {
    match decide::ask_policy(active, entry).await? {
        PolicyOutcome::Allow(..) => {}
        refused => {
            drop(decide::take_answer(active, refused));
            return active.commit().await;
        }
    }
    // The place is a share of what this process may leave to others at one time.
    let Some(place) = pipeline::wait_for_place(active, entry, claim).await? else {
        return active.commit().await;
    };
    if !active.is_durable() {
        active.commit().await?;
    }
    let Some(seen) = active.version else { return Err(Error::Stale) };
    let (inner, in_flight) = (active.inner.clone(), active.in_flight());
    let (id, tenant) = (active.asked().id, active.asked().tenant.clone());
    let to = owner(&inner, &active.call).await?;
    let mut awaited = inner.awaited.add(id);
    inner.parts.store.queue_call(QueuedCall { tenant, id, seen, to }).await?;
    // From here on it is under way elsewhere.
    inner.in_flight.remove(&active.call, &in_flight);
    tokio::select! {
        ended = awaited.stands_still() => if let Some(ended) = ended {
            in_flight.show(ended, true, true);
        },
        by = in_flight.cancelled() => take_back(active, by).await?,
        () = inner.stopping.cancelled() => {}
    }
    drop(place);
    Ok(())
}

/// Ends a call that was cancelled before a worker took it. If one has it, the owner cancels it.
async fn take_back(active: &mut ActiveCall, by: Stopper) -> Result<(), Error> {
    active.step(Event::Cancel(by));
    match active.commit().await {
        Err(Error::Stale) => {
            active.in_flight().end();
            Ok(())
        }
        done => done,
    }
}

/// Process that has the session sandbox of a call.
async fn owner(inner: &Inner, call: &Call) -> Result<Option<u64>, Error> {
    let Some(sandbox) = builtin::session_of(call) else { return Ok(None) };
    let owner = inner.parts.store.owner_of_sandbox(&call.asked.tenant, &sandbox).await?;
    Ok(owner.map(|process| process.id))
}

/// Takes calls that were left to the workers, until the engine stops.
pub(crate) async fn follow(inner: Arc<Inner>) {
    let store = &inner.parts.store;
    if !inner.parts.settings.role.runs_calls() || !store.is_shared() {
        return;
    }
    let mut queued = store.queued();
    loop {
        queued.mark_unchanged();
        let free = inner.queue.free();
        let taken = match free {
            0 => Ok(0),
            free => take(&inner, free).await,
        };
        let next = async {
            match taken {
                Ok(0) if free > 0 => drop(queued.changed().await),
                Ok(0) => tokio::time::sleep(FULL_PAUSE).await,
                Ok(_) => {}
                Err(error) => {
                    let error = error_chain(&error);
                    tracing::warn!(error, "calls of other processes are not taken yet");
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        };
        tokio::select! {
            biased;
            () = inner.stopping.cancelled() => return,
            () = next => {}
        }
    }
}

async fn take(inner: &Arc<Inner>, free: usize) -> Result<usize, Error> {
    let taken = inner.parts.store.take_queued(free).await?;
    let count = taken.len();
    for stored in taken {
        start(inner, stored).await?;
    }
    Ok(count)
}

async fn start(inner: &Arc<Inner>, stored: Stored) -> Result<(), Error> {
    let mut entry = same_tool(inner, &stored);
    if entry.is_none() {
        // It may have been uploaded a moment ago.
        uploads::refresh(inner).await?;
        entry = same_tool(inner, &stored);
    }
    let (is_held, is_whole) = (stored.call.hold().is_some(), is_whole(&stored));
    let tenant = stored.call.asked.tenant.clone();
    let active = ActiveCall::from_record(inner.clone(), stored);
    let Some(entry) = entry else {
        let message = "the worker that took the call does not have this version of the tool";
        return fail(active, ErrorCode::ToolChanged, message).await;
    };
    let claim = match is_held {
        true => Claim::WhenAllowed(None),
        false if is_whole => Claim::Made(inner.place_again(&entry, &tenant)),
        false => {
            let message = "policy had some of its arguments masked before a worker took it";
            return fail(active, ErrorCode::ArgsRedacted, message).await;
        }
    };
    inner.tasks.spawn(pipeline::run(active, entry, claim));
    Ok(())
}
