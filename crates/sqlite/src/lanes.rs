//! A bounded queue of reads in lanes that take turns.
//!
//! A lane is the reads of one client. Lanes are served in turn, and each may occupy only some of the
//! threads at one time, so that no lane keeps another waiting for longer than one piece of work takes.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

use crate::Error;

/// Reads that wait, by lane.
#[derive(Debug)]
pub(crate) struct Lanes<T> {
    state: Mutex<State<T>>,
    arrived: Condvar,
    bounds: LaneBounds,
}

/// Bounds of [`Lanes`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaneBounds {
    /// Most work that waits in all lanes together.
    pub(crate) waiting: usize,
    /// Most work that waits in one lane; the server's own lane has no bound of its own.
    pub(crate) waiting_per_lane: usize,
    /// Most work of one lane that runs at one time.
    pub(crate) running_per_lane: usize,
}

/// The lane of the server's own reads.
pub(crate) const SERVER: &str = "";

#[derive(Debug)]
struct State<T> {
    lanes: HashMap<Box<str>, Lane<T>>,
    /// Each lane that has work waiting and may run more of it, once.
    turns: VecDeque<Box<str>>,
    waiting: usize,
    closed: bool,
}

#[derive(Debug)]
struct Lane<T> {
    items: VecDeque<T>,
    running: usize,
}

/// Work that was taken, and the lane that it occupies until [`Lanes::finished`].
#[derive(Debug)]
pub(crate) struct Taken<T> {
    pub(crate) item: T,
    pub(crate) lane: Box<str>,
}

impl<T> Lanes<T> {
    pub(crate) fn new(bounds: LaneBounds) -> Self {
        let state =
            State { lanes: HashMap::new(), turns: VecDeque::new(), waiting: 0, closed: false };
        Self { state: Mutex::new(state), arrived: Condvar::new(), bounds }
    }

    /// Refuses at once rather than waits if the lane or the whole queue is full.
    pub(crate) fn push(&self, lane: &str, item: T) -> Result<(), Error> {
        let mut state = self.lock();
        if state.closed {
            return Err(Error::Closed);
        }
        let in_lane = state.lanes.get(lane).map_or(0, |lane| lane.items.len());
        let is_lane_full = lane != SERVER && in_lane >= self.bounds.waiting_per_lane;
        if is_lane_full || state.waiting >= self.bounds.waiting {
            return Err(Error::Busy);
        }
        state.waiting += 1;
        let found = state.lanes.entry(lane.into()).or_insert_with(Lane::new);
        found.items.push_back(item);
        let is_ready = found.items.len() == 1 && found.running < self.bounds.running_per_lane;
        if is_ready {
            state.turns.push_back(lane.into());
        }
        drop(state);
        if is_ready {
            self.arrived.notify_one();
        }
        Ok(())
    }

    /// Waits for the next piece of work; `None` once closed and empty.
    pub(crate) fn take(&self) -> Option<Taken<T>> {
        let mut state = self.lock();
        loop {
            if let Some(taken) = state.next(self.bounds.running_per_lane) {
                let (has_more, is_over) =
                    (!state.turns.is_empty(), state.closed && state.waiting == 0);
                drop(state);
                if is_over {
                    self.arrived.notify_all();
                } else if has_more {
                    self.arrived.notify_one();
                }
                return Some(taken);
            }
            if state.closed && state.waiting == 0 {
                return None;
            }
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Gives back the place that a piece of work had in its lane.
    pub(crate) fn finished(&self, lane: Box<str>) {
        let mut state = self.lock();
        let Some(found) = state.lanes.get_mut(&lane) else { return };
        let was_full = found.running >= self.bounds.running_per_lane;
        found.running = found.running.saturating_sub(1);
        match (found.items.is_empty(), found.running) {
            (true, 0) => drop(state.lanes.remove(&lane)),
            (false, _) if was_full => {
                state.turns.push_back(lane);
                drop(state);
                self.arrived.notify_one();
            }
            _ => {}
        }
    }

    /// Number of items that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().waiting
    }

    /// Takes nothing more in. What waits is still handed out.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_all();
    }

    /// Closes, and drops what waits; callers that wait for an answer learn that none will come.
    pub(crate) fn abandon(&self) {
        let left = {
            let mut state = self.lock();
            state.closed = true;
            state.waiting = 0;
            state.turns.clear();
            std::mem::take(&mut state.lanes)
        };
        drop(left);
        self.arrived.notify_all();
    }

    /// Nothing under the lock can panic half-way, so a poisoned lock is as good as any.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> State<T> {
    fn next(&mut self, running_per_lane: usize) -> Option<Taken<T>> {
        let name = self.turns.pop_front()?;
        let lane = self.lanes.get_mut(&name)?;
        let item = lane.items.pop_front()?;
        lane.running += 1;
        self.waiting -= 1;
        if !lane.items.is_empty() && lane.running < running_per_lane {
            self.turns.push_back(name.clone());
        }
        Some(Taken { item, lane: name })
    }
}

impl<T> Lane<T> {
    fn new() -> Self {
        Self { items: VecDeque::new(), running: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes() -> Lanes<u32> {
        Lanes::new(LaneBounds { waiting: 6, waiting_per_lane: 4, running_per_lane: 2 })
    }

    fn taken(lanes: &Lanes<u32>) -> (u32, Box<str>) {
        let taken = lanes.take().unwrap();
        (taken.item, taken.lane)
    }

    #[test]
    fn lanes_take_turns_and_each_keeps_its_order() {
        let lanes = lanes();
        for (lane, item) in [("a", 1), ("a", 2), ("a", 3), ("b", 4), ("b", 5)] {
            lanes.push(lane, item).unwrap();
        }
        let order: Vec<_> = (0..4).map(|_| taken(&lanes).0).collect();
        assert_eq!(order, [1, 4, 2, 5]);
        // `a` has two places and both are taken.
        lanes.push("c", 6).unwrap();
        assert_eq!(taken(&lanes).0, 6);
        lanes.finished("a".into());
        assert_eq!(taken(&lanes).0, 3);
    }

    #[test]
    fn a_full_lane_refuses_and_the_others_do_not() {
        let lanes = lanes();
        (0..4).for_each(|item| lanes.push("a", item).unwrap());
        assert!(matches!(lanes.push("a", 4), Err(Error::Busy)));
        lanes.push("b", 5).unwrap();
        lanes.push(SERVER, 6).unwrap();
        assert!(matches!(lanes.push("c", 7), Err(Error::Busy)), "all together are bounded too");
    }

    #[test]
    fn what_waits_is_handed_out_after_closing_and_lanes_are_forgotten() {
        let lanes = lanes();
        lanes.push("a", 1).unwrap();
        lanes.close();
        assert!(matches!(lanes.push("a", 2), Err(Error::Closed)));
        let (item, lane) = taken(&lanes);
        assert_eq!(item, 1);
        lanes.finished(lane);
        assert!(lanes.take().is_none());
        assert!(lanes.lock().lanes.is_empty());
    }
}
