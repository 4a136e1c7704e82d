//! Resource usage of a session.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ringfence_types::Bytes;

use super::{Error, shared::Shared};

/// Usage measured from outside; `None` where the host does not count it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Time since its creation, pauses included.
    pub uptime: Duration,
    /// Cpu time of all its processes, dead ones included.
    pub cpu_total: Option<Duration>,
    /// The part spent in user code.
    pub cpu_user: Option<Duration>,
    /// The part spent in the kernel.
    pub cpu_system: Option<Duration>,
    /// Current memory, workspace included as far as programs inside wrote it.
    pub memory_now: Option<Bytes>,
    /// Largest memory at one time.
    pub memory_peak: Option<Bytes>,
    /// Processes that the kernel killed because memory ran out.
    pub oom_kills: Option<u64>,
    /// Current processes and threads, without the init.
    pub processes_now: Option<u64>,
    /// Largest number at one time.
    pub processes_peak: Option<u64>,
    /// Bytes used in workspace, `/tmp` and `/dev/shm`.
    pub disk_used: Bytes,
    /// Largest allowed number of bytes.
    pub disk_total: Bytes,
    /// Files in the same places, our own four directories included.
    pub files_used: u64,
    /// Largest allowed number of files.
    pub files_total: u64,
}

pub(super) fn metrics(shared: &Arc<Shared>) -> Result<Metrics, Error> {
    let used = shared.look()?;
    let stats = match &used.jailed.group {
        Some(group) => group.stats().map_err(crate::Error::from)?,
        None => Default::default(),
    };
    let disk = used.jailed.workspace.as_ref().ok_or(crate::Error::Gone("workspace"))?;
    let disk = rustix::fs::fstatvfs(disk)
        .map_err(|errno| Error::io("look at the workspace")(errno.into()))?;
    let without_init = |count: u64| count.saturating_sub(1);
    Ok(Metrics {
        uptime: shared.with_clock(|clock| Instant::now().duration_since(clock.created)),
        cpu_total: stats.cpu_total,
        cpu_user: stats.cpu_user,
        cpu_system: stats.cpu_system,
        memory_now: stats.memory_now.map(Bytes),
        memory_peak: stats.memory_peak.map(Bytes),
        oom_kills: stats.oom_kills,
        processes_now: stats.pids_now.map(without_init),
        processes_peak: stats.pids_peak.map(without_init),
        disk_used: Bytes((disk.f_blocks - disk.f_bfree) * disk.f_frsize),
        disk_total: Bytes(disk.f_blocks * disk.f_frsize),
        files_used: disk.f_files - disk.f_ffree,
        files_total: disk.f_files,
    })
}
