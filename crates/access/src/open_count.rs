//! Counting what a key has open at one time: event streams, snapshots on their way.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Number of things open now.
#[derive(Debug, Default)]
pub struct OpenCount(Arc<AtomicUsize>);

/// One open thing; counted until it is dropped.
#[derive(Debug)]
pub struct OpenSlot(Arc<AtomicUsize>);

impl OpenCount {
    /// Counts one more, unless `max` are open.
    pub fn open(&self, max: usize) -> Option<OpenSlot> {
        let more = |now| (now < max).then_some(now + 1);
        let counted = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        counted.ok().map(|_| OpenSlot(self.0.clone()))
    }
}

impl Drop for OpenSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_maximum_are_open_at_one_time() {
        let count = OpenCount::default();
        let first = count.open(2).unwrap();
        let _second = count.open(2).unwrap();
        assert!(count.open(2).is_none());
        drop(first);
        assert!(count.open(2).is_some());
    }
}
