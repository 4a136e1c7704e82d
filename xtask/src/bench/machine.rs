//! Machine of the measurement, and its other load.

use std::fs;
use std::time::Duration;

use crate::host;

/// Idle time before a run, below which other load affects the numbers.
const QUIET_PERCENT: u64 = 90;

/// Description, for example `Fast CPU, 2 cores, kernel 6.18.5, cgroup v1, uid 0`.
pub(super) fn describe() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{}, {cores} cores, {}", cpu_model(&cpuinfo), host::describe(&host::identity()))
}

/// Load of the machine without the benchmark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Quiet {
    load: String,
    idle_percent: u64,
}

impl Quiet {
    /// Measures for a second.
    pub(super) fn look() -> Self {
        let before = ticks(&fs::read_to_string("/proc/stat").unwrap_or_default());
        std::thread::sleep(Duration::from_secs(1));
        let after = ticks(&fs::read_to_string("/proc/stat").unwrap_or_default());
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load: Vec<&str> = load.split_whitespace().take(3).collect();
        Self { load: load.join(" "), idle_percent: idle_percent(before, after) }
    }

    /// Description in words.
    pub(super) fn describe(&self) -> String {
        format!("load {}, {} % idle", self.load, self.idle_percent)
    }

    /// Warning for the reader if other processes used the machine.
    pub(super) fn warning(&self) -> Option<String> {
        (self.idle_percent < QUIET_PERCENT).then(|| {
            format!(
                "WARNING: the machine is busy ({}): times are longer than on a quiet one, and \
                 ratios suffer too",
                self.describe()
            )
        })
    }
}

/// Idle and total ticks so far.
fn ticks(stat: &str) -> (u64, u64) {
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<u64> =
        line.split_whitespace().skip(1).take(8).filter_map(|word| word.parse().ok()).collect();
    let idle = ticks.iter().skip(3).take(2).sum();
    (idle, ticks.iter().sum())
}

fn idle_percent(before: (u64, u64), after: (u64, u64)) -> u64 {
    let all = after.1.saturating_sub(before.1).max(1);
    after.0.saturating_sub(before.0) * 100 / all
}

fn cpu_model(cpuinfo: &str) -> &str {
    cpuinfo
        .lines()
        .find(|line| line.starts_with("model name"))
        .and_then(|line| line.split_once(": "))
        .map_or("unknown cpu", |(_, model)| model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_unused_time() {
        let before = ticks("cpu  10 0 10 70 10 0 0 0 0 0\n");
        assert_eq!(before, (80, 100));
        assert_eq!(idle_percent(before, (170, 200)), 90);
        assert_eq!(idle_percent(before, before), 0);
    }

    #[test]
    fn a_busy_machine_is_warned_about() {
        let quiet = |idle_percent| Quiet { load: "0.1 0.1 0.1".to_owned(), idle_percent };
        assert_eq!(quiet(97).warning(), None);
        assert!(quiet(40).warning().is_some_and(|words| words.contains("40 % idle")));
    }

    #[test]
    fn the_cpu_is_named_or_called_unknown() {
        assert_eq!(cpu_model("processor : 0\nmodel name\t: Fast CPU\n"), "Fast CPU");
        assert_eq!(cpu_model(""), "unknown cpu");
    }
}
