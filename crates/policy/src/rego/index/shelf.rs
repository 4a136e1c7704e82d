//! Engines that were made, by the rules in them.
//!
//! Bounded: what was not used for longest makes room. An engine is made only for rules that were
//! needed a few times, so documents that each need others cost no more than being counted.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::lookup::Number;
use crate::rego::here::Here;

/// Most engines.
const ENGINES: usize = 64;
/// How often rules are needed before an engine is made for them: making one takes about as long as
/// asking all rules a few times.
const WORTH: u32 = 4;
/// Most sets of rules that are counted.
const COUNTED: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Shelf(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    made: HashMap<Vec<Number>, Made>,
    /// How often sets of rules were needed for which there is no engine.
    needed: HashMap<Vec<Number>, u32>,
    turn: u64,
}

#[derive(Debug)]
struct Made {
    /// None if there cannot be one.
    here: Option<Arc<Here>>,
    /// When it was last used.
    turn: u64,
}

/// What there is for some rules.
#[derive(Debug)]
pub(super) enum Found {
    /// An engine.
    Made(Arc<Here>),
    /// None, and it is time to make one.
    Wanted,
    /// None.
    Nothing,
}

impl Shelf {
    pub(super) fn find(&self, needed: &[Number]) -> Found {
        let mut inner = self.lock();
        inner.turn += 1;
        let turn = inner.turn;
        if let Some(made) = inner.made.get_mut(needed) {
            made.turn = turn;
            return made.here.clone().map_or(Found::Nothing, Found::Made);
        }
        if inner.needed.len() >= COUNTED {
            inner.needed.clear();
        }
        let times = inner.needed.entry(needed.to_vec()).or_default();
        *times += 1;
        if times.is_multiple_of(WORTH) { Found::Wanted } else { Found::Nothing }
    }

    pub(super) fn has(&self, needed: &[Number]) -> bool {
        self.lock().made.contains_key(needed)
    }

    pub(super) fn put(&self, needed: Vec<Number>, here: Option<Arc<Here>>) {
        let mut inner = self.lock();
        inner.needed.remove(&needed);
        if inner.made.len() >= ENGINES {
            let oldest = inner.made.iter().min_by_key(|(_, made)| made.turn);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                inner.made.remove(&oldest);
            }
        }
        let turn = inner.turn;
        inner.made.insert(needed, Made { here, turn });
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_bounded_and_keeps_what_is_used() {
        let shelf = Shelf::default();
        shelf.put(vec![0], None);
        for number in 1..10_000 {
            assert!(matches!(shelf.find(&[0]), Found::Nothing), "known not to be possible");
            assert!(matches!(shelf.find(&[number]), Found::Nothing), "needed once");
            if number % 10 == 0 {
                shelf.put(vec![number], None);
            }
        }
        let inner = shelf.lock();
        assert_eq!(inner.made.len(), ENGINES);
        assert!(inner.made.contains_key(&vec![0]) && inner.needed.len() <= COUNTED);
    }

    #[test]
    fn what_is_needed_again_and_again_is_wanted() {
        let shelf = Shelf::default();
        let wanted = (0..2 * WORTH).filter(|_| matches!(shelf.find(&[1, 2]), Found::Wanted));
        assert_eq!(wanted.count(), 2);
    }
}
