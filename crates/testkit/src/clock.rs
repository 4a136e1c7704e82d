//! The clock of tests.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ringfence_types::{Clock, Timestamp};

/// Clock for tests: that of the machine, or one that stands still until it is moved. The default one stands
/// at the beginning of 1970.
#[derive(Debug, Default)]
pub struct TestClock {
    follows_machine: bool,
    /// Microseconds, added to the time of the machine if that is followed.
    micros: AtomicI64,
}

impl TestClock {
    /// Clock of the machine.
    pub const fn system() -> Self {
        Self { follows_machine: true, micros: AtomicI64::new(0) }
    }

    /// Clock that stands at this time, in microseconds since 1970.
    pub const fn fixed(micros: i64) -> Self {
        Self { follows_machine: false, micros: AtomicI64::new(micros) }
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.micros.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn now(&self) -> Timestamp {
        let micros = self.micros.load(Ordering::SeqCst);
        if !self.follows_machine {
            return Timestamp::from_micros(micros);
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let machine = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(machine.saturating_add(micros))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_clock_stands_until_it_is_moved() {
        let clock = TestClock::fixed(5);
        assert_eq!(clock.now(), Timestamp::from_micros(5));
        clock.advance(Duration::from_micros(7));
        assert_eq!(clock.now(), Timestamp::from_micros(12));
    }

    #[test]
    fn the_clock_of_the_machine_can_be_moved_ahead() {
        let (machine, ahead) = (TestClock::system(), TestClock::system());
        ahead.advance(Duration::from_secs(3_600));
        assert!(machine.now().after(Duration::from_secs(3_500)) < ahead.now());
    }
}
