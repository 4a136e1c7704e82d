//! Output of a program: kept byte-exact up to a cap, addressed by offset, read by many.
//!
//! Beyond the cap the head and the tail are kept, and the number of bytes dropped between them is
//! exact. The writer never waits for a reader: one that falls behind the kept part finds a gap. The
//! one exception is a [`Follower`], which is created on request.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ringfence_types::Truncated;
use tokio::sync::Notify;

use crate::follower::{Backlog, Follower};

/// Bytes of one stream, shared between the writer and any number of readers.
#[derive(Debug, Clone)]
pub struct Output {
    shared: Arc<OutputShared>,
}

#[derive(Debug)]
struct OutputShared {
    log: Mutex<Log>,
    changed: Notify,
    /// Notified when the follower took bytes or is gone.
    room: Notify,
}

#[derive(Debug, Default)]
struct Log {
    /// The first bytes, at most `head_cap`.
    head: Vec<u8>,
    /// The last bytes that are not in the head, at most `tail_cap`.
    tail: VecDeque<u8>,
    head_cap: usize,
    tail_cap: usize,
    /// All bytes ever written.
    total: u64,
    closed: bool,
    /// Bytes that the follower has yet to take, if there is one.
    backlog: Option<Backlog>,
}

/// Result of a read at an offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chunk {
    /// Bytes from the requested offset on.
    Data(Vec<u8>),
    /// These bytes were dropped; reading continues at this offset.
    Gap {
        /// First offset that can be read again.
        resume: u64,
    },
    /// The stream ended here.
    End,
}

impl Output {
    /// Keeps at most `cap` bytes: three quarters of it from the start, the rest from the end.
    pub fn new(cap: u64) -> Self {
        let (log, changed, room) = (Mutex::new(Log::default()), Notify::new(), Notify::new());
        let output = Self { shared: Arc::new(OutputShared { log, changed, room }) };
        output.set_cap(cap);
        output
    }

    /// Changes the cap. Does nothing once bytes were written.
    pub(crate) fn set_cap(&self, cap: u64) {
        let mut log = self.lock();
        if log.total == 0 {
            log.tail_cap = (cap / 4) as usize;
            log.head_cap = cap as usize - log.tail_cap;
        }
    }

    /// Appends bytes and wakes the readers.
    pub fn append(&self, bytes: &[u8]) {
        self.lock().append(bytes);
        self.shared.changed.notify_waiters();
    }

    /// Marks the end of the stream.
    pub fn close(&self) {
        self.lock().closed = true;
        self.shared.changed.notify_waiters();
    }

    /// All bytes ever written.
    pub fn total(&self) -> u64 {
        self.lock().total
    }

    /// The gap, if there is one.
    pub fn truncated(&self) -> Option<Truncated> {
        self.lock().truncated()
    }

    /// All kept bytes: head and tail, without the gap between them.
    pub fn kept(&self) -> Vec<u8> {
        let log = self.lock();
        let mut bytes = log.head.clone();
        let (first, second) = log.tail.as_slices();
        bytes.extend_from_slice(first);
        bytes.extend_from_slice(second);
        bytes
    }

    /// At most the last `most` bytes, as far as they are contiguous.
    pub(crate) fn last(&self, most: usize) -> Vec<u8> {
        let log = self.lock();
        // Without a gap the tail goes on where the head ends.
        let head = if log.truncated().is_none() { log.head.as_slice() } else { &[] };
        let from_head = most.saturating_sub(log.tail.len()).min(head.len());
        let mut bytes = head[head.len() - from_head..].to_vec();
        bytes.extend(log.tail.range(log.tail.len().saturating_sub(most)..));
        bytes
    }

