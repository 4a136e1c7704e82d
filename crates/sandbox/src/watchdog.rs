//! Watchdog: ends the program that most likely exhausts the host.
//!
//! Limits cover the resources we know of. A kernel has more: objects charged to no cgroup, memory
//! of connections, the table of open files. So the host's own numbers are watched while programs
//! run. If one of them worsens fast and the charges of sandboxes do not explain it, the program
//! that spent most time in the kernel meanwhile is ended, and its result says so.
//!
//! [`strain`] and [`culprit`] decide and are pure; [`crate::upkeep`] reads and acts.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ringfence_jail::cgroup::Group;
use ringfence_types::{Bytes, Evidence};
use tokio::sync::Notify;

/// Rules for ending a program to protect the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchdogRules {
    /// Kernel memory charged to no sandbox that may be taken within the window; at most a quarter
    /// of the memory that was available.
    pub memory: Bytes,
    /// Sampling interval.
    pub interval: Duration,
    /// Number of samples in the window.
    pub window: usize,
    /// Smallest cpu time in the kernel for which a program is blamed.
    pub min_cpu: Duration,
}

impl Default for WatchdogRules {
    fn default() -> Self {
        Self {
            memory: Bytes::mib(512),
            interval: Duration::from_secs(1),
            window: 60,
            min_cpu: Duration::from_millis(100),
        }
    }
}

/// Divisor of the available memory: the part that may be taken without being charged.
const AVAILABLE_PART: u64 = 4;
/// Percentage of the kernel's limit of open files from which they count as nearly exhausted.
const FILES_PERCENT: u64 = 80;
/// Divisor of the mark for network buffers and open files: smaller growth within the window is not
/// blamed on a program.
const GROWN_PART: u64 = 10;

/// Kernel objects (mappings, sockets, open files) that one sandbox may hold. They are charged to it,
/// but what the kernel needs to find them is not: up to a quarter more for mappings. Programs that do
/// not collect objects stay far below.
pub(crate) const MAX_KERNEL_OBJECTS: Bytes = Bytes::mib(192);

/// Numbers of the host at one moment, in bytes unless they are counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Memory that programs can still get.
    pub(crate) available: u64,
    /// Memory that the kernel uses itself and cannot free at once.
    pub(crate) kernel: u64,
    /// The part of it that is charged to sandboxes.
    pub(crate) charged: u64,
    /// Memory of TCP connections, and the mark from which the kernel slows all connections down.
    pub(crate) tcp: u64,
    pub(crate) tcp_pressure: u64,
    /// Open files, and their limit.
    pub(crate) files: u64,
    pub(crate) max_files: u64,
}

impl Sample {
    fn uncharged(&self) -> u64 {
        self.kernel.saturating_sub(self.charged)
    }
}

/// A nearly exhausted resource of the host, with evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Strain {
    /// Name of the resource.
    pub(crate) resource: &'static str,
    /// Allowed amount, formatted.
    pub(crate) allowed: String,
    pub(crate) evidence: Vec<Evidence>,
    /// Next step for the author of the program.
    pub(crate) hint: String,
}

impl Strain {
    fn of_host(resource: &'static str, allowed: String, evidence: Vec<Evidence>) -> Self {
        let hint = format!(
            "the host ran short of {resource} while this program was the busiest in the kernel; \
             make it open fewer files, sockets and locks, or have the operator look at \
             `sandbox.watchdog`"
        );
        Self { resource, allowed, evidence, hint }
    }

    /// Too many kernel objects in one sandbox.
    pub(crate) fn of_kernel_objects(held: Bytes) -> Self {
        Self {
            resource: "kernel objects",
            allowed: format!("{MAX_KERNEL_OBJECTS} of kernel objects in one sandbox"),
            evidence: vec![evidence("memory.stat slab_unreclaimable", held)],
            hint: "make the program use fewer mappings, processes, files and sockets".to_owned(),
        }
    }
}

/// Samples of the host over the window, newest last.
#[derive(Debug, Default)]
pub(crate) struct History(VecDeque<Sample>);

impl History {
    pub(crate) fn push(&mut self, sample: Sample, window: usize) {
        self.0.push_back(sample);
        while self.0.len() > window.max(2) {
            self.0.pop_front();
        }
    }

    /// Forgets all samples, so that growth is measured anew.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Kernel memory charged to no sandbox that was taken since its lowest point, as far as the
    /// available memory fell; and its allowed amount.
    fn uncharged_growth(&self, rules: &WatchdogRules) -> Option<(u64, u64)> {
        let now = self.0.back()?;
        let lowest = self.0.iter().min_by_key(|sample| sample.uncharged())?;
        let fall = lowest.available.saturating_sub(now.available);
        let growth = (now.uncharged() - lowest.uncharged()).min(fall);
        Some((growth, rules.memory.0.min(lowest.available / AVAILABLE_PART)))
    }

    /// Whether so much was taken that the times of all programs are recorded.
    pub(crate) fn is_suspicious(&self, rules: &WatchdogRules) -> bool {
        let growth = self.uncharged_growth(rules);
        growth.is_some_and(|(growth, allowed)| growth > allowed / 4)
            || tcp(&self.0).is_some()
            || files(&self.0).is_some()
    }
}

