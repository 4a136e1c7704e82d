//! Activity of a tenant: how many calls ended when, how, and how long they took.

use std::{collections::BTreeMap, time::Duration};

use ringfence_store::{
    ActivityQuery, ActivityRow, Ending, Error, SLOT_SECS, TimeClass, slot_of, start_of_slot,
};
use ringfence_types::{Principal, Timestamp};

use crate::Engine;

/// Calls that ended in one step of time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndedCalls {
    /// With a result.
    pub results: u64,
    /// With an error, or of unknown outcome.
    pub errors: u64,
    /// Not allowed.
    pub denied: u64,
    /// Cancelled, or not decided in time.
    pub other: u64,
    /// Times of those that ran, by class.
    times: BTreeMap<TimeClass, u64>,
}

impl EndedCalls {
    fn add(&mut self, row: &ActivityRow) {
        let count = match row.ended.ending {
            Ending::Result => &mut self.results,
            Ending::Error => &mut self.errors,
            Ending::Denied => &mut self.denied,
            Ending::Other => &mut self.other,
        };
        *count += row.calls;
        if let Some(class) = row.ended.class {
            *self.times.entry(class).or_default() += row.calls;
        }
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.results + self.errors + self.denied + self.other
    }

    /// The time within which this share of the calls ended; about, because times are kept by class.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let count: u64 = self.times.values().sum();
        let wanted = (count as f64 * share).max(1.0);
        let mut before = 0.0;
        for (class, calls) in &self.times {
            let calls = *calls as f64;
            if before + calls >= wanted {
                let (from, until) = class.bounds();
                return Some(from + (until - from).mul_f64((wanted - before) / calls));
            }
            before += calls;
        }
        None
    }
}

/// Activity of a window of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// First moment.
    pub from: Timestamp,
    /// Length of a step.
    pub step: Duration,
    /// Steps in the order of time; the last one is not over yet.
    pub steps: Vec<EndedCalls>,
    /// All steps together.
    pub all: EndedCalls,
}

impl Engine {
    /// Activity of the principal's tenant: this many steps until now, each of whole slots. At most a day
    /// is kept.
    pub async fn activity(
        &self,
        who: &Principal,
        steps: u32,
        step: Duration,
    ) -> Result<Activity, Error> {
        let per = (i64::try_from(step.as_secs()).unwrap_or(i64::MAX) / SLOT_SECS).max(1);
        let until = slot_of(self.clock().now()) + 1;
        let from = until - per * i64::from(steps);
        let query = ActivityQuery { tenant: who.tenant.clone(), from, until, per };
        let rows = self.inner.parts.store.activity(query).await?;
        let mut counted = vec![EndedCalls::default(); steps as usize];
        let mut all = EndedCalls::default();
        for row in &rows {
            if let Some(step) =
                usize::try_from(row.ended.slot).ok().and_then(|i| counted.get_mut(i))
            {
                step.add(row);
                all.add(row);
            }
        }
        let step = Duration::from_secs((per * SLOT_SECS).unsigned_abs());
        Ok(Activity { from: start_of_slot(from), step, steps: counted, all })
    }
}

#[cfg(test)]
mod tests {
    use ringfence_store::EndedCall;

    use super::*;

    #[test]
    fn quantiles_lie_in_the_class_of_their_call() {
        let mut calls = EndedCalls::default();
        assert_eq!(calls.quantile(0.5), None);
        for (millis, count) in [(4, 90), (900, 10)] {
            let class = Some(TimeClass::of(Duration::from_millis(millis)));
            let ended = EndedCall { slot: 0, ending: Ending::Result, class };
            calls.add(&ActivityRow { ended, calls: count });
        }
        let near = |share, millis: f64| {
            let found = calls.quantile(share).expect("calls").as_secs_f64() * 1e3;
            assert!((millis * 0.7..millis * 1.42).contains(&found), "{share}: {found}");
        };
        near(0.5, 4.0);
        near(0.9, 4.0);
        near(0.95, 900.0);
        assert_eq!(calls.total(), 100);
    }
}
