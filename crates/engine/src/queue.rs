//! Queue of calls for places: a bounded number runs at once, overall and per tenant, and tenants
//! take turns.
//!
//! A tenant that floods fills only its own line: the next free place goes to the tenant that has
//! waited longest for one, not to the longest line.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ringfence_types::TenantId;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::{Settings, cause::Loan};

/// Bounds on running and waiting calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) running: usize,
    pub(crate) running_per_tenant: usize,
    pub(crate) waiting: usize,
    pub(crate) waiting_per_tenant: usize,
}

impl Bounds {
    pub(crate) fn of(settings: &Settings) -> Self {
        let (waiting, waiting_per_tenant) = (settings.waiting, settings.waiting_per_tenant);
        match settings.role.runs_calls() {
            true => Self {
                running: settings.running,
                running_per_tenant: settings.running_per_tenant,
                waiting,
                waiting_per_tenant,
            },
            // They run elsewhere: as many are left to others as would wait here.
            false => Self {
                running: waiting,
                running_per_tenant: waiting_per_tenant,
                waiting: 0,
                waiting_per_tenant: 0,
            },
        }
    }
}

/// The queue in front of the sandboxes.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    shared: Arc<Shared>,
}

/// The queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

/// The right to one of the places for running calls; dropping it passes the place on.
#[derive(Debug)]
pub(crate) struct Turn {
    /// None for a call that runs beside the queue and takes no place.
    place: Option<(Arc<Shared>, TenantId)>,
}

impl Turn {
    fn of(shared: &Arc<Shared>, tenant: TenantId) -> Self {
        Self { place: Some((shared.clone(), tenant)) }
    }

    /// Whether it takes one of the bounded places.
    pub(crate) const fn is_in_line(&self) -> bool {
        self.place.is_some()
    }
}

/// A position in the queue: a turn, or the wait for one.
#[derive(Debug)]
pub(crate) enum Place {
    Now(Turn),
    Later(oneshot::Receiver<Turn>),
}

impl Place {
    /// For a call that takes no place.
    pub(crate) fn beside() -> Self {
        Self::Now(Turn { place: None })
    }
}

/// The way in which a call gets its place.
#[derive(Debug)]
pub(crate) enum Claim {
    /// It has one: a full queue refuses a call before policy is asked.
    Made(Place),
    /// It was held, and joins the queue once policy allows it: a held call takes no place. Until
    /// then it may hold a permit of the recheck worker.
    WhenAllowed(Option<OwnedSemaphorePermit>),
    /// It runs in the place of the call that made it.
    Lent(Loan),
}

/// The place that a call runs in, for as long as it runs.
#[derive(Debug)]
pub(crate) struct Seat {
    /// Its own place, or that of the topmost call above it.
    pub(crate) place: Arc<Turn>,
    /// Permits of the parent's and the topmost call's limits on children.
    _lent: Option<(OwnedSemaphorePermit, OwnedSemaphorePermit)>,
}

impl Seat {
    pub(crate) fn own(turn: Turn) -> Self {
        Self { place: Arc::new(turn), _lent: None }
    }

    /// Waits while the parent has its maximum of running children; `None` once the parent has
    /// ended.
    pub(crate) async fn lent(loan: Loan) -> Option<Self> {
        let child = loan.children.acquire_owned().await.ok()?;
        Some(Self { place: loan.place, _lent: Some((child, loan.descendant)) })
    }
}

#[derive(Debug)]
struct Shared {
    bounds: Bounds,
    lines: Mutex<Lines>,
}

#[derive(Debug, Default)]
struct Lines {
    running: usize,
    waiting: usize,
    tenants: HashMap<TenantId, Line>,
    /// Tenants with waiting calls, each once, the next to be served in front.
    round: VecDeque<TenantId>,
}

#[derive(Debug, Default)]
struct Line {
    running: usize,
    waiting: VecDeque<oneshot::Sender<Turn>>,
}

impl Queue {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self { shared: Arc::new(Shared { bounds, lines: Mutex::default() }) }
    }

    /// Takes a free place, or joins the tenant's line.
    pub(crate) fn join(&self, tenant: &TenantId) -> Result<Place, Full> {
        let bounds = self.shared.bounds;
        let mut lines = self.shared.lock();
        let free = lines.running < bounds.running;
        let line = lines.tenants.entry(tenant.clone()).or_default();
        if free && line.waiting.is_empty() && line.running < bounds.running_per_tenant {
            line.running += 1;
            lines.running += 1;
            return Ok(Place::Now(Turn::of(&self.shared, tenant.clone())));
        }
        let line_is_full = line.waiting.len() >= bounds.waiting_per_tenant;
        if line_is_full || lines.waiting >= bounds.waiting {
            lines.forget_if_idle(tenant);
            return Err(Full);
        }
        Ok(Place::Later(lines.wait(tenant)))
    }

    /// Number of places that no call has or waits for.
    pub(crate) fn free(&self) -> usize {
        let (running, waiting) = self.load();
        self.shared.bounds.running.saturating_sub(running + waiting)
    }

    /// A place for a call that was accepted before and cannot be refused any more.
    pub(crate) fn rejoin(&self, tenant: &TenantId) -> Place {
        self.join(tenant).unwrap_or_else(|Full| Place::Later(self.shared.lock().wait(tenant)))
    }

    /// Numbers of running and waiting calls.
    pub(crate) fn load(&self) -> (usize, usize) {
        let lines = self.shared.lock();
        (lines.running, lines.waiting)
    }
}

