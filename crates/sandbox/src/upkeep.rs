//! Background task of the host's health: reads its numbers for the watchdog, and probes from time
//! to time whether a host that could not make sandboxes has recovered.

use std::{
    fs,
    sync::Weak,
    time::{Duration, Instant},
};

use tokio::time::{MissedTickBehavior, interval};

use crate::{
    WatchdogRules,
    groups::Groups,
    native::Inner,
    watchdog::{History, MAX_KERNEL_OBJECTS, Sample, Strain, culprit, strain},
};

/// Interval, unless the watchdog has another.
const INTERVAL: Duration = Duration::from_secs(1);

/// Interval at which kernel objects are counted, and while a sandbox may be close to its bound: a program
/// makes some hundred MiB of them a second.
const OBJECTS_INTERVAL: Duration = Duration::from_millis(250);
const CLOSE_INTERVAL: Duration = Duration::from_millis(50);

/// Page size, the kernel's unit for the memory of connections; x86-64 has no other.
const PAGE: u64 = 4096;

/// Runs for as long as the service exists.
pub(crate) async fn run(service: Weak<Inner>) {
    let Some(rules) = service.upgrade().map(|inner| inner.config.watchdog) else { return };
    let mut ticks = interval(rules.map_or(INTERVAL, |rules| rules.interval));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut history = History::default();
    loop {
        ticks.tick().await;
        let Some(inner) = service.upgrade() else { return };
        if let Some(rules) = &rules {
            look(&inner.groups, &mut history, rules);
        }
        if inner.groups.health.take_probe(Instant::now()) {
            tokio::spawn(async move {
                if let Err(error) = inner.probe().await {
                    let error: &dyn std::error::Error = &error;
                    tracing::warn!(error, "this host still cannot make sandboxes");
                }
            });
        }
    }
}

/// Ends programs whose sandbox holds too many kernel objects, with or without a watchdog: the memory by
/// which the kernel finds these objects is charged to no sandbox. Runs for as long as the service exists.
pub(crate) async fn limit_kernel_objects(service: Weak<Inner>) {
    let mut pause = OBJECTS_INTERVAL;
    loop {
        tokio::time::sleep(pause).await;
        let Some(inner) = service.upgrade() else { return };
        let (charged, watchlist) = (inner.groups.kernel_memory(), &inner.groups.watchlist);
        if charged.is_none_or(|charged| charged > MAX_KERNEL_OBJECTS.0) {
            for (id, held) in watchlist.over_kernel_objects() {
                tracing::warn!(%held, "a program with too many kernel objects is ended");
                watchlist.end(id, Strain::of_kernel_objects(held));
            }
        }
        let is_close = charged.is_some_and(|charged| charged > MAX_KERNEL_OBJECTS.0 / 4);
        pause = if is_close { CLOSE_INTERVAL } else { OBJECTS_INTERVAL };
    }
}

/// Takes one sample of the host, and ends a program if needed.
fn look(groups: &Groups, history: &mut History, rules: &WatchdogRules) {
    let watchlist = &groups.watchlist;
    let Some(sample) = sample(groups.kernel_memory()) else { return };
    history.push(sample, rules.window);
    if !history.is_suspicious(rules) {
        watchlist.forget_times();
        return;
    }
    if let Some(strain) = strain(history, rules) {
        let evidence: Vec<_> =
            strain.evidence.iter().map(|seen| format!("{}: {}", seen.source, seen.value)).collect();
        let (resource, evidence) = (strain.resource, evidence.join(", "));
        match culprit(&watchlist.times(), rules) {
            Some(id) => {
                tracing::warn!(resource, evidence, "the watchdog ends a program");
                watchlist.end(id, strain);
            }
            None => {
                tracing::warn!(
                    resource,
                    evidence,
                    "a resource of the host is nearly exhausted; no program can be blamed"
                )
            }
        }
        // Its resources are freed soon; only growth from here on counts.
        history.clear();
    }
    watchlist.note_times();
}

fn sample(charged: Option<u64>) -> Option<Sample> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let memory = Memory::parse(&read("/proc/meminfo"))?;
    let numbers = |path| -> Vec<u64> {
        read(path).split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
    };
    let files = numbers("/proc/sys/fs/file-nr");
    let pressure = numbers("/proc/sys/net/ipv4/tcp_mem").get(1).copied().unwrap_or(0);
    Some(Sample {
        available: memory.available,
        kernel: memory.kernel,
        charged: charged.unwrap_or(0),
        tcp: tcp_pages(&read("/proc/net/sockstat")).unwrap_or(0) * PAGE,
        tcp_pressure: pressure.saturating_mul(PAGE),
        files: files.first().copied().unwrap_or(0),
        max_files: files.get(2).copied().unwrap_or(0),
    })
}

/// Values of `/proc/meminfo`, in bytes.
#[derive(Debug, PartialEq, Eq)]
struct Memory {
    available: u64,
    kernel: u64,
}

impl Memory {
    /// Parses the values. The kernel's own memory is what is neither free, nor a program's, nor a
    /// cache.
    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| -> Option<u64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib << 10)
        };
        let others = ["MemFree", "Buffers", "Cached", "SwapCached", "AnonPages", "SReclaimable"];
        let others: u64 = others.iter().filter_map(|name| field(name)).sum();
        let kernel = field("MemTotal")?.saturating_sub(others);
        Some(Self { available: field("MemAvailable")?, kernel })
    }
}

/// Pages of `TCP: inuse 7 orphan 0 tw 0 alloc 9 mem 3`.
fn tcp_pages(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("TCP:"))?;
    line.split_once(" mem ")?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_own_memory_is_what_is_left_of_all() {
        let text = "MemTotal: 1000 kB\nMemFree: 300 kB\nMemAvailable: 500 kB\nBuffers: 10 kB\n\
            Cached: 200 kB\nSwapCached: 0 kB\nAnonPages: 290 kB\nSReclaimable: 50 kB\n";
        let expected = Memory { available: 500 << 10, kernel: 150 << 10 };
        assert_eq!(Memory::parse(text), Some(expected));
        assert_eq!(Memory::parse("MemTotal: 1000 kB\n"), None, "too old a kernel");
    }

    #[test]
    fn pages_of_connections_are_those_of_tcp() {
        let text =
            "sockets: used 9\nTCP: inuse 7 orphan 0 tw 0 alloc 9 mem 3\nUDP: inuse 1 mem 2\n";
        assert_eq!(tcp_pages(text), Some(3));
    }

    #[test]
    fn this_host_tells_its_numbers() {
        let sample = sample(None).expect("numbers");
        assert!(sample.available > 0 && sample.kernel > 0 && sample.max_files > 0, "{sample:?}");
    }
}
