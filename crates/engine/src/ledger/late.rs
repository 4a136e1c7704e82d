//! Signatures that are made after their entry is on record.
//!
//! A signature costs more than the rest of a small call's record, and nothing waits for it: the
//! checkpoint in the commit already vouches for the entry, and whoever asks for an envelope gets it
//! signed at once (see `proofs`). So the ends of calls are signed here, in their order, while little
//! else is to do. What is owed is bounded: beyond it, calls pay for their own.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use ringfence_ledger::Signer;
use ringfence_store::{EntryQuery, Error};

use super::{Ledger, damaged};
use crate::engine;

/// Most entries that may wait for their signature: about half a minute of one processor.
const MOST: u64 = 1_000_000;

/// Entries that are signed in one go.
const RUN: usize = 256;

/// From so many new entries a second on, the processors are left to those who make them.
const BUSY: f64 = 2_000.0;

/// How often to look whether it is calm.
const LOOK: Duration = Duration::from_millis(250);

/// After a run that failed.
const PAUSE: Duration = Duration::from_secs(5);

/// Signs what is owed until the engine stops. What is left is signed after the next start.
pub(crate) async fn run(inner: Arc<engine::Inner>) {
    tokio::select! {
        () = sign(&inner.parts.ledger) => {}
        () = inner.stopping.cancelled() => {}
    }
}

async fn sign(ledger: &Ledger) {
    loop {
        ledger.until_calm().await;
        let calm = Instant::now();
        while ledger.owed() > 0 && calm.elapsed() < LOOK {
            let began = Instant::now();
            let signed = ledger.sign_run(ledger.pen().await.signer()).await;
            if let Err(error) = signed {
                let error = crate::dispatch::chain(&error);
                tracing::warn!(error, "entries of the ledger are not signed yet");
                tokio::time::sleep(PAUSE).await;
            }
            // Half of one processor is enough.
            tokio::time::sleep(began.elapsed()).await;
        }
    }
}

impl Ledger {
    /// Entries that wait for their signature.
    pub fn owed(&self) -> u64 {
        let signed = self.0.signed.load(Ordering::Relaxed);
        self.0.grown.borrow().saturating_sub(signed)
    }

    /// Whether calls have to be signed at once.
    pub(super) fn owes_too_much(&self) -> bool {
        self.owed() >= MOST
    }

    /// Waits until something is owed and few others have anything to do.
    async fn until_calm(&self) {
        let mut grown = self.0.grown.clone();
        let signed = self.0.signed.load(Ordering::Relaxed);
        // The store is as old as the engine.
        let _ = grown.wait_for(|size| *size > signed).await;
        loop {
            let (before, began) = (*grown.borrow(), Instant::now());
            tokio::time::sleep(LOOK).await;
            let new = grown.borrow().saturating_sub(before);
            if new as f64 / began.elapsed().as_secs_f64() < BUSY {
                return;
            }
        }
    }

    /// Signs all that is owed.
    pub(super) async fn sign_all(&self, signer: &Signer) -> Result<(), Error> {
        while self.owed() > 0 {
            self.sign_run(signer).await?;
        }
        Ok(())
    }

    /// Signs the next entries that have no signature.
    async fn sign_run(&self, signer: &Signer) -> Result<(), Error> {
        let store = self.store();
        let first = self.0.signed.load(Ordering::Relaxed);
        let query = EntryQuery { from: first, limit: RUN, ..EntryQuery::default() };
        let entries = store.entries(query).await?;
        if entries.is_empty() {
            return Err(damaged());
        }
        let own = self.own(signer).await?;
        let items = self.items(&entries, signer, &own).await?;
        let made: Vec<_> = items.iter().map(|item| item.envelope.signature).collect();
        let end = first + made.len() as u64;
        store.save_signatures(first, made).await?;
        self.0.signed.store(end, Ordering::Relaxed);
        Ok(())
    }
}
