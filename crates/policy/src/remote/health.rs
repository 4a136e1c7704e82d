//! Health of a remote engine, as observed from its answers.
//!
//! There are two kinds of failure. A failed *connection* costs time, so after a few consecutive
//! failures the engine is not asked until a probe succeeds: one dead engine must not make every call
//! wait for its timeout. A *malformed* answer came in time and may concern one document only, so it
//! does not stop other questions.
//!
//! Invariant: a subscriber is notified after the engine has recovered.

use std::{
    error::Error,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use tokio::sync::{Notify, watch};

use crate::{State, Unavailable};

/// Consecutive connection failures after which the engine is not asked.
const MAX_CONNECTION_FAILURES: u32 = 3;

/// Health of one engine.
#[derive(Debug)]
pub(super) struct Health {
    /// Consecutive connection failures.
    failures: AtomicU32,
    /// Last failure, until an answer is understood.
    trouble: Mutex<Option<String>>,
    /// Notification that a failure occurred.
    pub(super) began: Notify,
    /// Notification that the remote rules changed.
    pub(super) other_rules: Notify,
    changes: watch::Sender<u64>,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            failures: AtomicU32::new(0),
            trouble: Mutex::new(None),
            began: Notify::new(),
            other_rules: Notify::new(),
            changes: watch::Sender::new(0),
        }
    }
}

impl Health {
    pub(super) fn is_down(&self) -> bool {
        self.failures.load(Relaxed) >= MAX_CONNECTION_FAILURES
    }

    /// Whether there was a failure without a later success.
    pub(super) fn is_troubled(&self) -> bool {
        self.with(|trouble| trouble.is_some())
    }

    /// Whether the last use of the connection succeeded.
    pub(super) fn has_line(&self) -> bool {
        self.failures.load(Relaxed) == 0
    }

    /// Records an answer that was understood.
    pub(super) fn answered(&self) {
        self.failures.store(0, Relaxed);
        // The probe sees it and notifies the subscribers, at its own rate.
        if self.is_troubled() {
            self.with(|trouble| *trouble = None);
        }
    }

    /// Records a missing or late answer.
    pub(super) fn line_failed(&self, unavailable: &Unavailable) {
        let failures = self.failures.fetch_add(1, Relaxed).saturating_add(1);
        if failures == MAX_CONNECTION_FAILURES {
            tracing::warn!(error = %words(unavailable), "a policy engine is not asked until it is back");
        }
        self.note(unavailable);
    }

    /// Records a malformed answer.
    pub(super) fn not_understood(&self, unavailable: &Unavailable) {
        self.failures.store(0, Relaxed);
        self.note(unavailable);
    }

    /// Records a successful probe after connection failures.
    pub(super) fn line_works(&self) {
        self.failures.store(0, Relaxed);
        self.with(|trouble| *trouble = None);
    }

    pub(super) fn tick(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    pub(super) fn changed(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(super) fn state(&self) -> (State, Option<String>) {
        let trouble = self.with(|trouble| trouble.clone());
        match (self.is_down(), &trouble) {
            (true, _) => (State::Down, trouble),
            (false, Some(_)) => (State::Troubled, trouble),
            (false, None) => (State::Well, None),
        }
    }

    fn note(&self, unavailable: &Unavailable) {
        self.with(|trouble| *trouble = Some(words(unavailable)));
        self.began.notify_one();
    }

    fn with<T>(&self, act: impl FnOnce(&mut Option<String>) -> T) -> T {
        act(&mut self.trouble.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn words(unavailable: &Unavailable) -> String {
    match unavailable.source() {
        Some(cause) => format!("{unavailable}: {cause}"),
        None => unavailable.to_string(),
    }
}
