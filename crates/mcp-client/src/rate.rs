//! Token bucket for unasked messages.

use std::time::Instant;

#[derive(Debug)]
pub(crate) struct Bucket {
    burst: f64,
    per_second: f64,
    left: f64,
    at: Instant,
}

impl Bucket {
    pub(crate) fn new(burst: u32, per_second: u32, now: Instant) -> Self {
        let burst = f64::from(burst);
        Self { burst, per_second: f64::from(per_second), left: burst, at: now }
    }

    /// Takes one token; `false` if none is left.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + since * self.per_second).min(self.burst);
        self.at = now;
        let has_one = self.left >= 1.0;
        if has_one {
            self.left -= 1.0;
        }
        has_one
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_burst_is_allowed_and_then_a_rate() {
        let start = Instant::now();
        let mut bucket = Bucket::new(3, 2, start);
        assert_eq!([0; 4].map(|_| bucket.take(start)), [true, true, true, false]);
        let later = start + Duration::from_secs(1);
        assert_eq!([0; 3].map(|_| bucket.take(later)), [true, true, false]);
    }
}
