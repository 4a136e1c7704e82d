//! The rate limit of a key: a steady rate with bursts, in one number.
//!
//! The generic cell rate algorithm: the number is when the bucket will be full again. No lock, no
//! timer, and an idle bucket needs no care.

use std::{
    fmt::Debug,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use ringfence_types::KeyId;

/// A steady rate and how far above it a burst may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Requests per second, at least 1.
    pub per_second: u32,
    /// Requests at once, at least 1.
    pub burst: u32,
}

impl Rate {
    /// Nanoseconds of one request.
    fn each(self) -> u64 {
        1_000_000_000 / u64::from(self.per_second.max(1))
    }
}

/// A rate that several servers share.
#[async_trait]
pub trait SharedRate: Debug + Send + Sync + 'static {
    /// Takes one request of a key out of the rate.
    async fn take(&self, key: KeyId, rate: Rate) -> Taken;
}

/// Answer about one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It may go on.
    Yes,
    /// It must wait so long.
    Wait(Duration),
    /// Requests are not counted together now: each server has an equal part of the rate.
    Alone {
        /// Time from which this is so.
        since: Instant,
        /// Servers that live, this one included.
        servers: u32,
    },
}

/// The bucket of one key.
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    /// Nanoseconds on the caller's clock.
    full_at: AtomicU64,
}

impl Bucket {
    /// Takes one, or says how long to wait for it.
    pub(crate) fn take(&self, rate: Rate, now: u64) -> Result<(), Duration> {
        self.take_within(rate.each(), rate.each() * u64::from(rate.burst.max(1)), 0, now)
    }

    /// Takes one of an equal part of the rate; the part was used up at `since`.
    pub(crate) fn take_share(
        &self,
        rate: Rate,
        servers: u32,
        since: u64,
        now: u64,
    ) -> Result<(), Duration> {
        let servers = u64::from(servers.max(1));
        let each = rate.each() * servers;
        // A part of the burst; of a burst smaller than the number of servers, one request.
        let room = each * (u64::from(rate.burst) / servers).max(1);
        self.take_within(each, room, since.saturating_add(room), now)
    }

    /// `each` and `room` are nanoseconds of one request and of a burst; the bucket is full no earlier
    /// than at `least`.
    fn take_within(&self, each: u64, room: u64, least: u64, now: u64) -> Result<(), Duration> {
        let mut seen = self.full_at.load(Ordering::Relaxed);
        loop {
            let next = seen.max(now).max(least) + each;
            if next > now + room {
                return Err(Duration::from_nanos(next - now - room));
            }
            let swap = self.full_at.compare_exchange_weak(
                seen,
                next,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match swap {
                Ok(_) => return Ok(()),
                Err(current) => seen = current,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate_holds() {
        let rate = Rate { per_second: 10, burst: 3 };
        let bucket = Bucket::default();
        let second = 1_000_000_000;
        let taken = (0..5).filter(|_| bucket.take(rate, second).is_ok()).count();
        assert_eq!(taken, 3);
        assert_eq!(bucket.take(rate, second), Err(Duration::from_millis(100)));
        let over_a_second =
            (0..1_000).filter(|ms| bucket.take(rate, second + ms * 1_000_000).is_ok()).count();
        assert_eq!(over_a_second, 9);
    }

    #[test]
    fn parts_of_a_rate_begin_used_up_and_are_the_rate_together() {
        let rate = Rate { per_second: 10, burst: 4 };
        let (second, millisecond) = (1_000_000_000, 1_000_000);
        let buckets = [Bucket::default(), Bucket::default()];
        let taken = |from: u64, to: u64| {
            let times = (from..to).flat_map(|ms| buckets.iter().map(move |bucket| (ms, bucket)));
            let is_taken = |&(ms, bucket): &(u64, &Bucket)| {
                bucket.take_share(rate, 2, second, second + ms * millisecond).is_ok()
            };
            times.filter(is_taken).count()
        };
        assert_eq!(taken(0, 200), 0, "no burst at first");
        assert_eq!(taken(200, 2_200), 20, "the rate of one server, by both");
        assert_eq!(taken(9_200, 9_210), 4, "one burst, by both, after a pause");
        // A burst of one still lets requests through.
        let small = Rate { per_second: 10, burst: 1 };
        assert_eq!(Bucket::default().take_share(small, 3, 0, second), Ok(()));
    }
}
