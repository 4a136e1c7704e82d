//! Circuit breakers of model servers: one that fails again and again is left alone for a while.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Failures in a row after which a server is left alone.
const MAX_FAILURES: u32 = 5;
/// Time until it is tried again.
const RESET_AFTER: Duration = Duration::from_secs(30);

/// Circuits by server and model.
#[derive(Debug, Default)]
pub(crate) struct Circuits {
    known: Mutex<HashMap<String, Circuit>>,
}

#[derive(Debug, Default)]
struct Circuit {
    failures: u32,
    open_until: Option<Instant>,
}

impl Circuits {
    /// Whether a server may be asked now. After the pause one request is let through as a trial.
    pub(crate) fn admits(&self, name: &str, now: Instant) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(circuit) = known.get_mut(name) else { return true };
        match circuit.open_until {
            Some(until) if now < until => false,
            Some(_) => {
                circuit.open_until = Some(now + RESET_AFTER);
                true
            }
            None => true,
        }
    }

    /// Counts the end of a request.
    pub(crate) fn count(&self, name: &str, is_good: bool, now: Instant) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if is_good {
            known.remove(name);
            return;
        }
        let circuit = known.entry(name.to_owned()).or_default();
        circuit.failures += 1;
        if circuit.failures >= MAX_FAILURES {
            circuit.open_until = Some(now + RESET_AFTER);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_server_is_left_alone_and_tried_again() {
        let (circuits, now) = (Circuits::default(), Instant::now());
        for _ in 0..MAX_FAILURES {
            assert!(circuits.admits("a", now));
            circuits.count("a", false, now);
        }
        assert!(!circuits.admits("a", now));
        assert!(circuits.admits("b", now));
        let later = now + RESET_AFTER;
        assert!(circuits.admits("a", later), "one trial");
        assert!(!circuits.admits("a", later), "and no second one");
        circuits.count("a", true, later);
        assert!(circuits.admits("a", later));
    }
}
