//! Recovery of unfinished calls of an earlier process: pure ones run again, others end as unknown.

use std::{sync::Arc, time::Duration};

use ringfence_registry::Entry;
use ringfence_store::{Error, Stored};
use ringfence_types::{CallError, Digest, ErrorCode, Event, Produced, State, error_chain};

use crate::{
    active_call::ActiveCall, dispatch::without_program, engine::Inner, hold::Recheck, pipeline,
    queue::Claim, runners,
};

/// Calls per read.
const CALLS_PER_READ: usize = 200;

/// Pause after a round that failed.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Takes over calls of processes that are gone, until the engine stops.
pub(crate) async fn follow(inner: Arc<Inner>) {
    let mut abandoned = inner.parts.store.abandoned();
    loop {
        let changed = tokio::select! {
            () = inner.stopping.cancelled() => return,
            changed = abandoned.changed() => changed,
        };
        if changed.is_err() {
            return;
        }
        if let Err(error) = run(&inner).await {
            let error = error_chain(&error);
            tracing::warn!(error, "calls of a process that is gone are not taken over yet");
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }
}

/// Recovers every unfinished call that no living process owns.
pub(crate) async fn run(inner: &Arc<Inner>) -> Result<(), Error> {
    let mut after = None;
    loop {
        let left = inner.parts.store.unfinished(after, CALLS_PER_READ).await?;
        let Some(last) = left.last() else { return Ok(()) };
        after = Some(last.call.asked.id);
        for stored in left {
            pick_up(inner, stored).await?;
        }
    }
}

async fn pick_up(inner: &Arc<Inner>, stored: Stored) -> Result<(), Error> {
    if let Some(hold) = stored.call.hold() {
        if inner.rechecks.has(stored.call.asked.id) {
            return Ok(());
        }
        inner.metrics.held(1);
        inner.rechecks.add(Recheck::from(&stored.call), inner.parts.clock.now(), hold.expires_at);
        return Ok(());
    }
    let id = stored.call.asked.id;
    let entry = same_tool(inner, &stored);
    let runs_again = |entry: &Arc<Entry>| runners::of(entry).runs_again(entry);
    let pure = stored.call.asked.pure && entry.as_ref().is_none_or(runs_again);
    let is_whole = is_whole(&stored);
    let (trace_id, tenant) = (stored.call.asked.trace_id.clone(), stored.call.asked.tenant.clone());
    let (trace_id, tenant) = (trace_id.as_str(), tenant.as_str());
    let mut active = ActiveCall::from_record(inner.clone(), stored);
    active.step(Event::Recover { pure });
    let runs_again = matches!(active.call.state, State::Accepted);
    match (runs_again, entry) {
        (true, Some(_)) if !is_whole => {
            let message = "policy had some of its arguments masked before the server went down";
            fail(active, ErrorCode::ArgsRedacted, message).await
        }
        (true, Some(entry)) => {
            tracing::info!(call_id = %id, trace_id, tenant, "running a call of an earlier process again");
            let place = inner.place_again(&entry, &active.asked().tenant);
            inner.tasks.spawn(pipeline::run(active, entry, Claim::Made(place)));
            Ok(())
        }
        (true, None) => {
            // Without its tool the call cannot run again.
            let message = "the tool was removed or changed while the server was down";
            fail(active, ErrorCode::ToolChanged, message).await
        }
        _ => {
            tracing::warn!(call_id = %id, trace_id, tenant, state = active.call.state.name(), "a call was interrupted by the end of the server");
            active.commit().await
        }
    }
}

/// The tool as it was when the call was accepted; another version does not count.
pub(crate) fn same_tool(inner: &Inner, stored: &Stored) -> Option<Arc<Entry>> {
    inner.parts.registry.catalogue().by_digest(stored.call.asked.tool.digest).cloned()
}

/// Whether the stored arguments are unmasked.
pub(crate) fn is_whole(stored: &Stored) -> bool {
    Digest::of_json(stored.call.args()) == stored.call.args_digest()
}

/// Ends a call that cannot run again.
pub(crate) async fn fail(
    mut active: ActiveCall,
    code: ErrorCode,
    message: &str,
) -> Result<(), Error> {
    let at = active.inner.parts.clock.now();
    let error = CallError { code, message: message.to_owned(), details: None };
    active.step(Event::Allow);
    active.end(without_program(Produced::Error(error), at, Duration::ZERO));
    active.commit().await
}
