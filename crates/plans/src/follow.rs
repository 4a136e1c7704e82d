//! Following a plan: its stored events after a number, then new ones as they come.

use std::{collections::VecDeque, time::Duration};

use ringfence_engine::data::{PlanEvent, StoreError};
use ringfence_types::{PlanId, TenantId};
use tokio::sync::broadcast;

use crate::{Plans, driver};

/// Events of one read.
const EVENTS_PER_READ: usize = 100;
/// Time after which the store is read again for events of other processes.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Reader of the events of one plan.
#[derive(Debug)]
pub struct Follow {
    plans: Plans,
    tenant: TenantId,
    id: PlanId,
    after: u64,
    changed: broadcast::Receiver<(TenantId, PlanId)>,
    ready: VecDeque<(u64, PlanEvent)>,
}

impl Plans {
    /// Events of a plan after a number.
    pub fn follow(&self, tenant: &TenantId, id: PlanId, after: u64) -> Follow {
        let changed = self.inner.changed.subscribe();
        let (plans, tenant) = (self.clone(), tenant.clone());
        Follow { plans, tenant, id, after, changed, ready: VecDeque::new() }
    }
}

impl Follow {
    /// The next event with its number; waits for it. Cancelling the wait loses nothing.
    pub async fn next(&mut self) -> Result<(u64, PlanEvent), StoreError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(event);
            }
            let engine = self.plans.inner.engine();
            let found =
                engine.plan_events(&self.tenant, self.id, self.after, EVENTS_PER_READ).await?;
            if let Some((number, _)) = found.last() {
                self.after = *number;
                self.ready.extend(found);
                continue;
            }
            let announced = driver::changed(&mut self.changed, &self.tenant, self.id);
            let _ = tokio::time::timeout(POLL_INTERVAL, announced).await;
        }
    }
}
