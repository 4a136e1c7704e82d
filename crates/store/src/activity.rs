//! Activity: how many calls ended when, how, and how long they took.
//!
//! Counts are kept per slot of ten seconds for a day, so that plots of a day are read without reading a
//! call. Times are kept as classes of half powers of two: a quantile is off by a fifth at most.

use std::time::Duration;

use ringfence_types::{Call, State, TenantId, Timestamp};

/// Seconds of a slot.
pub const SLOT_SECS: i64 = 10;

/// Slots that are kept: a day and an hour.
pub(crate) const KEPT_SLOTS: i64 = 25 * 3_600 / SLOT_SECS;

/// The slot of a moment, counted from 1970.
pub fn slot_of(at: Timestamp) -> i64 {
    at.as_micros().div_euclid(SLOT_SECS * 1_000_000)
}

/// The first moment of a slot.
pub fn start_of_slot(slot: i64) -> Timestamp {
    Timestamp::from_micros(slot.saturating_mul(SLOT_SECS * 1_000_000))
}

/// Whether a call that ends in this slot also removes slots that are too old: one of sixty does.
pub(crate) fn is_pruning(slot: i64) -> bool {
    slot % 60 == 0
}

/// End of a call, as activity counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ending {
    /// With a result.
    Result,
    /// With an error, or of unknown outcome.
    Error,
    /// Not allowed.
    Denied,
    /// Cancelled, or not decided in time.
    Other,
}

impl Ending {
    /// All of them, by their numbers in tables.
    pub const ALL: [Self; 4] = [Self::Result, Self::Error, Self::Denied, Self::Other];

    pub(crate) fn number(self) -> i64 {
        self as i64
    }

    pub(crate) fn from_number(number: i64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// A call that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndedCall {
    /// Slot of its end.
    pub slot: i64,
    /// End of the call.
    pub ending: Ending,
    /// Class of its time; none if it did not run.
    pub class: Option<TimeClass>,
}

impl EndedCall {
    /// The end of a call; `None` before it.
    pub fn of(call: &Call) -> Option<Self> {
        let (ending, class) = match &call.state {
            State::Finished(finished) => {
                // The time that a person took to decide is not the server's.
                let is_approved = call.decision.as_ref().is_some_and(|d| d.approval.is_some());
                let took = match is_approved {
                    true => finished.duration,
                    false => call.changed_at.since(call.asked.accepted_at),
                };
                let ending = if finished.is_success() { Ending::Result } else { Ending::Error };
                (ending, Some(TimeClass::of(took)))
            }
            State::OutcomeUnknown => (Ending::Error, None),
            State::Denied { .. } => (Ending::Denied, None),
            state if state.is_final() => (Ending::Other, None),
            _ => return None,
        };
        Some(Self { slot: slot_of(call.changed_at), ending, class })
    }
}

/// A range of times: from one half power of two of microseconds to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeClass(u8);

impl TimeClass {
    /// Number of no class, in tables.
    pub(crate) const NONE: i64 = -1;

    /// The class of a time.
    pub fn of(time: Duration) -> Self {
        let micros = time.as_micros().clamp(1, u128::from(u64::MAX)) as f64;
        Self((micros.log2() * 2.0) as u8)
    }

    /// Shortest time of the class, and shortest of the next.
    pub fn bounds(self) -> (Duration, Duration) {
        let bound = |class: f64| Duration::from_secs_f64((class / 2.0).exp2() / 1e6);
        (bound(f64::from(self.0)), bound(f64::from(self.0) + 1.0))
    }

    pub(crate) fn number(class: Option<Self>) -> i64 {
        class.map_or(Self::NONE, |class| i64::from(class.0))
    }

    pub(crate) fn from_number(number: i64) -> Option<Self> {
        // Twice 64 powers of two.
        u8::try_from(number).ok().filter(|class| *class <= 128).map(Self)
    }
}

/// Activity that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivityQuery {
    /// Tenant of the calls.
    pub tenant: TenantId,
    /// First slot.
    pub from: i64,
    /// The slot after the last.
    pub until: i64,
    /// Slots that are added up; at least one.
    pub per: i64,
}

/// Calls that ended alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActivityRow {
    /// Their end; the slot is the number of the step, from zero.
    pub ended: EndedCall,
    /// Number of calls.
    pub calls: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_lies_in_its_class_and_classes_are_narrow() {
        for micros in [1, 2, 3, 99, 1_000, 4_210, 60_000_000, 86_400_000_000] {
            let time = Duration::from_micros(micros);
            let (from, until) = TimeClass::of(time).bounds();
            let slack = Duration::from_nanos(micros);
            assert!(from <= time + slack && time < until + slack, "{time:?}: {from:?} {until:?}");
            assert!(until.as_secs_f64() / from.as_secs_f64() < 1.42);
        }
        assert_eq!(TimeClass::of(Duration::ZERO), TimeClass::of(Duration::from_micros(1)));
        assert_eq!(TimeClass::from_number(TimeClass::NONE), None);
    }
}
