//! Rate limit for one kind of call of one sandbox.
//!
//! A call costs its sandbox nothing and the service some microseconds of cpu time, so a burst is
//! answered at once, then a rate applies.

use std::time::{Duration, Instant};

/// Delay of a call that comes too early.
const DELAY: Duration = Duration::from_millis(1);

/// A burst that is refilled at a rate.
#[derive(Debug)]
pub(super) struct RateLimit {
    burst: u32,
    per_millisecond: u32,
    spare: u32,
    filled_at: Instant,
}

impl RateLimit {
    pub(super) fn new(now: Instant, burst: u32, per_millisecond: u32) -> Self {
        Self { burst, per_millisecond, spare: burst, filled_at: now }
    }

    /// Waits if the burst is used up: then one call a millisecond, plus the rate.
    pub(super) fn wait(&mut self) {
        if !self.is_prompt(Instant::now()) {
            std::thread::sleep(DELAY);
        }
    }

    fn is_prompt(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.filled_at).as_millis();
        if passed > 0 {
            let gained = u32::try_from(passed).unwrap_or(u32::MAX);
            let gained = gained.saturating_mul(self.per_millisecond);
            self.spare = self.spare.saturating_add(gained).min(self.burst);
            self.filled_at = now;
        }
        let is_prompt = self.spare > 0;
        self.spare = self.spare.saturating_sub(1);
        is_prompt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(rate_limit: &mut RateLimit, at: Instant, tries: u32) -> u32 {
        (0..tries).map(|_| u32::from(rate_limit.is_prompt(at))).sum()
    }

    #[test]
    fn a_burst_is_answered_at_once_and_filled_up_at_the_rate() {
        let begun = Instant::now();
        let after = |milliseconds| begun + Duration::from_millis(milliseconds);
        let mut rate_limit = RateLimit::new(begun, 100, 10);
        assert_eq!(prompt(&mut rate_limit, begun, 1000), 100);
        assert_eq!(prompt(&mut rate_limit, after(3), 1000), 30);
        assert_eq!(prompt(&mut rate_limit, after(3), 1000), 0);
        assert_eq!(prompt(&mut rate_limit, after(86_400_000), 1000), 100, "no more than the burst");
    }

    #[test]
    fn a_rate_of_zero_never_fills_up() {
        let begun = Instant::now();
        let mut rate_limit = RateLimit::new(begun, 2, 0);
        assert_eq!(prompt(&mut rate_limit, begun, 3), 2);
        assert_eq!(prompt(&mut rate_limit, begun + Duration::from_secs(3600), 3), 0);
    }
}
