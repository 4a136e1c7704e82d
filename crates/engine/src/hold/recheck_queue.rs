//! Queue of held calls by the time of their next recheck.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ringfence_types::{Call, CallId, SessionId, TenantId, Timestamp};
use tokio::sync::Notify;
use uuid::Uuid;

/// Delay of the first recheck; each further delay is twice the one before.
const FIRST_RECHECK_DELAY: Duration = Duration::from_secs(5);
/// Maximum delay between two rechecks.
const MAX_RECHECK_DELAY: Duration = Duration::from_secs(600);

/// A held call whose recheck is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recheck {
    pub(crate) tenant: TenantId,
    pub(crate) session: Option<SessionId>,
    pub(crate) call: CallId,
}

impl From<&Call> for Recheck {
    fn from(call: &Call) -> Self {
        let asked = &call.asked;
        Self { tenant: asked.tenant.clone(), session: asked.session.clone(), call: asked.id }
    }
}

#[derive(Debug, Default)]
pub(crate) struct RecheckQueue {
    table: Mutex<RecheckTable>,
    /// Notified when a recheck may be due earlier than before.
    pub(crate) sooner: Notify,
    /// Notified when a change may concern every held call.
    pub(crate) changed: Notify,
}

#[derive(Debug, Default)]
struct RecheckTable {
    by_call: HashMap<CallId, Scheduled>,
    by_time: BTreeSet<(Timestamp, CallId)>,
    /// Held calls by session.
    by_session: HashMap<(TenantId, SessionId), BTreeSet<CallId>>,
}

#[derive(Debug)]
struct Scheduled {
    tenant: TenantId,
    session: Option<SessionId>,
    /// Taken for a recheck that has not begun.
    is_taken: bool,
    at: Timestamp,
    tries: u32,
    expires_at: Timestamp,
}

impl Scheduled {
    /// Session of the call.
    fn line(&self) -> Option<(TenantId, SessionId)> {
        Some((self.tenant.clone(), self.session.clone()?))
    }
}

impl RecheckQueue {
    fn lock(&self) -> MutexGuard<'_, RecheckTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a call that was held, or is still held after a recheck.
    pub(crate) fn add(&self, due: Recheck, now: Timestamp, expires_at: Timestamp) {
        let mut table = self.lock();
        let tries = table.remove(due.call).map_or(0, |place| place.tries + 1);
        let pause = FIRST_RECHECK_DELAY.saturating_mul(1 << tries.min(16)).min(MAX_RECHECK_DELAY);
        let at = now.after(pause).min(expires_at);
        table.by_time.insert((at, due.call));
        let Recheck { tenant, session, .. } = due;
        if let Some(session) = &session {
            let line = table.by_session.entry((tenant.clone(), session.clone())).or_default();
            line.insert(due.call);
        }
        let place = Scheduled { tenant, session, is_taken: false, at, tries, expires_at };
        table.by_call.insert(due.call, place);
        self.sooner.notify_one();
    }

    /// Whether a call waits here.
    pub(crate) fn has(&self, call: CallId) -> bool {
        self.lock().by_call.contains_key(&call)
    }

    /// Removes a call that is no longer held.
    pub(crate) fn remove(&self, call: CallId) {
        self.lock().remove(call);
    }

    /// Calls whose recheck is due, oldest first, each with the older ones of its session, so that a
    /// session's calls run in order. They stay queued until they are added again or removed, but
    /// are not due again before their recheck has begun.
    pub(crate) fn take(&self, now: Timestamp) -> Vec<Recheck> {
        let mut table = self.lock();
        // The smallest possible id.
        let first = CallId(Uuid::nil());
        let rest = table.by_time.split_off(&(now.after(Duration::from_micros(1)), first));
        let due = std::mem::replace(&mut table.by_time, rest);
        let due: Vec<_> = due.into_iter().map(|(_, call)| call).collect();
        let older: Vec<_> = due.iter().flat_map(|call| table.take_older(*call)).collect();
        table.named([due, older].concat())
    }

    /// All held calls, oldest first, after a change that may concern any of them.
    pub(crate) fn take_all(&self) -> Vec<Recheck> {
        let mut table = self.lock();
        table.by_time.clear();
        let calls = table.by_call.keys().copied().collect();
        table.named(calls)
    }

    /// Marks the recheck of a call as begun: a change from here on makes it due again.
    pub(crate) fn begin(&self, call: CallId) {
        if let Some(place) = self.lock().by_call.get_mut(&call) {
            place.is_taken = false;
        }
    }

    /// Postpones a recheck that could not be done.
    pub(crate) fn recheck_later(&self, call: CallId, now: Timestamp) {
        let mut table = self.lock();
        let Some(place) = table.by_call.get_mut(&call) else { return };
        place.at = now
            .after(FIRST_RECHECK_DELAY)
            .min(place.expires_at.max(now.after(FIRST_RECHECK_DELAY)));
        let at = place.at;
        table.by_time.insert((at, call));
        self.sooner.notify_one();
    }

