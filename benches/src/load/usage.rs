//! Resource usage of a run: the difference of two readings.

use std::{collections::BTreeMap, fs, time::Duration};

use super::{
    findings::{Thread, Used},
    service::Service,
};
use crate::processor::busy;

/// Counters at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counters {
    service: Option<Duration>,
    process: Times,
    threads: BTreeMap<String, Duration>,
    written: u64,
    /// This process and its awaited children: `wrk`, or the open-loop generator.
    generator: Duration,
    machine: Duration,
}

/// Times of one process or thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Times {
    user: Duration,
    system: Duration,
    /// Times of children that ended and were waited for.
    children: Duration,
}

/// Reads all counters now.
pub(crate) fn read(service: &Service) -> Counters {
    let pid = service.pid();
    let own = times(&text("/proc/self/stat"));
    Counters {
        service: service.account.used(),
        process: times(&text(&format!("/proc/{pid}/stat"))),
        threads: threads(pid),
        written: written(&text(&format!("/proc/{pid}/io"))),
        generator: own.user + own.system + own.children,
        machine: busy(&text("/proc/stat")),
    }
}

impl Counters {
    pub(crate) fn since(&self, before: &Self) -> Used {
        let secs = |now: Duration, then: Duration| now.saturating_sub(then).as_secs_f64();
        let service = self.service.zip(before.service).map(|(now, then)| secs(now, then));
        let threads = self.threads.iter().map(|(name, now)| {
            let then = before.threads.get(name).copied().unwrap_or_default();
            Thread { name: name.clone(), secs: secs(*now, then) }
        });
        Used {
            service_secs: service,
            user_secs: secs(self.process.user, before.process.user),
            system_secs: secs(self.process.system, before.process.system),
            threads: threads.filter(|thread| thread.secs > 0.0).collect(),
            written_bytes: self.written.saturating_sub(before.written),
            generator_secs: secs(self.generator, before.generator),
            machine_secs: secs(self.machine, before.machine),
        }
    }
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn threads(pid: u32) -> BTreeMap<String, Duration> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let read = |name: &str| fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        let Times { user, system, .. } = times(&read("stat"));
        *found.entry(read("comm").trim().to_owned()).or_default() += user + system;
    }
    found
}

/// Times from the fields after the name, which may hold anything, even `)`.
fn times(stat: &str) -> Times {
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // The kernel reports 100 ticks a second on every supported architecture.
    let ticks = |index: usize| {
        let count = fields.get(index).and_then(|word| word.parse().ok()).unwrap_or_default();
        Duration::from_millis(10) * count
    };
    Times { user: ticks(11), system: ticks(12), children: ticks(13) + ticks(14) }
}

fn written(io: &str) -> u64 {
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|number| number.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_a_name_full_of_brackets() {
        let stat = "7 (a) (b) R) S 1 1 1 0 -1 4194304 10 20 0 0 3 4 5 6 20 0 1 0 99";
        let millis = Duration::from_millis;
        let expected = Times { user: millis(30), system: millis(40), children: millis(110) };
        assert_eq!(times(stat), expected);
        assert_eq!(times(""), Times::default());
    }

    #[test]
    fn bytes_that_reached_the_disk_are_those_that_count() {
        assert_eq!(written("wchar: 9\nwrite_bytes: 4096\ncancelled_write_bytes: 1\n"), 4096);
        assert_eq!(written(""), 0);
    }

    #[test]
    fn what_was_there_before_is_not_counted_again() {
        let at = |millis: u64| Counters {
            service: Some(Duration::from_millis(millis)),
            threads: [("a".to_owned(), Duration::from_millis(millis))].into(),
            ..Counters::default()
        };
        let used = at(1500).since(&at(500));
        assert_eq!(used.service_secs, Some(1.0));
        assert_eq!(used.threads, [Thread { name: "a".to_owned(), secs: 1.0 }]);
        assert_eq!(at(1).since(&at(1)).threads, []);
    }
}
