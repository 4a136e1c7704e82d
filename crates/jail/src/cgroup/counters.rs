//! The formats of counter files, without I/O.
//!
//! A missing or malformed entry is `None`: an unreadable counter is not zero.

use std::time::Duration;

/// File with one number; `max` and invalid text are `None`.
pub(super) fn single(text: &str) -> Option<u64> {
    text.trim_ascii().parse().ok()
}

/// The value of `key` in a file of `key value` lines.
pub(super) fn keyed(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.split_ascii_whitespace().next() == Some(key))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The sum of `key=value` over all devices of an `io.stat` file.
pub(super) fn summed(text: &str, key: &str) -> u64 {
    text.split_ascii_whitespace()
        .filter_map(|word| word.split_once('='))
        .filter(|(name, _)| *name == key)
        .filter_map(|(_, value)| value.parse::<u64>().ok())
        .fold(0, u64::saturating_add)
}

/// The process ids in a `cgroup.procs` file.
///
/// `0` stands for a process of a foreign pid namespace. It cannot be signalled from here, and
/// `kill(0)` would hit ourselves, so it is left out.
pub(super) fn pids(text: &str) -> impl Iterator<Item = i32> {
    text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 0)
}

/// Clock ticks as time.
pub(super) fn ticks(count: u64, per_second: u64) -> Duration {
    let per_second = per_second.max(1);
    let rest = u128::from(count % per_second) * 1_000_000_000 / u128::from(per_second);
    Duration::from_secs(count / per_second) + Duration::from_nanos(u64::try_from(rest).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_key_is_matched_whole() {
        let text = "oom_kill_disable 7\nunder_oom 0\noom_kill 3\n";
        assert_eq!(keyed(text, "oom_kill"), Some(3));
        assert_eq!(keyed(text, "oom"), None);
        assert_eq!(keyed("max\n", "max"), None);
    }

    #[test]
    fn max_is_not_a_number() {
        assert_eq!(single("4096\n"), Some(4096));
        assert_eq!(single("max\n"), None);
        assert_eq!(single(""), None);
    }

    #[test]
    fn devices_are_summed() {
        let text = "8:0 rbytes=10 wbytes=1 rios=1\n8:16 rbytes=32 wbytes=2\n7:0 \n";
        assert_eq!((summed(text, "rbytes"), summed(text, "wbytes")), (42, 3));
    }

    #[test]
    fn a_foreign_process_is_never_taken_for_process_group_zero() {
        assert_eq!(pids("12\n0\n-1\nx\n7\n").collect::<Vec<_>>(), [12, 7]);
    }

    #[test]
    fn ticks_keep_their_fraction() {
        assert_eq!(ticks(250, 100), Duration::from_millis(2500));
        assert_eq!(ticks(1, 1024), Duration::from_nanos(976_562));
        assert_eq!(ticks(u64::MAX, 0).as_secs(), u64::MAX);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_panic(text in "[ -~\n]{0,100}", key in "[a-z=]{0,4}") {
            single(&text);
            keyed(&text, &key);
            summed(&text, &key);
            pids(&text).for_each(drop);
        }
    }
}
