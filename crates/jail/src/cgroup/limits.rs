//! Limits of a new group, and changes of the limits of a running one.
//!
//! A new group starts with a 100 ms cpu period and without group-wide out-of-memory kills in every
//! kernel we support, so neither is written: each write costs a sandbox three system calls.

use super::Error;
use super::controllers::Dirs;
use super::file;
use super::layout::Version;
use std::path::Path;

/// Limits of one sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupLimits {
    /// Bytes of memory, page cache and tmpfs included; swap is not available.
    pub memory: u64,
    /// Thousandths of one cpu: 1000 is one full cpu.
    pub cpu_millis: u32,
    /// Processes and threads together.
    pub pids: u32,
}

/// Treatment of swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Swap {
    /// The kernel counts swap and refuses it (in version 1 all but 64 KiB of it).
    Refused,
    /// Swap is not counted on this kernel; `memory.swappiness` 0 only makes it unlikely.
    Discouraged,
    /// There is no memory controller.
    Unlimited,
}

/// Amount by which memory plus swap may exceed memory in version 1: one page of the largest size.
///
/// With equal limits the kernel refuses at the sum, which is charged first, and Linux 6.18 counts
/// that nowhere: `memory.failcnt` and `memory.memsw.failcnt` both stay zero, and the evidence is lost.
const SUM_SLACK: u64 = 64 << 10;
/// Divisor of the memory limit that gives the limit of network buffers in version 1, which counts
/// them separately. They come out of one pool of the whole host, so a sandbox that fills unread
/// sockets would exhaust it for all processes. The kernel's minimum per connection comes on top.
const BUFFERS_DIVISOR: u64 = 8;
/// Largest `pids.max` that the kernel takes as a number (`PID_MAX_LIMIT`).
const MAX_PIDS: u32 = 4 << 20;
const PERIOD_MICROS: u64 = 100_000;
/// Smallest quota that the kernel accepts.
const MIN_QUOTA_MICROS: u64 = 1_000;

/// Writes all limits for which `dirs` has a controller.
pub(super) fn write(version: Version, dirs: &Dirs, limits: &GroupLimits) -> Result<Swap, Error> {
    if let Some(dir) = &dirs.cpu {
        write_cpu(version, dir, limits.cpu_millis)?;
    }
    if let Some(dir) = &dirs.pids {
        file::write(dir, "pids.max", &pids_value(limits.pids))?;
    }
    match &dirs.memory {
        Some(dir) => write_memory(version, dir, limits.memory),
        None => Ok(Swap::Unlimited),
    }
}

/// Sets the memory limit of a new or a running group.
pub(super) fn write_memory(version: Version, dir: &Path, bytes: u64) -> Result<Swap, Error> {
    match version {
        Version::V2 => write_memory_v2(dir, bytes),
        _ => write_memory_v1(dir, bytes),
    }
}

fn write_memory_v2(dir: &Path, bytes: u64) -> Result<Swap, Error> {
    file::write(dir, "memory.max", &bytes.to_string())?;
    // Absent where the kernel has no swap, which has the same effect.
    file::write_if_present(dir, "memory.swap.max", "0")?;
    Ok(Swap::Refused)
}

/// Memory that all sandboxes may use together on a host with so much: a tenth of it, but at least
/// 256 MiB, is left to the host. A host with less than twice that is shared evenly.
pub(super) fn for_all_sandboxes(total: u64) -> u64 {
    const MIN_LEFT: u64 = 256 << 20;
    total - (total / 10).max(MIN_LEFT.min(total / 2))
}

/// Memory of this machine in bytes, if the kernel shows it.
pub(super) fn host_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    super::counters::keyed(&text, "MemTotal:")?.checked_mul(1024)
}

/// Sets the memory limit of all groups below the base together.
pub(super) fn write_base_memory(version: Version, dir: &Path, bytes: u64) -> Result<(), Error> {
    if version == Version::V2 {
        return file::write(dir, "memory.max", &bytes.to_string());
    }
    // Kernels before 5.11 count children only where this is set; newer ones always do.
    let _ = file::write_if_present(dir, "memory.use_hierarchy", "1");
    file::write(dir, "memory.limit_in_bytes", &bytes.to_string())
}

/// Sets both limits. Memory plus swap may never be below memory, so when raising, the sum is set
/// first.
fn write_memory_v1(dir: &Path, bytes: u64) -> Result<Swap, Error> {
    let buffers = (bytes / BUFFERS_DIVISOR).to_string();
    file::write_if_present(dir, "memory.kmem.tcp.limit_in_bytes", &buffers)?;
    let memory = || file::write(dir, "memory.limit_in_bytes", &bytes.to_string());
    let sum = bytes.saturating_add(SUM_SLACK).to_string();
    let sum = || file::write_if_present(dir, "memory.memsw.limit_in_bytes", &sum);
    let is_swap_counted = match memory() {
        Err(error) if error.is(libc::EINVAL) => {
            let is_counted = sum()?;
            memory()?;
            is_counted
        }
        other => other.and_then(|()| sum())?,
    };
    if is_swap_counted {
        return Ok(Swap::Refused);
    }
    file::write(dir, "memory.swappiness", "0")?;
    Ok(Swap::Discouraged)
}

fn write_cpu(version: Version, dir: &Path, cpu_millis: u32) -> Result<(), Error> {
    let quota = quota_micros(cpu_millis);
    match version {
        Version::V2 => file::write(dir, "cpu.max", &format!("{quota} {PERIOD_MICROS}")),
        _ => file::write(dir, "cpu.cfs_quota_us", &quota.to_string()),
    }
}

fn quota_micros(cpu_millis: u32) -> u64 {
    (u64::from(cpu_millis) * PERIOD_MICROS / 1000).max(MIN_QUOTA_MICROS)
}

fn pids_value(pids: u32) -> String {
    if pids > MAX_PIDS { "max".to_owned() } else { pids.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_a_share_of_the_period_and_never_below_what_the_kernel_takes() {
        for (cpu_millis, micros) in [(0, 1_000), (5, 1_000), (500, 50_000), (2_500, 250_000)] {
            assert_eq!(quota_micros(cpu_millis), micros);
        }
        assert_eq!(quota_micros(u32::MAX), 429_496_729_500);
    }

    #[test]
    fn the_host_keeps_a_tenth_of_its_memory_and_at_least_256_mebibytes() {
        const MIB: u64 = 1 << 20;
        for (total, given) in [(64_000, 57_600), (2_000, 1_744), (1_000, 744), (400, 200)] {
            assert_eq!(for_all_sandboxes(total * MIB), given * MIB, "{total}");
        }
        assert_eq!(for_all_sandboxes(0), 0);
    }

    #[test]
    fn more_processes_than_the_kernel_can_number_means_no_limit() {
        assert_eq!(pids_value(64), "64");
        assert_eq!(pids_value(MAX_PIDS), "4194304");
        assert_eq!(pids_value(MAX_PIDS + 1), "max");
    }
}