impl Lines {
    fn wait(&mut self, tenant: &TenantId) -> oneshot::Receiver<Turn> {
        let (give, take) = oneshot::channel();
        let line = self.tenants.entry(tenant.clone()).or_default();
        if line.waiting.is_empty() {
            self.round.push_back(tenant.clone());
        }
        line.waiting.push_back(give);
        self.waiting += 1;
        take
    }

    fn forget_if_idle(&mut self, tenant: &TenantId) {
        if self.tenants.get(tenant).is_some_and(|l| l.running == 0 && l.waiting.is_empty()) {
            self.tenants.remove(tenant);
        }
    }

    /// The first waiting call of the next tenant that may run one more.
    fn next(&mut self, bounds: Bounds) -> Option<(TenantId, oneshot::Sender<Turn>)> {
        if self.running >= bounds.running {
            return None;
        }
        let may_run = |tenant: &TenantId| {
            self.tenants.get(tenant).is_some_and(|line| line.running < bounds.running_per_tenant)
        };
        let position = self.round.iter().position(may_run)?;
        let tenant = self.round.remove(position)?;
        let line = self.tenants.get_mut(&tenant)?;
        let give = line.waiting.pop_front()?;
        line.running += 1;
        if !line.waiting.is_empty() {
            self.round.push_back(tenant.clone());
        }
        self.running += 1;
        self.waiting -= 1;
        Some((tenant, give))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(self: &Arc<Self>, tenant: &TenantId) {
        let mut lines = self.lock();
        lines.running -= 1;
        if let Some(line) = lines.tenants.get_mut(tenant) {
            line.running -= 1;
        }
        lines.forget_if_idle(tenant);
        let next = lines.next(self.bounds);
        drop(lines);
        if let Some((tenant, give)) = next {
            // A receiver that stopped waiting drops the turn, which passes it on.
            drop(give.send(Turn::of(self, tenant)));
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some((shared, tenant)) = &self.place {
            shared.leave(tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> TenantId {
        name.parse().unwrap()
    }

    fn queue(running: usize, running_per_tenant: usize, waiting_per_tenant: usize) -> Queue {
        Queue::new(Bounds { running, running_per_tenant, waiting: 1_000, waiting_per_tenant })
    }

    fn now(place: Result<Place, Full>) -> Turn {
        match place {
            Ok(Place::Now(turn)) => turn,
            other => panic!("expected a turn, got {other:?}"),
        }
    }

    fn later(place: Result<Place, Full>) -> oneshot::Receiver<Turn> {
        match place {
            Ok(Place::Later(turn)) => turn,
            other => panic!("expected a place in the line, got {other:?}"),
        }
    }

    #[test]
    fn a_tenant_that_floods_does_not_starve_another() {
        let queue = queue(1, 1, 100);
        let mut turn = now(queue.join(&tenant("flood")));
        let mut flood: VecDeque<_> = (0..50).map(|_| later(queue.join(&tenant("flood")))).collect();
        let mut calm = later(queue.join(&tenant("calm")));
        let mut served = 0;
        loop {
            drop(turn);
            if let Ok(mine) = calm.try_recv() {
                drop(mine);
                break;
            }
            turn = flood.pop_front().unwrap().try_recv().unwrap();
            served += 1;
        }
        assert!(served <= 1, "{served} of the flood came first");
    }

    #[test]
    fn bounds_hold_per_tenant_and_overall() {
        let queue = queue(3, 2, 1);
        let _a = [now(queue.join(&tenant("a"))), now(queue.join(&tenant("a")))];
        let _waits = later(queue.join(&tenant("a")));
        assert!(matches!(queue.join(&tenant("a")), Err(Full)));
        let _b = now(queue.join(&tenant("b")));
        let _c = later(queue.join(&tenant("c")));
        assert_eq!(queue.load(), (3, 2));
    }

    #[test]
    fn a_waiter_that_gave_up_is_passed_over_and_nothing_is_lost() {
        let queue = queue(1, 1, 10);
        let turn = now(queue.join(&tenant("a")));
        drop(later(queue.join(&tenant("a"))));
        drop(later(queue.join(&tenant("b"))));
        let mut last = later(queue.join(&tenant("c")));
        drop(turn);
        let last = last.try_recv().expect("those before it are gone");
        assert_eq!(queue.load(), (1, 0));
        drop(last);
        assert_eq!(queue.load(), (0, 0));
        assert!(queue.shared.lock().tenants.is_empty());
    }

    #[test]
    fn a_tenant_at_its_bound_does_not_block_the_line_behind_it() {
        let queue = queue(2, 1, 10);
        let _a = now(queue.join(&tenant("a")));
        let b = now(queue.join(&tenant("b")));
        let mut second_a = later(queue.join(&tenant("a")));
        let mut second_b = later(queue.join(&tenant("b")));
        drop(b);
        assert!(second_a.try_recv().is_err());
        assert!(second_b.try_recv().is_ok());
    }
}
