//! New ids for calls and approvals: unique, and sorted by their creation time.

use std::sync::Mutex;

use ringfence_types::{ApprovalId, CallId, Timestamp};
use uuid::{ContextV7, Uuid};

/// Generator of ids.
#[derive(Debug)]
pub(crate) struct Ids {
    /// Counts within one millisecond, so that ids of the same millisecond sort by order of
    /// creation.
    context: Mutex<ContextV7>,
}

impl Ids {
    pub(crate) fn new() -> Self {
        Self { context: Mutex::new(ContextV7::new()) }
    }

    pub(crate) fn call(&self, now: Timestamp) -> CallId {
        CallId(self.next(now))
    }

    pub(crate) fn approval(&self, now: Timestamp) -> ApprovalId {
        ApprovalId(self.next(now))
    }

    fn next(&self, now: Timestamp) -> Uuid {
        let micros = u64::try_from(now.as_micros()).unwrap_or(0);
        let nanos = (micros % 1_000_000) as u32 * 1_000;
        let context = self.context.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let at = uuid::Timestamp::from_unix(&*context, micros / 1_000_000, nanos);
        Uuid::new_v7(at)
    }
}
