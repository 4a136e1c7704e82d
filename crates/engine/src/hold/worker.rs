//! Rechecks of holds: when rules, tools or budgets change, when budgets are renewed, and from time to
//! time.
//!
//! Calls that policy allows now run, in their order within each session. Calls that waited too long
//! expire. Of several processes on one store one does this for all, by a duty; the others recheck only what
//! was asked of them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ringfence_store::{Error, Stored};
use ringfence_types::{Event, SessionId, TenantId, error_chain};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Recheck;
use crate::{active_call::ActiveCall, engine::Inner, pipeline, queue::Claim, recover};

/// Held calls that policy is asked about at one time; more would delay the decisions about new
/// calls.
const MAX_RECHECKS_AT_ONCE: usize = 8;

/// Rechecks held calls until the engine stops.
pub(crate) async fn run(inner: Arc<Inner>) {
    let mut tools = inner.parts.registry.changes();
    let mut rules = inner.parts.policy.changed();
    let mut duty = inner.parts.store.publishes();
    // Calls that were approved but not started when the server went down start now.
    let mut due = match *duty.borrow() {
        true => inner.rechecks.take_all(),
        false => Vec::new(),
    };
    let permits = Arc::new(Semaphore::new(MAX_RECHECKS_AT_ONCE));
    loop {
        look(&inner, &permits, due);
        if !*duty.borrow_and_update() {
            due = tokio::select! {
                () = inner.stopping.cancelled() => return,
                () = inner.rechecks.changed.notified() => inner.rechecks.take_all(),
                changed = duty.changed() => match changed {
                    Ok(()) => take_over(&inner).await,
                    Err(_) => return,
                },
            };
            continue;
        }
        due = tokio::select! {
            Ok(()) = duty.changed() => Vec::new(),
            () = inner.stopping.cancelled() => return,
            Ok(()) = tools.changed() => inner.rechecks.take_all(),
            Ok(()) = rules.changed() => inner.rechecks.take_all(),
            () = inner.rechecks.changed.notified() => inner.rechecks.take_all(),
            () = inner.rechecks.sooner.notified() => inner.rechecks.take(inner.parts.clock.now()),
            () = inner.budgets.renewed(inner.parts.clock.now()) => inner.rechecks.take_all(),
            () = next(&inner) => inner.rechecks.take(inner.parts.clock.now()),
        };
    }
}

/// Holds of all processes, when this one begins to recheck them; none if it does not.
async fn take_over(inner: &Arc<Inner>) -> Vec<Recheck> {
    if !*inner.parts.store.publishes().borrow() {
        return Vec::new();
    }
    if let Err(error) = recover::run(inner).await {
        let error = error_chain(&error);
        tracing::warn!(error, "held calls of other processes are not known yet");
    }
    inner.rechecks.take_all()
}

/// Commits per read.
const COMMITS_PER_READ: usize = 500;

