//! Index of rules by document, so that only the rules that may apply are evaluated.
//!
//! Most rules of a large bundle begin with a condition on the document, such as the name of a tool,
//! that is false for most documents. The index looks up the true conditions and evaluates the
//! document with an engine that has only those rules and the rules without such a condition. A
//! separate thread builds an engine once the same rules were needed a few times; until then, and
//! wherever it is not certain that the answer is the same, all rules are evaluated.
//!
//! Invariant: an engine from the index gives the answer of the whole bundle, whatever the document.
//! The tests compare both over rules of many shapes.

mod engine_cache;
mod guard;
mod lookup;
mod subset;

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
};

use regorus::Value;
use ringfence_types::Digest;

use self::{
    engine_cache::{EngineCache, Found},
    lookup::{Lookup, Number},
    subset::Whole,
};
use super::{inline::Inline, inline_safe, workers};

/// Rules that the index must be able to leave out; fewer gain little.
const MIN_GUARDED_RULES: usize = 8;
/// Engines that may wait to be built. With a full queue, the next need asks again.
const MAX_QUEUED: usize = 16;

/// Engines with subsets of the rules of a bundle.
#[derive(Debug)]
pub(super) struct Index {
    lookup: Lookup,
    cache: Arc<EngineCache>,
    orders: SyncSender<Vec<Number>>,
}

impl Index {
    /// Index of the rules in this engine; `None` if too few of them have a guard.
    pub(super) fn of(engine: &mut regorus::Engine, policy: Digest) -> Option<Self> {
        let (whole, lookup) = subset::read(engine, MIN_GUARDED_RULES)?;
        let (orders, queue) = sync_channel(MAX_QUEUED);
        let cache = Arc::new(EngineCache::default());
        let shared = Arc::clone(&cache);
        // Without the thread all rules are evaluated every time, which is correct as well.
        thread::Builder::new()
            .name("policy-index".to_owned())
            .stack_size(workers::STACK)
            .spawn(move || work(&whole, policy, &shared, &queue))
            .ok()?;
        Some(Self { lookup, cache, orders })
    }

    /// Evaluator with the rules for this document, if it is built already.
    pub(super) fn find(&self, document: &Value) -> Option<Arc<Inline>> {
        let needed = self.lookup.find(document)?;
        match self.cache.find(&needed) {
            Found::Made(inline) => Some(inline),
            Found::Wanted => {
                // With a full queue, the next need asks again.
                let _ = self.orders.try_send(needed);
                None
            }
            Found::Nothing => None,
        }
    }
}

/// Builds engines until the bundle is no longer in force.
fn work(whole: &Whole, policy: Digest, cache: &EngineCache, orders: &Receiver<Vec<Number>>) {
    while let Ok(needed) = orders.recv() {
        if !cache.has(&needed) {
            let made = make(whole, &needed, policy).map(Arc::new);
            cache.put(needed, made);
        }
    }
}

/// Evaluator of a subset; `None` if most rules stay or the subset is not inline-safe.
fn make(whole: &Whole, needed: &[Number], policy: Digest) -> Option<Inline> {
    let (some, all) = whole.count(needed);
    if some * 2 > all {
        return None;
    }
    let Some(mut engine) = whole.subset(needed) else {
        tracing::warn!(rules = some, "some rules do not work without the others: all are asked");
        return None;
    };
    inline_safe::are_inline_safe(engine.get_modules()).then(|| Inline::new(&engine, policy))
}

#[cfg(test)]
mod tests;
