//! Cache of engines, by the rules in them.
//!
//! Bounded: the least recently used engine is evicted. An engine is built only for rules that were
//! needed a few times, so documents that each need other rules cost no more than being counted.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::lookup::Number;
use crate::rego::inline::Inline;

/// Cached engines.
const MAX_ENGINES: usize = 64;
/// Number of times that rules are needed before an engine is built for them: building one takes about
/// as long as evaluating all rules a few times.
const BUILD_THRESHOLD: u32 = 4;
/// Sets of rules that are counted.
const MAX_COUNTED: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct EngineCache(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    made: HashMap<Vec<Number>, Made>,
    /// Number of times that sets of rules without an engine were needed.
    needed: HashMap<Vec<Number>, u32>,
    turn: u64,
}

#[derive(Debug)]
struct Made {
    /// `None` if no engine is possible.
    inline: Option<Arc<Inline>>,
    /// Turn of the last use.
    turn: u64,
}

/// Result of a lookup.
#[derive(Debug)]
pub(super) enum Found {
    /// Cached engine.
    Made(Arc<Inline>),
    /// No engine, and it is time to build one.
    Wanted,
    /// No engine.
    Nothing,
}

impl EngineCache {
    pub(super) fn find(&self, needed: &[Number]) -> Found {
        let mut inner = self.lock();
        inner.turn += 1;
        let turn = inner.turn;
        if let Some(made) = inner.made.get_mut(needed) {
            made.turn = turn;
            return made.inline.clone().map_or(Found::Nothing, Found::Made);
        }
        if inner.needed.len() >= MAX_COUNTED {
            inner.needed.clear();
        }
        let times = inner.needed.entry(needed.to_vec()).or_default();
        *times += 1;
        if times.is_multiple_of(BUILD_THRESHOLD) { Found::Wanted } else { Found::Nothing }
    }

    pub(super) fn has(&self, needed: &[Number]) -> bool {
        self.lock().made.contains_key(needed)
    }

    pub(super) fn put(&self, needed: Vec<Number>, inline: Option<Arc<Inline>>) {
        let mut inner = self.lock();
        inner.needed.remove(&needed);
        if inner.made.len() >= MAX_ENGINES {
            let oldest = inner.made.iter().min_by_key(|(_, made)| made.turn);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                inner.made.remove(&oldest);
            }
        }
        let turn = inner.turn;
        inner.made.insert(needed, Made { inline, turn });
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
        let cache = EngineCache::default();
        cache.put(vec![0], None);
        for number in 1..10_000 {
            assert!(matches!(cache.find(&[0]), Found::Nothing), "known not to be possible");
            assert!(matches!(cache.find(&[number]), Found::Nothing), "needed once");
            if number % 10 == 0 {
                cache.put(vec![number], None);
            }
        }
        let inner = cache.lock();
        assert_eq!(inner.made.len(), MAX_ENGINES);
        assert!(inner.made.contains_key(&vec![0]) && inner.needed.len() <= MAX_COUNTED);
    }

    #[test]
    fn what_is_needed_again_and_again_is_wanted() {
        let cache = EngineCache::default();
        let wanted =
            (0..2 * BUILD_THRESHOLD).filter(|_| matches!(cache.find(&[1, 2]), Found::Wanted));
        assert_eq!(wanted.count(), 2);
    }
}
