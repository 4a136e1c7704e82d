//! Only the rules that may have something to say.
//!
//! Most rules of a large bundle begin with a condition on the document, such as the name of a tool,
//! that does not hold for most documents. Which of them hold is looked up, and the document is
//! judged by an engine that has only those rules and the ones without such a condition. Engines are
//! made by a thread of their own when the same rules have been needed a few times; until then, and
//! wherever it is not certain that the answer is the same, all rules are asked.
//!
//! Invariant: an engine from here gives the answer of the whole bundle, whatever the document. The
//! tests hold both against each other over rules of many shapes.

mod cut;
mod guard;
mod lookup;
mod shelf;

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
    cut::Whole,
    lookup::{Lookup, Number},
    shelf::{Found, Shelf},
};
use super::{brief, here::Here, workers};

/// Fewest rules that may be left out: with less there is little to gain.
const LEAST: usize = 8;
/// Most engines that wait to be made. Whoever finds no place asks again later.
const ORDERS: usize = 16;

/// Engines with some of the rules of a bundle.
#[derive(Debug)]
pub(super) struct Index {
    lookup: Lookup,
    shelf: Arc<Shelf>,
    orders: SyncSender<Vec<Number>>,
}

impl Index {
    /// Of the rules in this engine. None if they have too few conditions that can be looked up.
    pub(super) fn of(engine: &mut regorus::Engine, policy: Digest) -> Option<Self> {
        let (whole, lookup) = cut::read(engine, LEAST)?;
        let (orders, queue) = sync_channel(ORDERS);
        let shelf = Arc::new(Shelf::default());
        let shared = Arc::clone(&shelf);
        // Without the thread all rules are asked every time, which is right as well.
        thread::Builder::new()
            .name("policy-index".to_owned())
            .stack_size(workers::STACK)
            .spawn(move || work(&whole, policy, &shared, &queue))
            .ok()?;
        Some(Self { lookup, shelf, orders })
    }

    /// What has the rules for this document, if it was made already.
    pub(super) fn find(&self, document: &Value) -> Option<Arc<Here>> {
        let needed = self.lookup.find(document)?;
        match self.shelf.find(&needed) {
            Found::Made(here) => Some(here),
            Found::Wanted => {
                // If too many are waited for, it will be wanted again.
                let _ = self.orders.try_send(needed);
                None
            }
            Found::Nothing => None,
        }
    }
}

/// Ends when the bundle is no longer in force.
fn work(whole: &Whole, policy: Digest, shelf: &Shelf, orders: &Receiver<Vec<Number>>) {
    while let Ok(needed) = orders.recv() {
        if !shelf.has(&needed) {
            let made = make(whole, &needed, policy).map(Arc::new);
            shelf.put(needed, made);
        }
    }
}

/// Not worth it if most rules stay, and not possible if they are for the workers.
fn make(whole: &Whole, needed: &[Number], policy: Digest) -> Option<Here> {
    let (some, all) = whole.count(needed);
    if some * 2 > all {
        return None;
    }
    let Some(mut engine) = whole.cut(needed) else {
        tracing::warn!(rules = some, "some rules do not work without the others: all are asked");
        return None;
    };
    brief::are_brief(engine.get_modules()).then(|| Here::new(&engine, policy))
}

#[cfg(test)]
mod tests;
