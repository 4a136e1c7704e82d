//! A bounded queue whose consumer takes all that waits in one go.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

use crate::Error;

/// Many push, one or more take.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    waiting: Mutex<Waiting<T>>,
    arrived: Condvar,
    most: usize,
}

#[derive(Debug)]
struct Waiting<T> {
    items: VecDeque<T>,
    closed: bool,
    /// Number of threads that wait for work: waking none is a system call all the same.
    idle: usize,
}

impl<T> Queue<T> {
    pub(crate) fn new(most: usize) -> Self {
        let waiting = Waiting { items: VecDeque::new(), closed: false, idle: 0 };
        Self { waiting: Mutex::new(waiting), arrived: Condvar::new(), most }
    }

    /// Refuses at once rather than waits: the caller can say so to its own client.
    pub(crate) fn push(&self, item: T) -> Result<(), Error> {
        let mut waiting = self.lock();
        if waiting.closed {
            return Err(Error::Closed);
        }
        if waiting.items.len() >= self.most {
            return Err(Error::Busy);
        }
        waiting.items.push_back(item);
        let is_awaited = waiting.idle > 0;
        drop(waiting);
        if is_awaited {
            self.arrived.notify_one();
        }
        Ok(())
    }

    /// Waits for something and takes up to `most` of it; `false` once closed and empty.
    pub(crate) fn take(&self, most: usize, into: &mut Vec<T>) -> bool {
        let mut waiting = self.lock();
        while waiting.items.is_empty() && !waiting.closed {
            waiting.idle += 1;
            waiting = self.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            waiting.idle -= 1;
        }
        let count = waiting.items.len().min(most);
        into.extend(waiting.items.drain(..count));
        count > 0
    }

    /// Number of items that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().items.len()
    }

    /// Takes nothing more in. What waits is still handed out.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_all();
    }

    /// Closes, and drops what waits; callers that wait for an answer learn that none will come.
    pub(crate) fn abandon(&self) {
        let left = {
            let mut waiting = self.lock();
            waiting.closed = true;
            std::mem::take(&mut waiting.items)
        };
        drop(left);
        self.arrived.notify_all();
    }

    /// Nothing under the lock can panic half-way, so a poisoned lock is as good as any.
    fn lock(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_refuses_and_a_closed_one_still_hands_out() {
        let queue = Queue::new(2);
        queue.push(1).unwrap();
        queue.push(2).unwrap();
        assert!(matches!(queue.push(3), Err(Error::Busy)));
        queue.close();
        assert!(matches!(queue.push(4), Err(Error::Closed)));
        let mut taken = Vec::new();
        assert!(queue.take(1, &mut taken));
        assert!(queue.take(9, &mut taken));
        assert!(!queue.take(9, &mut taken));
        assert_eq!(taken, [1, 2]);
    }
}