    /// Makes a call due now.
    pub(crate) fn recheck_now(&self, call: CallId, now: Timestamp) {
        let mut table = self.lock();
        let Some(place) = table.by_call.get_mut(&call) else { return };
        let before = std::mem::replace(&mut place.at, now);
        table.by_time.remove(&(before, call));
        table.by_time.insert((now, call));
        self.sooner.notify_one();
    }

    /// Time of the next recheck.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.lock().by_time.first().map(|(at, _)| *at)
    }
}

impl RecheckTable {
    fn remove(&mut self, call: CallId) -> Option<Scheduled> {
        let place = self.by_call.remove(&call)?;
        self.by_time.remove(&(place.at, call));
        if let Some(line) = place.line()
            && let Some(calls) = self.by_session.get_mut(&line)
        {
            calls.remove(&call);
            if calls.is_empty() {
                self.by_session.remove(&line);
            }
        }
        Some(place)
    }

    /// The older calls of the same session, which are rechecked first even if they are due later.
    fn take_older(&mut self, call: CallId) -> Vec<CallId> {
        let line = self.by_call.get(&call).and_then(Scheduled::line);
        let Some(calls) = line.and_then(|line| self.by_session.get(&line)) else {
            return Vec::new();
        };
        let older: Vec<_> = calls.range(..call).copied().collect();
        for one in &older {
            if let Some(place) = self.by_call.get(one) {
                self.by_time.remove(&(place.at, *one));
            }
        }
        older
    }

    /// Marks these calls as taken and returns those that were not.
    fn named(&mut self, mut calls: Vec<CallId>) -> Vec<Recheck> {
        calls.sort();
        calls.dedup();
        let due = |call: CallId| {
            let place = self.by_call.get_mut(&call)?;
            let is_taken = std::mem::replace(&mut place.is_taken, true);
            let (tenant, session) = (place.tenant.clone(), place.session.clone());
            (!is_taken).then_some(Recheck { tenant, session, call })
        };
        calls.into_iter().filter_map(due).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_micros(0).after(Duration::from_secs(secs))
    }

    fn due(number: u128) -> Recheck {
        let (tenant, call) = ("t".parse().unwrap(), CallId(Uuid::from_u128(number)));
        Recheck { tenant, session: None, call }
    }

    #[test]
    fn pauses_double_up_to_a_bound_and_end_with_the_hold() {
        let rechecks = RecheckQueue::default();
        let mut now = at(0);
        let mut pauses = Vec::new();
        for _ in 0..9 {
            rechecks.add(due(1), now, at(100_000));
            let next = rechecks.next().unwrap();
            pauses.push(next.since(now).as_secs());
            now = next;
            assert_eq!(rechecks.take(now), [due(1)]);
        }
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 320, 600, 600]);
        rechecks.add(due(2), now, now.after(Duration::from_secs(2)));
        assert_eq!(rechecks.next(), Some(now.after(Duration::from_secs(2))));
    }

    #[test]
    fn what_is_not_held_is_forgotten_and_order_is_that_of_the_calls() {
        let rechecks = RecheckQueue::default();
        for number in [3, 1, 2] {
            rechecks.add(due(number), at(0), at(99));
        }
        rechecks.remove(due(2).call);
        assert_eq!(rechecks.take(at(4)), []);
        assert_eq!(rechecks.take_all(), [due(1), due(3)]);
        assert_eq!(rechecks.next(), None, "being looked at");
        assert_eq!(rechecks.take_all(), [], "taken calls are rechecked after the change anyway");
        rechecks.begin(due(1).call);
        assert_eq!(rechecks.take_all(), [due(1)], "but not what changes from now on");
        rechecks.recheck_later(due(3).call, at(10));
        assert_eq!(rechecks.next(), Some(at(15)));
        rechecks.remove(due(3).call);
        assert_eq!(rechecks.next(), None);
    }

    #[test]
    fn older_calls_of_a_session_are_looked_at_first_whenever_they_are_due() {
        let rechecks = RecheckQueue::default();
        let session = |number| Recheck { session: Some("s".parse().unwrap()), ..due(number) };
        for number in [1, 2] {
            rechecks.add(session(number), at(0), at(999));
        }
        rechecks.take_all();
        // The older call was rechecked more often, so it is due later.
        for (number, now) in [(1, 5), (1, 6), (1, 7), (2, 8)] {
            rechecks.begin(due(number).call);
            rechecks.add(session(number), at(now), at(999));
        }
        rechecks.add(due(3), at(0), at(999));
        assert_eq!(rechecks.take(at(20)), [session(1), session(2), due(3)]);
        assert_eq!(rechecks.next(), None);
        for number in [1, 2, 3] {
            rechecks.remove(due(number).call);
        }
        assert!(rechecks.lock().by_session.is_empty());
    }
}
