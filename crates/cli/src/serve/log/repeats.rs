//! Repeated log lines: one in each interval, with the number of those left out.
//!
//! A fault such as a full disk fails every request in the same way. Its first warning is written at
//! once; the same warning is written again after [`INTERVAL`] at the earliest, with a count of
//! those left out. Two warnings are the same if they come from the same place in the code with the
//! same values; the subject (trace, tenant, call) does not count.

use std::{
    collections::HashMap,
    fmt,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use tracing::{
    Event, Level,
    field::{Field, Visit},
};

/// Interval between two equal lines.
pub(super) const INTERVAL: Duration = Duration::from_secs(10);

/// Different lines that are distinguished within an interval; further ones count as one.
const MAX_LINES: usize = 256;

/// Fields of the subject, which are not compared.
const SUBJECT_FIELDS: [&str; 3] = ["call_id", "tenant", "trace_id"];

/// Warnings and errors of the last interval.
#[derive(Debug, Default)]
pub(super) struct Repeats(Mutex<HashMap<u64, Line>>);

#[derive(Debug)]
struct Line {
    written_at: Instant,
    left_out: u64,
}

/// Decision about a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Write it, with the number of equal lines left out since it was last written.
    Write {
        left_out: u64,
    },
    LeaveOut,
}

impl Repeats {
    /// Decides about a line. Only warnings and errors are counted: other levels were asked for.
    pub(super) fn judge(&self, event: &Event<'_>, now: Instant) -> Verdict {
        match *event.metadata().level() {
            Level::WARN | Level::ERROR => self.count(key(event), now),
            _ => Verdict::Write { left_out: 0 },
        }
    }

    fn count(&self, key: u64, now: Instant) -> Verdict {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |line: &Line| now.duration_since(line.written_at) >= INTERVAL;
        if lines.len() >= MAX_LINES && !lines.contains_key(&key) {
            lines.retain(|_, line| !is_over(line));
        }
        let key = if lines.len() < MAX_LINES || lines.contains_key(&key) { key } else { 0 };
        let Some(line) = lines.get_mut(&key) else {
            lines.insert(key, Line { written_at: now, left_out: 0 });
            return Verdict::Write { left_out: 0 };
        };
        if !is_over(line) {
            line.left_out += 1;
            return Verdict::LeaveOut;
        }
        line.written_at = now;
        Verdict::Write { left_out: std::mem::take(&mut line.left_out) }
    }
}

/// Hash of the place in the code and the values.
fn key(event: &Event<'_>) -> u64 {
    let mut values = Values(DefaultHasher::new());
    event.metadata().callsite().hash(&mut values.0);
    event.record(&mut values);
    values.0.finish()
}

struct Values(DefaultHasher);

impl Visit for Values {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if !SUBJECT_FIELDS.contains(&field.name()) {
            format!("{}={value:?}", field.name()).hash(&mut self.0);
        }
    }

    /// Adds an error with its causes.
    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        let mut cause = Some(value);
        while let Some(error) = cause {
            self.record_debug(field, &format_args!("{error}"));
            cause = error.source();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Verdict = Verdict::Write { left_out: 0 };

    #[test]
    fn the_first_line_is_written_at_once_and_the_others_are_counted() {
        let (repeats, start) = (Repeats::default(), Instant::now());
        assert_eq!(repeats.count(1, start), FIRST);
        for _ in 0..100 {
            assert_eq!(repeats.count(1, start), Verdict::LeaveOut);
        }
        assert_eq!(repeats.count(2, start), FIRST, "another line");
        assert_eq!(repeats.count(1, start + INTERVAL), Verdict::Write { left_out: 100 });
        assert_eq!(repeats.count(1, start + INTERVAL), Verdict::LeaveOut);
        assert_eq!(repeats.count(1, start + 2 * INTERVAL), Verdict::Write { left_out: 1 });
    }

    #[test]
    fn different_lines_are_bounded_too() {
        let (repeats, start) = (Repeats::default(), Instant::now());
        let written = |from: u64, now: Instant| {
            let lines = from..from + 10_000;
            lines.filter(|key| repeats.count(*key, now) != Verdict::LeaveOut).count()
        };
        assert_eq!(written(1, start), MAX_LINES + 1);
        assert_eq!(written(1 << 32, start), 0);
        assert!((1..=MAX_LINES + 1).contains(&written(1 << 32, start + INTERVAL)));
        assert!(repeats.0.lock().unwrap().len() <= MAX_LINES + 1);
    }
}
