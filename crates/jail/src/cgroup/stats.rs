//! Usage and refusals of a group, with the names of the files they come from.

use super::Error;
use super::controllers::Dirs;
use super::counters::{keyed, single, summed, ticks};
use super::file::read_if_present;
use super::layout::Version;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// Counters of one group since its creation; `None` where the host does not count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Cpu time of all processes, dead ones included.
    pub cpu_total: Option<Duration>,
    /// The part spent in user code.
    pub cpu_user: Option<Duration>,
    /// The part spent in the kernel.
    pub cpu_system: Option<Duration>,
    /// Time for which the group was runnable but had used up its quota.
    pub throttled: Option<Duration>,
    /// Number of periods in which that happened.
    pub throttled_periods: Option<u64>,
    /// Bytes charged now.
    pub memory_now: Option<u64>,
    /// Largest number of bytes charged at once.
    pub memory_peak: Option<u64>,
    /// Number of times the group reached its memory limit; most are resolved by reclaim.
    pub memory_failures: Option<u64>,
    /// Processes that the kernel killed because memory ran out. With `memory_failures` zero the
    /// memory was missing outside the group: an ancestor's limit, or the machine.
    pub oom_kills: Option<u64>,
    /// Number of times memory could not be allocated at the limit, even if the kernel found no
    /// process to kill (version 2 only).
    pub ooms: Option<u64>,
    /// Current processes and threads.
    pub pids_now: Option<u64>,
    /// Largest number at once.
    pub pids_peak: Option<u64>,
    /// Number of times `fork` or `clone` was refused at the limit.
    pub pids_refused: Option<u64>,
    /// Bytes read from block devices (version 2 only).
    pub io_read: Option<u64>,
    /// Bytes written to block devices (version 2 only).
    pub io_written: Option<u64>,
    /// Files behind the numbers.
    pub sources: Sources,
}

/// Name of the file, and of the entry where a file has several, for each number; cited as evidence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "each field names the source of the field of the same name")]
pub struct Sources {
    pub cpu_total: &'static str,
    pub cpu_user: &'static str,
    pub cpu_system: &'static str,
    pub throttled: &'static str,
    pub memory_now: &'static str,
    pub memory_peak: &'static str,
    pub memory_failures: &'static str,
    pub oom_kills: &'static str,
    pub ooms: &'static str,
    pub pids_now: &'static str,
    pub pids_peak: &'static str,
    pub pids_refused: &'static str,
    pub io: &'static str,
}

impl Sources {
    /// Names of the files of one version.
    pub const fn of_version(is_2: bool) -> Self {
        if is_2 { V2 } else { V1 }
    }
}

const V1: Sources = Sources {
    cpu_total: "cpuacct.usage",
    cpu_user: "cpuacct.usage_user",
    cpu_system: "cpuacct.usage_sys",
    throttled: "cpu.stat throttled_time",
    memory_now: "memory.usage_in_bytes",
    memory_peak: "memory.max_usage_in_bytes",
    memory_failures: "memory.failcnt",
    oom_kills: "memory.oom_control oom_kill",
    ooms: "",
    pids_now: "pids.current",
    pids_peak: "pids.peak",
    pids_refused: "pids.events max",
    io: "",
};

const V2: Sources = Sources {
    cpu_total: "cpu.stat usage_usec",
    cpu_user: "cpu.stat user_usec",
    cpu_system: "cpu.stat system_usec",
    throttled: "cpu.stat throttled_usec",
    memory_now: "memory.current",
    memory_peak: "memory.peak",
    memory_failures: "memory.events max",
    oom_kills: "memory.events oom_kill",
    ooms: "memory.events oom",
    pids_now: "pids.current",
    pids_peak: "pids.peak",
    pids_refused: "pids.events max",
    io: "io.stat",
};

/// Reads every counter of the group.
pub(super) fn read(version: Version, dirs: &Dirs) -> Result<Stats, Error> {
    match version {
        Version::V2 => read_v2(dirs),
        _ => read_v1(dirs),
    }
}

/// Reads the counters of usage.
pub(super) fn read_usage(version: Version, dirs: &Dirs) -> Result<Stats, Error> {
    let mut stats = Stats::default();
    if version == Version::V2 {
        stats.sources = V2;
        read_cpu_v2(dirs, &mut stats)?;
        stats.memory_peak = number(&dirs.memory, "memory.peak")?;
        read_io_v2(dirs, &mut stats)?;
    } else {
        stats.sources = V1;
        read_cpuacct(dirs, &mut stats)?;
        stats.memory_peak = number(&dirs.memory, "memory.max_usage_in_bytes")?;
    }
    stats.pids_peak = number(&dirs.pids, "pids.peak")?;
    Ok(stats)
}

/// Reads the counters of current use.
pub(super) fn read_present(version: Version, dirs: &Dirs) -> Result<Stats, Error> {
    let sources = if version == Version::V2 { V2 } else { V1 };
    Ok(Stats {
        memory_now: number(&dirs.memory, sources.memory_now)?,
        pids_now: number(&dirs.pids, sources.pids_now)?,
        sources,
        ..Stats::default()
    })
}

