//! Processes of a run that are still on the host after it ended.

use std::{
    fs,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

/// Processes other than this one whose command line contains the marker.
pub(crate) fn find(marker: &str) -> Vec<Pid> {
    let own = std::process::id();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != own && carries(*pid, marker) && !is_zombie(*pid))
        .filter_map(|pid| Pid::from_raw(pid.cast_signed()))
        .collect()
}

fn carries(pid: u32, marker: &str) -> bool {
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    command.windows(marker.len()).any(|window| window == marker.as_bytes())
}

/// Whether it is a zombie, which runs no code and will be reaped by its parent.
fn is_zombie(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}

/// Waits until no process is left or the time is over; returns those left.
pub(crate) fn remaining(marker: &str, timeout: Duration) -> Vec<Pid> {
    let deadline = Instant::now() + timeout;
    loop {
        let found = find(marker);
        if found.is_empty() || Instant::now() >= deadline {
            return found;
        }
        // Polling is the only way: these are not our children.
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Kills the processes that are left. They carry a marker that we made up, so they are ours.
pub(crate) fn end(survivors: &[Pid]) {
    for pid in survivors {
        let _ = kill_process(*pid, Signal::KILL);
    }
}