/// Nearly exhausted resource of the host, if there is one.
pub(crate) fn strain(history: &History, rules: &WatchdogRules) -> Option<Strain> {
    let now = *history.0.back()?;
    if let Some((growth, allowed)) = history.uncharged_growth(rules)
        && growth > allowed
    {
        return Some(Strain::of_host(
            "kernel memory",
            format!("{} of kernel memory charged to no sandbox", Bytes(allowed)),
            vec![
                evidence("kernel memory taken and not charged", Bytes(growth)),
                evidence("/proc/meminfo MemAvailable", Bytes(now.available)),
            ],
        ));
    }
    tcp(&history.0).or_else(|| files(&history.0))
}

fn tcp(history: &VecDeque<Sample>) -> Option<Strain> {
    let (now, grown) = grown(history, |sample| sample.tcp)?;
    let mark = now.tcp_pressure;
    (mark > 0 && now.tcp > mark && grown > mark / GROWN_PART).then(|| {
        Strain::of_host(
            "TCP memory",
            format!("{} of TCP memory on the whole host", Bytes(mark)),
            vec![
                evidence("/proc/net/sockstat TCP mem", Bytes(now.tcp)),
                evidence("net.ipv4.tcp_mem pressure", Bytes(mark)),
            ],
        )
    })
}

fn files(history: &VecDeque<Sample>) -> Option<Strain> {
    let (now, grown) = grown(history, |sample| sample.files)?;
    let mark = now.max_files / 100 * FILES_PERCENT;
    (mark > 0 && now.files > mark && grown > mark / GROWN_PART).then(|| {
        Strain::of_host(
            "open files",
            format!("{mark} open files on the whole host"),
            vec![
                evidence("/proc/sys/fs/file-nr", now.files),
                evidence("/proc/sys/fs/file-max", now.max_files),
            ],
        )
    })
}

/// The newest sample, and its growth above the lowest.
fn grown(history: &VecDeque<Sample>, of: impl Fn(&Sample) -> u64) -> Option<(Sample, u64)> {
    let now = *history.back()?;
    let lowest = history.iter().map(&of).min()?;
    Some((now, of(&now) - lowest))
}

fn evidence(source: &str, value: impl ToString) -> Evidence {
    Evidence { source: source.to_owned(), value: value.to_string() }
}

/// Id of the program to end: the one with the most time in the kernel. `None` if no program spent
/// enough.
pub(crate) fn culprit(spent: &[(u64, Duration)], rules: &WatchdogRules) -> Option<u64> {
    let most = spent.iter().max_by_key(|(_, time)| *time)?;
    (most.1 >= rules.min_cpu).then_some(most.0)
}

/// Running programs that may be ended.
#[derive(Debug, Default)]
pub(crate) struct Watchlist {
    wards: Mutex<HashMap<u64, Arc<WatchedProgram>>>,
    next: AtomicU64,
    kills: AtomicU64,
}

#[derive(Debug)]
struct WatchedProgram {
    group: Option<Arc<Group>>,
    /// Time in the kernel when the host's numbers began to worsen.
    before: Mutex<Option<Duration>>,
    strain: OnceLock<Strain>,
    told: Notify,
}

impl WatchedProgram {
    fn kernel_time(&self) -> Duration {
        let usage = self.group.as_ref().and_then(|group| group.usage().ok());
        usage.and_then(|usage| usage.cpu_system).unwrap_or_default()
    }
}

/// WatchedProgram of a program on the list, removed on drop.
#[derive(Debug)]
pub(crate) struct WatchGuard {
    list: Arc<Watchlist>,
    id: u64,
    entry: Arc<WatchedProgram>,
}

impl WatchGuard {
    /// Waits until the program is to be ended; returns the reason.
    pub(crate) async fn ended(&self) -> Strain {
        loop {
            if let Some(strain) = self.entry.strain.get() {
                return strain.clone();
            }
            self.entry.told.notified().await;
        }
    }
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        self.list.lock().remove(&self.id);
    }
}

impl Watchlist {
    pub(crate) fn watch(self: &Arc<Self>, group: Option<Arc<Group>>) -> WatchGuard {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (before, strain, told) = (Mutex::default(), OnceLock::new(), Notify::new());
        let entry = Arc::new(WatchedProgram { group, before, strain, told });
        self.lock().insert(id, entry.clone());
        WatchGuard { list: self.clone(), id, entry }
    }

    pub(crate) fn kills(&self) -> u64 {
        self.kills.load(Ordering::Relaxed)
    }

    /// Records the time that each program has spent in the kernel, unless recorded before.
    pub(crate) fn note_times(&self) {
        for entry in self.all().into_values() {
            let mut before = entry.before.lock().unwrap_or_else(PoisonError::into_inner);
            if before.is_none() {
                *before = Some(entry.kernel_time());
            }
        }
    }

