//! One lock per held call, for the deciders of this process.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use ringfence_types::CallId;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

type LockTable = HashMap<CallId, Arc<AsyncMutex<()>>>;

#[derive(Debug, Default)]
pub(crate) struct HoldLocks {
    table: Mutex<LockTable>,
}

/// Exclusive right to decide about a call; the next decider waits until it is dropped.
#[derive(Debug)]
pub(crate) struct HoldLock<'a> {
    locks: &'a HoldLocks,
    call: CallId,
    guard: Option<OwnedMutexGuard<()>>,
}

impl HoldLocks {
    pub(crate) async fn of(&self, call: CallId) -> HoldLock<'_> {
        let lock = self.with(|table| table.entry(call).or_default().clone());
        let guard = Some(lock.lock_owned().await);
        HoldLock { locks: self, call, guard }
    }

    fn with<T>(&self, act: impl FnOnce(&mut LockTable) -> T) -> T {
        act(&mut self.table.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for HoldLock<'_> {
    fn drop(&mut self) {
        self.guard.take();
        self.locks.with(|table| {
            // One more reference than the table's own means that another decider waits.
            if table.get(&self.call).is_some_and(|lock| Arc::strong_count(lock) == 1) {
                table.remove(&self.call);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn the_second_waits_and_nothing_is_left() {
        let locks = HoldLocks::default();
        let call = CallId(Uuid::now_v7());
        let first = locks.of(call).await;
        let mut second = Box::pin(locks.of(call));
        let waits = tokio::select! {
            biased;
            _ = &mut second => false,
            () = std::future::ready(()) => true,
        };
        assert!(waits);
        let _other = locks.of(CallId(Uuid::now_v7())).await;
        drop(first);
        drop(second.await);
        drop(_other);
        assert!(locks.with(|table| table.is_empty()));
    }
}
