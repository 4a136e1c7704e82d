//! Relative times for lists: time since an instant, or until it.

use ringfence_types::{Clock as _, Timestamp};

use crate::serve::SystemClock;

/// Time since an instant: `12 s ago`, `3 min ago`, `5 h ago`, `9 days ago`.
pub(crate) fn ago(instant: &str) -> String {
    let since = |then: Timestamp| format!("{} ago", short(SystemClock.now(), then));
    instant.parse().map_or_else(|_| "-".to_owned(), since)
}

/// Time until an instant: `12 s`, `3 min`, `5 h`, `9 days`.
pub(crate) fn until(instant: &str) -> String {
    let until = |then: Timestamp| short(then, SystemClock.now());
    instant.parse().map_or_else(|_| "-".to_owned(), until)
}

/// The time between two instants; zero if the first is before the second.
fn short(later: Timestamp, earlier: Timestamp) -> String {
    seconds(later.since(earlier).as_secs())
}

/// Seconds in the largest unit that gives a whole number.
pub(crate) fn seconds(secs: u64) -> String {
    match secs {
        secs @ ..120 => format!("{secs} s"),
        secs @ 120..7_200 => format!("{} min", secs / 60),
        secs @ 7_200..172_800 => format!("{} h", secs / 3_600),
        secs => format!("{} days", secs / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_one_unit() {
        let at = |secs: i64| Timestamp::from_micros(secs * 1_000_000);
        for (secs, text) in [
            (-5, "0 s"),
            (0, "0 s"),
            (119, "119 s"),
            (120, "2 min"),
            (7_200, "2 h"),
            (172_800, "2 days"),
        ] {
            assert_eq!(short(at(1_000_000 + secs), at(1_000_000)), text, "{secs}");
        }
        assert_eq!((ago("yesterday"), until("")), ("-".to_owned(), "-".to_owned()));
    }
}
