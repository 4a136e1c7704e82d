//! Idempotency keys of sandbox requests.
//!
//! Sandboxes do not outlive the process, so neither do their keys: a key stands for its sandbox
//! while that lives, and is free afterwards.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ringfence_edge::{Problem, problem_codes};
use ringfence_engine::sandbox::session::SessionId;
use ringfence_types::{Digest, KeyId};

/// The keys in use.
#[derive(Debug, Default)]
pub(crate) struct Once {
    used: Arc<Mutex<HashMap<Slot, Use>>>,
}

/// API key and idempotency key.
type Slot = (KeyId, String);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Use {
    /// Digest of the request.
    fingerprint: Digest,
    /// None while it is being created.
    sandbox: Option<SessionId>,
}

/// Meaning of a key.
#[derive(Debug)]
pub(super) enum Turn {
    /// Unused: the caller creates the sandbox.
    First(Claim),
    /// Used for this sandbox.
    Again(SessionId),
}

/// The right to create the sandbox of a key; dropped without success it frees the key.
#[derive(Debug)]
pub(super) struct Claim {
    used: Arc<Mutex<HashMap<Slot, Use>>>,
    slot: Option<Slot>,
}

impl Once {
    /// Looks a key up. `lives` says whether a sandbox has not ended.
    pub(super) fn turn(
        &self,
        slot: Slot,
        fingerprint: Digest,
        lives: impl Fn(&SessionId) -> bool,
    ) -> Result<Turn, Problem> {
        let mut used = lock(&self.used);
        // Never more than there are sandboxes.
        used.retain(|_, held| held.sandbox.as_ref().is_none_or(&lives));
        match used.get(&slot) {
            Some(held) if held.fingerprint != fingerprint => Err(reused()),
            Some(Use { sandbox: Some(id), .. }) => Ok(Turn::Again(id.clone())),
            Some(_) => Err(in_use()),
            None => {
                used.insert(slot.clone(), Use { fingerprint, sandbox: None });
                Ok(Turn::First(Claim { used: self.used.clone(), slot: Some(slot) }))
            }
        }
    }
}

impl Claim {
    /// Sets the sandbox of the key.
    pub(super) fn fulfil(mut self, id: &SessionId) {
        let Some(slot) = self.slot.take() else { return };
        if let Some(held) = lock(&self.used).get_mut(&slot) {
            held.sandbox = Some(id.clone());
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            lock(&self.used).remove(&slot);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn reused() -> Problem {
    let detail = "this idempotency key was used for another request";
    Problem::new(&problem_codes::IDEMPOTENCY_KEY_REUSED, detail)
}

fn in_use() -> Problem {
    let detail = "the sandbox of this idempotency key is being created";
    Problem::new(&problem_codes::IDEMPOTENCY_KEY_IN_USE, detail)
        .retry_after(std::time::Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot() -> Slot {
        (KeyId(uuid::Uuid::from_u128(7)), "key".to_owned())
    }

    fn claim(once: &Once) -> Claim {
        match once.turn(slot(), Digest::of(b"one"), |_| true).unwrap() {
            Turn::First(claim) => claim,
            other => panic!("{other:?}"),
        }
    }

    fn refusal(once: &Once, body: &[u8]) -> &'static str {
        once.turn(slot(), Digest::of(body), |_| true).unwrap_err().code().code
    }

    #[test]
    fn a_key_is_held_while_its_sandbox_is_made_and_lives() {
        let once = Once::default();
        let claim = claim(&once);
        assert_eq!(refusal(&once, b"one"), "idempotency_key_in_use");
        let id: SessionId = "0".repeat(32).parse().unwrap();
        claim.fulfil(&id);
        let again = once.turn(slot(), Digest::of(b"one"), |_| true).unwrap();
        assert!(matches!(again, Turn::Again(found) if found == id));
        assert_eq!(refusal(&once, b"two"), "idempotency_key_reused");
        let after = once.turn(slot(), Digest::of(b"two"), |_| false).unwrap();
        assert!(matches!(after, Turn::First(_)), "its sandbox has ended");
    }

    #[test]
    fn a_key_is_free_again_when_nothing_came_of_it() {
        let once = Once::default();
        drop(claim(&once));
        drop(claim(&once));
    }
}
