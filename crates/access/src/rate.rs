//! The rate limit of a key: a steady rate with bursts, in one number.
//!
//! The generic cell rate algorithm: the number is when the bucket will be full again. No lock, no
//! timer, and an idle bucket needs no care.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// A steady rate and how far above it a burst may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Requests per second, at least 1.
    pub per_second: u32,
    /// Requests at once, at least 1.
    pub burst: u32,
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
        let each = 1_000_000_000 / u64::from(rate.per_second.max(1));
        let room = each * u64::from(rate.burst.max(1));
        let mut seen = self.full_at.load(Ordering::Relaxed);
        loop {
            let next = seen.max(now) + each;
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
}
