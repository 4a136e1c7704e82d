//! Deadlines of a session: pure computation, with the time as an argument.

use std::time::{Duration, Instant};

use super::Ending;

/// Times of one session.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    pub(super) created: Instant,
    pub(super) idle: Duration,
    pub(super) lifetime: Duration,
    pub(super) last_used: Instant,
    /// Number of uses in progress.
    busy: usize,
    paused: bool,
}

impl Clock {
    pub(super) fn new(now: Instant, idle: Duration, lifetime: Duration) -> Self {
        Self { created: now, idle, lifetime, last_used: now, busy: 0, paused: false }
    }

    /// Begins a use.
    pub(super) fn begin(&mut self, now: Instant) {
        self.busy += 1;
        self.last_used = now;
    }

    /// Ends a use; `true` if it was the last one.
    pub(super) fn finish(&mut self, now: Instant) -> bool {
        self.busy = self.busy.saturating_sub(1);
        self.last_used = now;
        self.busy == 0
    }

    /// Sets whether it is paused. A pause is neither use nor idle time; idle time starts anew after
    /// it.
    pub(super) fn set_paused(&mut self, paused: bool, now: Instant) {
        self.paused = paused;
        self.last_used = now;
    }

    pub(super) fn is_busy(&self) -> bool {
        self.busy > 0
    }

    /// Time of its end if nothing happens until then, and the cause.
    pub(super) fn deadline(&self) -> (Instant, Ending) {
        let absolute = (self.created + self.lifetime, Ending::Lifetime);
        if self.is_busy() || self.paused {
            return absolute;
        }
        let idle = (self.last_used + self.idle, Ending::Idle);
        if idle.0 < absolute.0 { idle } else { absolute }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Checks the end of the session, in seconds after its creation, and its cause.
    fn check(change: impl Fn(&mut Clock, Instant), seconds: u32, ending: Ending) {
        let start = Instant::now();
        let mut clock = Clock::new(start, SECOND * 10, SECOND * 100);
        change(&mut clock, start);
        assert_eq!(clock.deadline(), (start + SECOND * seconds, ending));
    }

    #[test]
    fn without_use_it_ends_idle() {
        check(|_, _| {}, 10, Ending::Idle);
    }

    #[test]
    fn use_under_way_holds_idleness_off() {
        check(|clock, start| clock.begin(start + SECOND * 50), 100, Ending::Lifetime);
        let twice = |clock: &mut Clock, start| {
            clock.begin(start);
            clock.begin(start);
            assert!(!clock.finish(start + SECOND));
        };
        check(twice, 100, Ending::Lifetime);
    }

    #[test]
    fn idleness_counts_from_the_end_of_the_last_use() {
        let once = |clock: &mut Clock, start| {
            clock.begin(start);
            assert!(clock.finish(start + SECOND * 7));
        };
        check(once, 17, Ending::Idle);
    }

    #[test]
    fn the_lifetime_is_absolute() {
        let late = |clock: &mut Clock, start| {
            clock.begin(start);
            clock.finish(start + SECOND * 95);
        };
        check(late, 100, Ending::Lifetime);
    }

    #[test]
    fn idleness_does_not_count_while_paused() {
        check(|clock, start| clock.set_paused(true, start), 100, Ending::Lifetime);
        let resumed = |clock: &mut Clock, start| {
            clock.set_paused(true, start);
            clock.set_paused(false, start + SECOND * 60);
        };
        check(resumed, 70, Ending::Idle);
    }
}
