//! The writing side of an execution: it never waits for the reading side. Output beyond its cap
//! leaves a gap; events beyond theirs are dropped and counted.
//!
//! Output and events come on different ways. A driver lets all output out before it says anything,
//! and we take all output before we note an event, so an event never comes before output that was
//! written before it. Output written right after it may overtake it.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::Notify;

use super::{Event, Raised, Rich, Status};
use crate::output::Output;

/// Events that may wait for a reader, and their bytes.
pub(super) const MOST_EVENTS: usize = 4096;
pub(super) const MOST_BYTES: usize = 32 << 20;

/// Results that a summary keeps, and their bytes.
const MAX_SUMMARY_RESULTS: usize = 64;
const MAX_SUMMARY_BYTES: usize = 1 << 20;

/// What an execution came to, apart from its output.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// How it ended.
    pub status: Status,
    /// How many executions there were since the interpreter started or was reset.
    pub count: u64,
    /// What it raised.
    pub error: Option<Raised>,
    /// The first values it showed and came to.
    pub results: Vec<Rich>,
    /// Values beyond those that are kept.
    pub results_dropped: u64,
}

/// The side that is written, shared with the one [`Execution`] that reads it.
#[derive(Debug)]
pub(super) struct EventLog {
    pub(super) stdout: Output,
    pub(super) stderr: Output,
    queue: Mutex<Queue>,
    pub(super) changed: Notify,
    finished: Notify,
    is_interrupted: AtomicBool,
    is_cancelled: AtomicBool,
    interrupt: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<Item>,
    bytes: usize,
    dropped: u64,
    is_finished: bool,
    summary: Kept,
}

/// What the summary will say, so far.
#[derive(Debug, Default)]
struct Kept {
    end: Option<(Status, u64)>,
    error: Option<Raised>,
    results: Vec<Rich>,
    bytes: usize,
    dropped: u64,
}

impl Kept {
    fn note(&mut self, event: &Event, bytes: usize) {
        match event {
            Event::Result(rich) => {
                let has_room = self.results.len() < MAX_SUMMARY_RESULTS
                    && self.bytes + bytes <= MAX_SUMMARY_BYTES;
                if has_room {
                    self.results.push(rich.clone());
                    self.bytes += bytes;
                } else {
                    self.dropped += 1;
                }
            }
            Event::Error(raised) => self.error = Some(raised.clone()),
            _ => {}
        }
    }

    fn summary(&self) -> Option<Summary> {
        let (status, count) = self.end?;
        let (error, results) = (self.error.clone(), self.results.clone());
        Some(Summary { status, count, error, results, results_dropped: self.dropped })
    }
}

/// An event and how much output came before it.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) event: Event,
    pub(super) stdout: u64,
    pub(super) stderr: u64,
    bytes: usize,
}

impl EventLog {
    pub(super) fn new(cap: u64) -> Self {
        Self {
            stdout: Output::new(cap),
            stderr: Output::new(cap),
            queue: Mutex::new(Queue::default()),
            changed: Notify::new(),
            finished: Notify::new(),
            is_interrupted: AtomicBool::new(false),
            is_cancelled: AtomicBool::new(false),
            interrupt: Notify::new(),
        }
    }

    /// The code runs; its output is told from now on.
    pub(super) fn start(&self, fresh: bool) {
        let event = Event::Started { fresh };
        self.lock().items.push_back(Item { event, stdout: 0, stderr: 0, bytes: 0 });
        self.changed.notify_one();
    }

    /// Adds an event of about this size, after all output so far.
    pub(super) fn push(&self, event: Event, bytes: usize) {
        let mut queue = self.lock();
        queue.summary.note(&event, bytes);
        if queue.items.len() >= MOST_EVENTS || queue.bytes + bytes > MOST_BYTES {
            queue.dropped += 1;
            return;
        }
        self.add(&mut queue, event, bytes);
    }

    /// The last event; there is always room for it.
    pub(super) fn finish(&self, status: Status, count: u64) {
        let mut queue = self.lock();
        if queue.is_finished {
            return;
        }
        if queue.dropped > 0 {
            let events = queue.dropped;
            self.add(&mut queue, Event::Dropped { events }, 0);
        }
        self.add(&mut queue, Event::Done { status, count }, 0);
        queue.is_finished = true;
        queue.summary.end = Some((status, count));
        self.stdout.close();
        self.stderr.close();
        self.finished.notify_waiters();
    }

    /// Waits for the end.
    pub(super) async fn summary(&self) -> Summary {
        loop {
            let finished = self.finished.notified();
            tokio::pin!(finished);
            // Registers before looking, so that an end in between is not missed.
            finished.as_mut().enable();
            if let Some(summary) = self.lock().summary.summary() {
                return summary;
            }
            finished.await;
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.lock().is_finished
    }

    /// Asks for the end of this execution, now or as soon as it begins.
    pub(super) fn interrupt(&self) {
        self.is_interrupted.store(true, Ordering::Release);
        self.interrupt.notify_one();
    }

    /// Like [`EventLog::interrupt`], but code that resists is ended with its interpreter.
    pub(super) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Release);
        self.interrupt();
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Acquire)
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.is_interrupted.load(Ordering::Acquire)
    }

    /// Waits for the next [`EventLog::interrupt`]; for one writer only.
    pub(super) async fn interrupted(&self) {
        self.interrupt.notified().await;
    }

    fn add(&self, queue: &mut Queue, event: Event, bytes: usize) {
        let (stdout, stderr) = (self.stdout.total(), self.stderr.total());
        queue.items.push_back(Item { event, stdout, stderr, bytes });
        queue.bytes += bytes;
        self.changed.notify_one();
    }

    pub(super) fn pop(&self) -> Option<Item> {
        let mut queue = self.lock();
        let item = queue.items.pop_front()?;
        queue.bytes -= item.bytes;
        Some(item)
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
