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

use super::{Event, Status};
use crate::output::Output;

/// Events that may wait for a reader, and their bytes.
pub(super) const MOST_EVENTS: usize = 4096;
pub(super) const MOST_BYTES: usize = 32 << 20;

/// The side that is written, shared with the one [`Execution`] that reads it.
#[derive(Debug)]
pub(super) struct EventLog {
    pub(super) stdout: Output,
    pub(super) stderr: Output,
    queue: Mutex<Queue>,
    pub(super) changed: Notify,
    is_interrupted: AtomicBool,
    interrupt: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<Item>,
    bytes: usize,
    dropped: u64,
    is_finished: bool,
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
            is_interrupted: AtomicBool::new(false),
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
        self.stdout.close();
        self.stderr.close();
    }

    pub(super) fn is_finished(&self) -> bool {
        self.lock().is_finished
    }

    /// Asks for the end of this execution, now or as soon as it begins.
    pub(super) fn interrupt(&self) {
        self.is_interrupted.store(true, Ordering::Release);
        self.interrupt.notify_one();
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
