//! Connections whose clients have shown no key yet, so that some can be closed to make room.
//!
//! A connection may be closed while no request of it is being answered and its last one, if there was
//! one, carried no valid key. Those that never sent a whole header go first, the oldest of them before the others.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use tokio_util::sync::CancellationToken;

/// Connections that may be closed.
#[derive(Debug, Default)]
pub(crate) struct Unauthenticated {
    /// By whether the connection ever sent a whole header, then by age.
    closable: Mutex<BTreeMap<(bool, u64), CancellationToken>>,
    next: AtomicU64,
}

impl Unauthenticated {
    /// A new connection.
    pub(crate) fn enter(self: &Arc<Self>) -> Connection {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let connection = Connection {
            all: Arc::clone(self),
            number,
            closing: CancellationToken::new(),
            has_sent_header: AtomicBool::new(false),
        };
        connection.wait();
        connection
    }

    /// Closes the connection that has the least claim to stay; `false` if all have shown a key or are
    /// being answered.
    pub(crate) fn close_one(&self) -> bool {
        let Some((_, closing)) = self.lock().pop_first() else { return false };
        closing.cancel();
        true
    }

    /// Nothing under the lock can panic half-way, so a poisoned lock is as good as any.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(bool, u64), CancellationToken>> {
        self.closable.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    all: Arc<Unauthenticated>,
    number: u64,
    closing: CancellationToken,
    has_sent_header: AtomicBool,
}

impl Connection {
    /// A whole header came: the connection stays until the request is answered.
    pub(crate) fn request_began(&self) {
        self.leave();
        self.has_sent_header.store(true, Ordering::Relaxed);
    }

    /// The request was answered. Without a valid key the connection may be closed again.
    pub(crate) fn request_ended(&self, is_authenticated: bool) {
        if !is_authenticated {
            self.wait();
        }
    }

    /// Whether a whole header ever came.
    pub(crate) fn has_sent_header(&self) -> bool {
        self.has_sent_header.load(Ordering::Relaxed)
    }

    /// Waits until the connection is to be closed to make room.
    pub(crate) async fn closed(&self) {
        self.closing.cancelled().await;
    }

    fn key(&self) -> (bool, u64) {
        (self.has_sent_header(), self.number)
    }

    fn wait(&self) {
        self.all.lock().insert(self.key(), self.closing.clone());
    }

    fn leave(&self) {
        self.all.lock().remove(&self.key());
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_without_a_header_goes_first_and_one_with_a_key_never() {
        let all = Arc::<Unauthenticated>::default();
        let made: Vec<_> = (0..5).map(|_| all.enter()).collect();
        let [asked, known, busy, silent, late] = made.as_slice() else { panic!("five were made") };
        asked.request_began();
        asked.request_ended(false);
        known.request_began();
        known.request_ended(true);
        busy.request_began();
        let closed = |connection: &Connection| connection.closing.is_cancelled();
        assert!(all.close_one() && closed(silent) && !closed(late));
        assert!(all.close_one() && closed(late) && !closed(asked));
        assert!(all.close_one() && closed(asked));
        assert!(!all.close_one() && !closed(known) && !closed(busy));
        busy.request_ended(false);
        assert!(all.close_one() && closed(busy));
        drop(made);
        assert!(all.lock().is_empty());
    }
}
