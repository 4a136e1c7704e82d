//! Writing side of an execution, which never waits for the reading side. Output beyond its cap
//! leaves a gap; events beyond theirs are dropped and counted.
//!
//! Output and events arrive on different channels. A driver flushes all output before it sends a
//! frame, and we read all output before we record an event, so an event never comes before output
//! that was written before it. Output written right after it may overtake it.

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

/// Largest number of events that wait for a reader, and of their bytes.
pub(super) const MAX_EVENTS: usize = 4096;
pub(super) const MAX_EVENT_BYTES: usize = 32 << 20;

/// Largest number of results that a summary keeps, and of their bytes.
const MAX_SUMMARY_RESULTS: usize = 64;
const MAX_SUMMARY_BYTES: usize = 1 << 20;

/// Result of an execution, apart from its output.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// End of the execution.
    pub status: Status,
    /// Number of executions since the interpreter started or was reset.
    pub count: u64,
    /// Error that the code raised.
    pub error: Option<Raised>,
    /// First displayed values and results.
    pub results: Vec<Rich>,
    /// Number of values that were not kept.
    pub results_dropped: u64,
}

/// Shared state that is written here and read by one [`Execution`].
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
    items: VecDeque<QueuedEvent>,
    bytes: usize,
    dropped: u64,
    is_finished: bool,
    summary: Kept,
}

/// Content of the summary so far.
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

/// An event with the offsets of the output before it.
#[derive(Debug)]
pub(super) struct QueuedEvent {
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

    /// Marks the start of the code; its output is delivered from now on.
    pub(super) fn start(&self, fresh: bool) {
        let event = Event::Started { fresh };
        self.lock().items.push_back(QueuedEvent { event, stdout: 0, stderr: 0, bytes: 0 });
        self.changed.notify_one();
    }

    /// Adds an event of about this size, after all output so far.
    pub(super) fn push(&self, event: Event, bytes: usize) {
        let mut queue = self.lock();
        queue.summary.note(&event, bytes);
        if queue.items.len() >= MAX_EVENTS || queue.bytes + bytes > MAX_EVENT_BYTES {
            queue.dropped += 1;
            return;
        }
        self.add(&mut queue, event, bytes);
    }

    /// Adds the last event; there is always room for it.
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
            // Registered before checking, so that an end in between is not missed.
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

    /// Asks this execution to end, now or as soon as it begins.
    pub(super) fn interrupt(&self) {
        self.is_interrupted.store(true, Ordering::Release);
        self.interrupt.notify_one();
    }

    /// Like [`EventLog::interrupt`], but if the code resists, its interpreter is killed.
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
        queue.items.push_back(QueuedEvent { event, stdout, stderr, bytes });
        queue.bytes += bytes;
        self.changed.notify_one();
    }

    pub(super) fn pop(&self) -> Option<QueuedEvent> {
        let mut queue = self.lock();
        let item = queue.items.pop_front()?;
        queue.bytes -= item.bytes;
        Some(item)
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