/// Pause after a read that failed.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Learns of calls that other processes hold, while this process rechecks for all.
pub(crate) async fn follow(inner: Arc<Inner>) {
    if !inner.parts.store.is_shared() {
        return;
    }
    let (mut newest, duty) = (inner.parts.store.newest(), inner.parts.store.publishes());
    let mut after = *newest.borrow_and_update();
    loop {
        let changed = tokio::select! {
            () = inner.stopping.cancelled() => return,
            changed = newest.changed() => changed,
        };
        if changed.is_err() {
            return;
        }
        let known = *newest.borrow_and_update();
        if !*duty.borrow() {
            // Taking the duty over reads all that are held then.
            after = known;
            continue;
        }
        if let Err(error) = learn(&inner, &mut after).await {
            let error = error_chain(&error);
            tracing::warn!(error, "calls that other processes hold cannot be followed");
            newest.mark_changed();
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }
}

async fn learn(inner: &Inner, after: &mut u64) -> Result<(), Error> {
    loop {
        let commits = inner.parts.store.commits(*after, COMMITS_PER_READ).await?;
        let Some(last) = commits.last() else { return Ok(()) };
        *after = last.position;
        for call in commits.iter().map(|commit| &commit.call) {
            let is_known = inner.rechecks.has(call.asked.id);
            match call.hold() {
                Some(hold) if !is_known => {
                    let now = inner.parts.clock.now();
                    inner.rechecks.add(Recheck::from(&**call), now, hold.expires_at);
                }
                None if is_known => inner.rechecks.remove(call.asked.id),
                _ => {}
            }
        }
    }
}

/// Waits until the next hold is due.
async fn next(inner: &Inner) {
    match inner.rechecks.next() {
        Some(at) => tokio::time::sleep(at.since(inner.parts.clock.now())).await,
        None => std::future::pending().await,
    }
}

/// Calls by session; those of one session are rechecked one after the other.
type SessionLines = BTreeMap<(TenantId, Option<SessionId>, usize), Vec<Recheck>>;

fn look(inner: &Arc<Inner>, permits: &Arc<Semaphore>, due: Vec<Recheck>) {
    let mut lines = SessionLines::new();
    for (index, due) in due.into_iter().enumerate() {
        // Calls without a session are rechecked independently.
        let line = if due.session.is_some() { 0 } else { index + 1 };
        let key = (due.tenant.clone(), due.session.clone(), line);
        lines.entry(key).or_default().push(due);
    }
    for line in lines.into_values() {
        inner.tasks.spawn(go(inner.clone(), permits.clone(), line));
    }
}

async fn go(inner: Arc<Inner>, permits: Arc<Semaphore>, line: Vec<Recheck>) {
    for due in line {
        let look = tokio::select! {
            // The next start rechecks all of them.
            () = inner.stopping.cancelled() => return,
            look = permits.clone().acquire_owned() => look,
        };
        let Ok(look) = look else { return };
        inner.rechecks.begin(due.call);
        if let Some(stored) = held(&inner, &due).await {
            one(&inner, stored, look).await;
        }
    }
}

/// The call, if it is held and not in flight.
async fn held(inner: &Inner, due: &Recheck) -> Option<Stored> {
    if inner.in_flight.get(due.call).is_some() {
        inner.rechecks.recheck_later(due.call, inner.parts.clock.now());
        return None;
    }
    match inner.parts.store.call(&due.tenant, due.call).await {
        Ok(Some(stored)) if stored.call.hold().is_some() => Some(stored),
        Ok(_) => {
            inner.rechecks.remove(due.call);
            None
        }
        Err(error) => {
            let error = error_chain(&error);
            tracing::warn!(error, call_id = %due.call, "a held call could not be read");
            inner.rechecks.recheck_later(due.call, inner.parts.clock.now());
            None
        }
    }
}

async fn one(inner: &Arc<Inner>, stored: Stored, look: OwnedSemaphorePermit) {
    let now = inner.parts.clock.now();
    let (id, tool) = (stored.call.asked.id, stored.call.asked.tool.digest);
    if stored.call.hold().is_some_and(|hold| hold.expires_at <= now) {
        return expire(inner, stored).await;
    }
    let entry = inner.parts.registry.catalogue().by_digest(tool).cloned();
    match entry {
        Some(entry) => {
            let active = ActiveCall::from_record(inner.clone(), stored);
            pipeline::run(active, entry, Claim::WhenAllowed(Some(look))).await;
        }
        // The tool is gone, so the call cannot run: it waits to expire or to be discarded.
        None => inner.rechecks.recheck_later(id, now.after(Duration::from_secs(60))),
    }
}

async fn expire(inner: &Arc<Inner>, stored: Stored) {
    let id = stored.call.asked.id;
    let mut active = ActiveCall::for_one_step(inner.clone(), stored);
    active.step(Event::Expire);
    if let Err(error) = active.commit().await {
        let error = error_chain(&error);
        tracing::warn!(error, call_id = %id, "the end of a hold is not recorded yet");
        inner.rechecks.recheck_later(id, inner.parts.clock.now());
    }
}