    /// Waits until there is something at `offset`, and returns at most `most` bytes of it.
    pub async fn read(&self, offset: u64, most: usize) -> Chunk {
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            // Registered before checking, so that a write in between is not missed.
            changed.as_mut().enable();
            if let Some(chunk) = self.lock().at(offset, most) {
                return chunk;
            }
            changed.await;
        }
    }

    /// Follower that gets every byte: the program may run `ahead` bytes ahead of it and is then
    /// blocked at its pipe. `None` if there is a follower already. A late follower begins with the
    /// kept bytes.
    pub fn follow(&self, ahead: u64) -> Option<Follower> {
        let mut log = self.lock();
        if log.backlog.is_some() {
            return None;
        }
        log.backlog = Some(log.kept_as_backlog(ahead));
        drop(log);
        Some(Follower::of(self.clone()))
    }

    pub(crate) fn unfollow(&self) {
        self.lock().backlog = None;
        self.shared.room.notify_waiters();
    }

    pub(crate) async fn next_for_follower(&self) -> Chunk {
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(chunk) = self.lock().next_for_follower() {
                self.shared.room.notify_waiters();
                return chunk;
            }
            changed.await;
        }
    }

    /// Whether the writer may append: always, unless a follower is behind.
    pub(crate) fn has_room(&self) -> bool {
        self.lock().backlog.as_ref().is_none_or(Backlog::has_room)
    }

    /// Waits until the writer may append.
    pub(crate) async fn room(&self) {
        while !self.has_room() {
            let room = self.shared.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            if !self.has_room() {
                room.await;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.shared.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    fn append(&mut self, bytes: &[u8]) {
        if let Some(backlog) = &mut self.backlog {
            backlog.push(bytes);
        }
        self.total += bytes.len() as u64;
        let room = self.head_cap - self.head.len();
        let (to_head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(to_head);
        let rest = &rest[rest.len().saturating_sub(self.tail_cap)..];
        let overflow = (self.tail.len() + rest.len()).saturating_sub(self.tail_cap);
        self.tail.drain(..overflow);
        self.tail.extend(rest);
    }

    fn tail_start(&self) -> u64 {
        self.total - self.tail.len() as u64
    }

    fn truncated(&self) -> Option<Truncated> {
        let at = self.head.len() as u64;
        let dropped = self.tail_start() - at;
        (dropped > 0).then_some(Truncated { at, dropped })
    }

    fn kept_as_backlog(&self, ahead: u64) -> Backlog {
        let mut backlog = Backlog::new(ahead);
        backlog.push(&self.head);
        if self.truncated().is_some() {
            backlog.push_gap(self.tail_start());
        }
        let (first, second) = self.tail.as_slices();
        backlog.push(first);
        backlog.push(second);
        backlog
    }

    /// `None` when the follower has to wait.
    fn next_for_follower(&mut self) -> Option<Chunk> {
        match &mut self.backlog {
            Some(backlog) => backlog.pop().or_else(|| self.closed.then_some(Chunk::End)),
            None => Some(Chunk::End),
        }
    }

    /// `None` when the reader has to wait.
    fn at(&self, offset: u64, most: usize) -> Option<Chunk> {
        if offset >= self.total {
            return self.closed.then_some(Chunk::End);
        }
        let head = self.head.len() as u64;
        if offset < head {
            let from = &self.head[offset as usize..];
            return Some(Chunk::Data(from[..from.len().min(most)].to_vec()));
        }
        if offset < self.tail_start() {
            return Some(Chunk::Gap { resume: self.tail_start() });
        }
        let skip = (offset - self.tail_start()) as usize;
        Some(Chunk::Data(self.tail.iter().skip(skip).take(most).copied().collect()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn head_and_tail_are_kept_and_the_gap_is_exact() {
        let output = Output::new(8);
        output.append(b"abcdefghijklmnop");
        assert_eq!(output.kept(), b"abcdefop");
        assert_eq!(output.truncated(), Some(Truncated { at: 6, dropped: 8 }));
    }

    #[test]
    fn the_last_bytes_come_from_tail_and_head_but_never_from_before_the_gap() {
        let output = Output::new(8);
        output.append(b"abcdefgh");
        let last = |most: usize| output.last(most);
        assert_eq!([last(1), last(4), last(100)], [&b"h"[..], b"efgh", b"abcdefgh"]);
        output.append(b"i");
        assert_eq!([last(1), last(100)], [&b"i"[..], b"hi"]);
    }

    #[tokio::test]
    async fn a_late_reader_sees_head_gap_tail_and_end() {
        let output = Output::new(8);
        output.append(b"abcdefghijklmnop");
        output.close();
        assert_eq!(output.read(0, 100).await, Chunk::Data(b"abcdef".to_vec()));
        assert_eq!(output.read(6, 100).await, Chunk::Gap { resume: 14 });
        assert_eq!(output.read(14, 100).await, Chunk::Data(b"op".to_vec()));
        assert_eq!(output.read(16, 100).await, Chunk::End);
    }

    #[tokio::test]
    async fn a_waiting_reader_is_woken_by_a_write() {
        let output = Output::new(100);
        let reader = output.clone();
        let (chunk, ()) = tokio::join!(reader.read(0, 10), async { output.append(b"now") });
        assert_eq!(chunk, Chunk::Data(b"now".to_vec()));
    }

    proptest! {
        #[test]
        fn whatever_the_writes_nothing_kept_is_wrong(
            writes in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..20),
            cap in 0_u64..64,
        ) {
            let output = Output::new(cap);
            let all: Vec<u8> = writes.concat();
            for write in &writes {
                output.append(write);
            }
            let kept = output.kept();
            prop_assert!(kept.len() as u64 <= cap);
            let gap = output.truncated().unwrap_or_default();
            prop_assert_eq!(kept.len() as u64 + gap.dropped, all.len() as u64);
            let head = if gap.dropped == 0 { kept.len() } else { gap.at as usize };
            prop_assert_eq!(&kept[..head], &all[..head]);
            prop_assert_eq!(&kept[head..], &all[all.len() - (kept.len() - head)..]);
        }
    }
}
