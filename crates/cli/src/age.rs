//! Times as people read them in a list: how long ago, or how long until then.

use ringfence_types::{Clock as _, Timestamp};

use crate::serve::SystemClock;

/// How long ago an instant was: `12s`, `3m`, `5h`, `9d`.
pub(crate) fn since(instant: &str) -> String {
    instant
        .parse()
        .map_or_else(|_| "-".to_owned(), |then: Timestamp| short(SystemClock.now(), then))
}

/// How long until an instant.
pub(crate) fn until(instant: &str) -> String {
    instant
        .parse()
        .map_or_else(|_| "-".to_owned(), |then: Timestamp| short(then, SystemClock.now()))
}

/// Nothing if the first is before the second.
fn short(later: Timestamp, earlier: Timestamp) -> String {
    match later.since(earlier).as_secs() {
        secs @ ..120 => format!("{secs}s"),
        secs @ 120..7_200 => format!("{}m", secs / 60),
        secs @ 7_200..172_800 => format!("{}h", secs / 3_600),
        secs => format!("{}d", secs / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_one_unit() {
        let at = |secs: i64| Timestamp::from_micros(secs * 1_000_000);
        for (secs, text) in
            [(-5, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (7_200, "2h"), (172_800, "2d")]
        {
            assert_eq!(short(at(1_000_000 + secs), at(1_000_000)), text, "{secs}");
        }
        assert_eq!(since("yesterday"), "-");
    }
}