/// Kernel memory; see [`super::Base::kernel_memory`].
pub(super) fn kernel_memory(version: Version, dirs: &Dirs) -> Option<u64> {
    let read = |name| number(&dirs.memory, name).ok().flatten();
    if version == Version::V2 {
        let text = text_of(&dirs.memory, "memory.stat").ok().flatten().unwrap_or_default();
        // `kernel` exists since Linux 5.18.
        let kernel =
            keyed(&text, "kernel").map(|kernel| kernel + keyed(&text, "sock").unwrap_or(0));
        return kernel.or_else(|| read("memory.current"));
    }
    let buffers = read("memory.kmem.tcp.usage_in_bytes").unwrap_or(0);
    let kernel = read("memory.kmem.usage_in_bytes").map(|kernel| kernel + buffers);
    kernel.or_else(|| read("memory.usage_in_bytes"))
}

/// Objects of the kernel; see [`super::Group::kernel_objects`].
pub(super) fn kernel_objects(version: Version, dirs: &Dirs) -> Option<u64> {
    if version != Version::V2 {
        return None;
    }
    keyed(&text_of(&dirs.memory, "memory.stat").ok().flatten()?, "slab_unreclaimable")
}

fn read_v1(dirs: &Dirs) -> Result<Stats, Error> {
    let mut stats = Stats { sources: V1, ..Stats::default() };
    read_cpuacct(dirs, &mut stats)?;
    if let Some(text) = text_of(&dirs.cpu, "cpu.stat")? {
        stats.throttled = keyed(&text, "throttled_time").map(Duration::from_nanos);
        stats.throttled_periods = keyed(&text, "nr_throttled");
    }
    stats.memory_now = number(&dirs.memory, "memory.usage_in_bytes")?;
    stats.memory_peak = number(&dirs.memory, "memory.max_usage_in_bytes")?;
    stats.memory_failures = number(&dirs.memory, "memory.failcnt")?;
    let control = text_of(&dirs.memory, "memory.oom_control")?;
    stats.oom_kills = control.and_then(|text| keyed(&text, "oom_kill"));
    read_pids(dirs, &mut stats)?;
    Ok(stats)
}

/// Nanoseconds where the kernel (4.7) has them, otherwise clock ticks.
fn read_cpuacct(dirs: &Dirs, stats: &mut Stats) -> Result<(), Error> {
    stats.cpu_total = number(&dirs.cpuacct, "cpuacct.usage")?.map(Duration::from_nanos);
    stats.cpu_user = number(&dirs.cpuacct, "cpuacct.usage_user")?.map(Duration::from_nanos);
    stats.cpu_system = number(&dirs.cpuacct, "cpuacct.usage_sys")?.map(Duration::from_nanos);
    if stats.cpu_user.is_some() && stats.cpu_system.is_some() {
        return Ok(());
    }
    let text = text_of(&dirs.cpuacct, "cpuacct.stat")?.unwrap_or_default();
    let per_second = ticks_per_second();
    stats.cpu_user = keyed(&text, "user").map(|count| ticks(count, per_second));
    stats.cpu_system = keyed(&text, "system").map(|count| ticks(count, per_second));
    stats.sources.cpu_user = "cpuacct.stat user";
    stats.sources.cpu_system = "cpuacct.stat system";
    Ok(())
}

fn read_v2(dirs: &Dirs) -> Result<Stats, Error> {
    let mut stats = Stats { sources: V2, ..Stats::default() };
    read_cpu_v2(dirs, &mut stats)?;
    stats.memory_now = number(&dirs.memory, "memory.current")?;
    stats.memory_peak = number(&dirs.memory, "memory.peak")?;
    if let Some(text) = text_of(&dirs.memory, "memory.events")? {
        stats.memory_failures = keyed(&text, "max");
        stats.oom_kills = keyed(&text, "oom_kill");
        stats.ooms = keyed(&text, "oom");
    }
    read_pids(dirs, &mut stats)?;
    read_io_v2(dirs, &mut stats)?;
    Ok(stats)
}

fn read_cpu_v2(dirs: &Dirs, stats: &mut Stats) -> Result<(), Error> {
    if let Some(text) = text_of(&dirs.cpuacct, "cpu.stat")? {
        let micros = |key| keyed(&text, key).map(Duration::from_micros);
        stats.cpu_total = micros("usage_usec");
        stats.cpu_user = micros("user_usec");
        stats.cpu_system = micros("system_usec");
        stats.throttled = micros("throttled_usec");
        stats.throttled_periods = keyed(&text, "nr_throttled");
    }
    Ok(())
}

fn read_io_v2(dirs: &Dirs, stats: &mut Stats) -> Result<(), Error> {
    if let Some(text) = text_of(&dirs.io, "io.stat")? {
        stats.io_read = Some(summed(&text, "rbytes"));
        stats.io_written = Some(summed(&text, "wbytes"));
    }
    Ok(())
}

fn read_pids(dirs: &Dirs, stats: &mut Stats) -> Result<(), Error> {
    stats.pids_now = number(&dirs.pids, "pids.current")?;
    stats.pids_peak = number(&dirs.pids, "pids.peak")?;
    let events = text_of(&dirs.pids, "pids.events")?;
    stats.pids_refused = events.and_then(|text| keyed(&text, "max"));
    Ok(())
}

fn number(dir: &Option<PathBuf>, name: &str) -> Result<Option<u64>, Error> {
    Ok(text_of(dir, name)?.and_then(|text| single(&text)))
}

fn text_of(dir: &Option<PathBuf>, name: &str) -> Result<Option<String>, Error> {
    match dir.as_deref() {
        Some(dir) => read_if_present(dir, name),
        None => Ok(None),
    }
}

fn ticks_per_second() -> u64 {
    // SAFETY: `sysconf` takes a constant and touches no memory of ours.
    let value = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(value).ok().filter(|value| *value > 0).unwrap_or(100)
}
