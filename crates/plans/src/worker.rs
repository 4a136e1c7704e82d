//! The worker: takes open plans that no living process drives, and drives them side by side.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use ringfence_types::{PlanId, TenantId, error_chain};
use tokio::task::JoinSet;

use crate::{Inner, driver};

/// Time between two looks for plans that other processes left or opened.
const CLAIM_INTERVAL: Duration = Duration::from_secs(1);

/// Drives plans until the server stops.
pub(crate) async fn run(inner: Arc<Inner>) {
    let (mut drivers, mut driven) = (JoinSet::<(TenantId, PlanId)>::new(), BTreeSet::new());
    loop {
        let free = inner.parts.config.running.saturating_sub(drivers.len());
        if free > 0 {
            match inner.engine().claim_plans(free).await {
                Ok(rows) => {
                    for row in rows {
                        // One that is driven here already reads its row again.
                        if driven.insert(row.id) {
                            spawn(&inner, &mut drivers, (row.tenant, row.id));
                        }
                    }
                }
                Err(error) => {
                    tracing::warn!(error = error_chain(&error), "plans cannot be taken");
                }
            }
        }
        inner.parts.metrics.driven(drivers.len());
        tokio::select! {
            Some(ended) = drivers.join_next() => {
                match ended {
                    Ok(plan) => {
                        // It may have been opened again while its driver left.
                        if is_left_open(&inner, &plan).await {
                            spawn(&inner, &mut drivers, plan);
                        } else {
                            driven.remove(&plan.1);
                        }
                    }
                    Err(error) => tracing::error!(%error, "the driver of a plan panicked"),
                }
            }
            () = inner.opened.notified() => {}
            () = tokio::time::sleep(CLAIM_INTERVAL) => {}
            () = inner.stopping.cancelled() => break,
        }
    }
    while drivers.join_next().await.is_some() {}
}

fn spawn(inner: &Arc<Inner>, drivers: &mut JoinSet<(TenantId, PlanId)>, plan: (TenantId, PlanId)) {
    let inner = inner.clone();
    drivers.spawn(async move {
        driver::drive(inner, plan.0.clone(), plan.1).await;
        plan
    });
}

/// Whether a plan belongs to this process and needs a driver.
async fn is_left_open(inner: &Inner, (tenant, id): &(TenantId, PlanId)) -> bool {
    if inner.stopping.is_cancelled() {
        return false;
    }
    match inner.engine().plan(tenant, *id).await {
        Ok(row) => row.is_some_and(|row| row.is_open && row.is_own),
        // Its driver waits for the store.
        Err(_) => true,
    }
}
