//! Samples of one row, and their statistics.

use std::time::Duration;

use anyhow::{Result, bail};

/// Row: name and samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Measurement {
    /// Name of the row.
    pub(super) name: String,
    // Sorted, and never empty: both are kept by the constructor.
    samples: Vec<Duration>,
}

impl Measurement {
    /// Row of samples in any order; fails without any.
    pub(super) fn new(name: &str, mut samples: Vec<Duration>) -> Result<Self> {
        if samples.is_empty() {
            bail!("`{name}` has no samples");
        }
        samples.sort_unstable();
        Ok(Self { name: name.to_owned(), samples })
    }

    /// Smallest sample that is not below `percent` of all samples (nearest rank).
    pub(super) fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.samples.len() * percent.min(100)).div_ceil(100);
        self.samples[rank.max(1) - 1]
    }

    /// Number of samples.
    pub(super) fn runs(&self) -> usize {
        self.samples.len()
    }
}

/// Quotient of two durations.
pub(super) fn ratio(duration: Duration, measure: Duration) -> Option<f64> {
    (!measure.is_zero()).then(|| duration.as_secs_f64() / measure.as_secs_f64())
}

/// Milliseconds with three digits, as in every table here.
pub(super) fn milliseconds(duration: Duration) -> String {
    format!("{:.3}", duration.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(name: &str, millis: impl IntoIterator<Item = u64>) -> Measurement {
        let samples = millis.into_iter().map(Duration::from_millis).collect();
        Measurement::new(name, samples).expect("samples")
    }

    #[test]
    fn percentiles_are_nearest_rank_in_any_order() {
        let hundred = measured("x", (1..=100).rev());
        let at = |percent| hundred.percentile(percent).as_millis();
        assert_eq!([at(0), at(50), at(95), at(100), at(500)], [1, 50, 95, 100, 100]);
        assert_eq!(measured("x", [7]).percentile(50), Duration::from_millis(7));
    }

    #[test]
    fn no_samples_is_an_error() {
        assert!(Measurement::new("x", Vec::new()).is_err());
    }

    #[test]
    fn nothing_is_a_multiple_of_nothing() {
        assert_eq!(ratio(Duration::from_millis(1), Duration::from_millis(4)), Some(0.25));
        assert_eq!(ratio(Duration::from_millis(1), Duration::ZERO), None);
    }
}
