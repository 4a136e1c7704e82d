//! From a permit to running work. The permit is consumed here: one permit, one run.

use std::{sync::Arc, time::Duration};

use ringfence_policy::Permit;
use ringfence_registry::Entry;
use ringfence_types::{ErrorCode, Produced};

pub(crate) use crate::runners::{Started, Work, without_program};
use crate::{
    active_call::ActiveCall,
    obligations,
    runners::{self, Job, ended, failure},
};

/// Starts the work that the permit allows.
pub(crate) async fn start(active: &ActiveCall, entry: &Arc<Entry>, permit: Permit) -> Started {
    let started_at = active.inner.parts.clock.now();
    if !is_for(&permit, active) {
        let message = "the permit is for another tool or other arguments".to_owned();
        return ended(failure(ErrorCode::PermitMismatch, message, started_at));
    }
    if let Err(error) = obligations::check(&active.inner, entry, permit.obligations()) {
        return ended(without_program(Produced::Error(error), started_at, Duration::ZERO));
    }
    runners::of(entry).start(permit, Job::new(active, entry, started_at)).await
}

pub(crate) fn is_for(permit: &Permit, active: &ActiveCall) -> bool {
    let asked = active.asked();
    permit.call() == asked.id
        && permit.tool() == asked.tool.digest
        && permit.args() == active.call.args_digest()
}