    /// Forgets the recorded times.
    pub(crate) fn forget_times(&self) {
        for entry in self.lock().values() {
            entry.before.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }

    /// Time in the kernel of each program since it was recorded, or since its start.
    pub(crate) fn times(&self) -> Vec<(u64, Duration)> {
        let since = |entry: &WatchedProgram| {
            let before = *entry.before.lock().unwrap_or_else(PoisonError::into_inner);
            entry.kernel_time().saturating_sub(before.unwrap_or_default())
        };
        self.all().into_iter().map(|(id, entry)| (id, since(&entry))).collect()
    }

    /// Programs whose sandbox holds more kernel objects than one may, with the amount.
    pub(crate) fn over_kernel_objects(&self) -> Vec<(u64, Bytes)> {
        let held = |entry: &WatchedProgram| entry.group.as_ref()?.kernel_objects().map(Bytes);
        let all = self.all().into_iter();
        let held = all.filter_map(|(id, entry)| Some((id, held(&entry)?)));
        held.filter(|(_, held)| *held > MAX_KERNEL_OBJECTS).collect()
    }

    /// Ends a program.
    pub(crate) fn end(&self, id: u64, strain: Strain) {
        let Some(entry) = self.lock().get(&id).cloned() else { return };
        if entry.strain.set(strain).is_ok() {
            self.kills.fetch_add(1, Ordering::Relaxed);
            entry.told.notify_one();
        }
    }

    /// Copy of the list, so that no file is read under the lock.
    fn all(&self) -> HashMap<u64, Arc<WatchedProgram>> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<WatchedProgram>>> {
        self.wards.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn quarter_gib() -> WatchdogRules {
        WatchdogRules { memory: Bytes::mib(256), ..WatchdogRules::default() }
    }

    /// A host with 4 GiB available, and what the kernel holds and charges, in MiB.
    fn host(kernel: u64, charged: u64) -> Sample {
        Sample {
            available: (4096 + 500 - kernel) * MIB,
            kernel: kernel * MIB,
            charged: charged * MIB,
            tcp: MIB,
            tcp_pressure: 100 * MIB,
            files: 1000,
            max_files: 100_000,
        }
    }

    fn short_of(samples: &[Sample]) -> Option<&'static str> {
        let rules = quarter_gib();
        let mut history = History::default();
        samples.iter().for_each(|sample| history.push(*sample, rules.window));
        strain(&history, &rules).map(|strain| strain.resource)
    }

    #[test]
    fn kernel_memory_that_no_sandbox_is_charged_with_is_a_strain() {
        assert_eq!(short_of(&[host(500, 50)]), None, "one look compares with nothing");
        assert_eq!(short_of(&[host(500, 50), host(700, 50)]), None, "below the mark");
        assert_eq!(short_of(&[host(500, 50), host(800, 60)]), Some("kernel memory"));
        assert_eq!(short_of(&[host(500, 50), host(900, 440)]), None, "it is charged");
    }

    #[test]
    fn memory_that_the_kernel_only_moved_around_is_none() {
        let moved = Sample { available: host(500, 50).available, ..host(900, 50) };
        assert_eq!(short_of(&[host(500, 50), moved]), None);
    }

    #[test]
    fn a_small_host_is_short_earlier() {
        let small = |sample: Sample| Sample { available: sample.available - 4000 * MIB, ..sample };
        assert_eq!(short_of(&[small(host(500, 50)), small(host(530, 50))]), Some("kernel memory"));
    }

    #[test]
    fn growth_is_measured_within_the_window_only() {
        let rules = WatchdogRules { window: 3, ..quarter_gib() };
        let mut history = History::default();
        for kernel in [500, 600, 700, 800] {
            history.push(host(kernel, 0), rules.window);
            assert_eq!(strain(&history, &rules), None, "{kernel}");
        }
        history.push(host(980, 0), rules.window);
        assert!(strain(&history, &rules).is_some());
        history.clear();
        history.push(host(980, 0), rules.window);
        assert_eq!(strain(&history, &rules), None);
    }

    #[test]
    fn network_buffers_and_files_count_once_they_are_nearly_used_up_and_grew() {
        let tcp = |mib: u64| Sample { tcp: mib * MIB, ..host(500, 50) };
        assert_eq!(short_of(&[tcp(10), tcp(99)]), None);
        assert_eq!(short_of(&[tcp(10), tcp(101)]), Some("TCP memory"));
        assert_eq!(short_of(&[tcp(100), tcp(101)]), None, "it was so before");
        let files = |files: u64| Sample { files, ..host(500, 50) };
        assert_eq!(short_of(&[files(1000), files(79_000)]), None);
        assert_eq!(short_of(&[files(1000), files(81_000)]), Some("open files"));
    }

    #[test]
    fn who_spent_most_time_in_the_kernel_is_ended_and_the_idle_never_are() {
        let rules = quarter_gib();
        let spent = |millis: &[u64]| -> Vec<_> {
            (0..).zip(millis.iter().map(|millis| Duration::from_millis(*millis))).collect()
        };
        assert_eq!(culprit(&spent(&[10, 900, 300]), &rules), Some(1));
        assert_eq!(culprit(&spent(&[10, 99]), &rules), None);
        assert_eq!(culprit(&[], &rules), None);
    }
}
