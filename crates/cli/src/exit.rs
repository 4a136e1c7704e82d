//! Exit codes, which are part of the interface: see `docs/cli.md`.

use ringfence_types::{Limit, Outcome};

/// Success.
pub(crate) const DONE: u8 = 0;
/// The program failed without an exit code of its own: it reached a limit.
pub(crate) const FAILED: u8 = 1;
/// Error of Ringfence, or misuse.
pub(crate) const OURS: u8 = 2;
/// Policy denied the call.
pub(crate) const DENIED: u8 = 3;
/// The call is held for approval.
pub(crate) const HELD: u8 = 4;
/// The program reached its wall-clock limit.
pub(crate) const TIMED_OUT: u8 = 124;
/// Added to the number of a signal, as in shells.
pub(crate) const SIGNAL_BASE: u8 = 128;

/// Exit code of an outcome.
pub(crate) fn of_outcome(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Exited { code } => (code & 0xff) as u8,
        Outcome::Signaled { signal } => of_signal(*signal),
        Outcome::OverLimit(hit) if hit.limit == Limit::Wall => TIMED_OUT,
        Outcome::OverLimit(_) => FAILED,
        Outcome::Cancelled => of_signal(2),
    }
}

/// Exit code of an end by a signal.
pub(crate) fn of_signal(signal: i32) -> u8 {
    SIGNAL_BASE | (signal & 0x7f) as u8
}

#[cfg(test)]
mod tests {
    use ringfence_types::Hit;

    use super::*;

    fn over(limit: Limit) -> Outcome {
        let (allowed, evidence, hint) = (String::new(), Vec::new(), String::new());
        Outcome::OverLimit(Hit { limit, allowed, evidence, hint })
    }

    #[test]
    fn every_outcome_has_its_code() {
        for (outcome, code) in [
            (Outcome::Exited { code: 0 }, 0),
            (Outcome::Exited { code: 255 }, 255),
            (Outcome::Signaled { signal: 15 }, 143),
            (over(Limit::Wall), 124),
            (over(Limit::Memory), 1),
            (over(Limit::CpuTime), 1),
            (Outcome::Cancelled, 130),
        ] {
            assert_eq!(of_outcome(&outcome), code, "{outcome:?}");
        }
    }
}
