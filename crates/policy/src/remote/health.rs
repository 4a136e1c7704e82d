//! How an engine elsewhere is, as far as its answers show.
//!
//! Two kinds of trouble are told apart. A *line* that fails costs time, so after a few failures in a
//! row nobody asks until a probe got through: one dead engine must not make every call wait for its
//! timeout. An answer that is *not understood* came in time and may be about one document, so it
//! keeps nobody else from asking.
//!
//! Invariant: whoever waits for a tick gets one after the engine is well again.

use std::{
    error::Error,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use tokio::sync::{Notify, watch};

use crate::{State, Unavailable};

/// Failures of the line in a row before nobody asks any more.
const ENOUGH: u32 = 3;

/// What is known of an engine.
#[derive(Debug)]
pub(super) struct Health {
    /// Failures of the line since it last worked.
    failures: AtomicU32,
    /// The last trouble, until an answer is understood.
    trouble: Mutex<Option<String>>,
    /// Trouble began.
    pub(super) began: Notify,
    /// The rules there are others than before.
    pub(super) other_rules: Notify,
    ticks: watch::Sender<u64>,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            failures: AtomicU32::new(0),
            trouble: Mutex::new(None),
            began: Notify::new(),
            other_rules: Notify::new(),
            ticks: watch::Sender::new(0),
        }
    }
}

impl Health {
    pub(super) fn is_down(&self) -> bool {
        self.failures.load(Relaxed) >= ENOUGH
    }

    /// Whether something was wrong that was not put right since.
    pub(super) fn is_troubled(&self) -> bool {
        self.with(|trouble| trouble.is_some())
    }

    /// Whether the line worked when it was last used.
    pub(super) fn has_line(&self) -> bool {
        self.failures.load(Relaxed) == 0
    }

    /// An answer came and was understood.
    pub(super) fn answered(&self) {
        self.failures.store(0, Relaxed);
        // The probe sees it and ticks: it knows how often it may.
        if self.is_troubled() {
            self.with(|trouble| *trouble = None);
        }
    }

    /// Nothing came, or not in time.
    pub(super) fn line_failed(&self, unavailable: &Unavailable) {
        let failures = self.failures.fetch_add(1, Relaxed).saturating_add(1);
        if failures == ENOUGH {
            tracing::warn!(error = %words(unavailable), "a policy engine is not asked until it is back");
        }
        self.note(unavailable);
    }

    /// Something came that is no answer.
    pub(super) fn not_understood(&self, unavailable: &Unavailable) {
        self.failures.store(0, Relaxed);
        self.note(unavailable);
    }

    /// A probe got through after the line had failed.
    pub(super) fn line_works(&self) {
        self.failures.store(0, Relaxed);
        self.with(|trouble| *trouble = None);
    }

    pub(super) fn tick(&self) {
        self.ticks.send_modify(|count| *count += 1);
    }

    pub(super) fn changed(&self) -> watch::Receiver<u64> {
        self.ticks.subscribe()
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
