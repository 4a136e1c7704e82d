//! CPU time of everything that a call causes.
//!
//! Sandboxes are not children of this process, so `getrusage` does not see them. On a version 1 host
//! this process moves into its own cpu accounting group, below which the library then puts its
//! groups: that group's counter is exact. Kernel workers, which tear namespaces down later, belong to
//! no group; only the counter of the whole machine has them, together with all other processes.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Source of CPU time.
#[derive(Debug)]
pub(crate) struct Meter {
    group: Option<PathBuf>,
    came_from: PathBuf,
}

/// One reading.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    pub(crate) own: Option<Duration>,
    pub(crate) machine: Duration,
}

impl Used {
    pub(crate) fn since(&self, before: &Self) -> Self {
        let own = self.own.zip(before.own).map(|(now, then)| now.saturating_sub(then));
        Self { own, machine: self.machine.saturating_sub(before.machine) }
    }
}

impl Meter {
    /// Moves this process into its own group where the host has cpu accounting groups.
    pub(crate) fn open() -> Self {
        let came_from = accounting_group().unwrap_or_default();
        let group = came_from.join(format!("ringfence-bench-{}", std::process::id()));
        let joined = !came_from.as_os_str().is_empty()
            && fs::create_dir(&group).is_ok()
            && fs::write(group.join("cgroup.procs"), "0").is_ok();
        Self { group: joined.then_some(group), came_from }
    }

    /// Name of the source, for the table.
    pub(crate) fn source(&self) -> &'static str {
        match self.group {
            Some(_) => "cpu accounting cgroup of the benchmark and all it started",
            None => "none: this host has no version 1 cpu accounting cgroup",
        }
    }

    pub(crate) fn read(&self) -> Used {
        let usage = self.group.as_ref().map(|group| group.join("cpuacct.usage"));
        let own = usage.and_then(|file| fs::read_to_string(file).ok());
        let own = own.and_then(|text| text.trim().parse().ok()).map(Duration::from_nanos);
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        Used { own, machine: busy(&stat) }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some(group) = &self.group {
            let _ = fs::write(self.came_from.join("cgroup.procs"), "0");
            remove_when_empty(group);
        }
    }
}

/// Removes a group once its last process is gone.
pub(crate) fn remove_when_empty(group: &Path) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while fs::remove_dir(group).is_err() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Accounting group of this process.
pub(crate) fn accounting_group() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let memberships = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = membership(&memberships, "cpuacct")?.trim_start_matches('/').to_owned();
    Some(PathBuf::from(mount_point(&mounts, "cpuacct")?).join(path))
}

/// Path of this process's group in the hierarchy with this controller.
fn membership<'a>(text: &'a str, controller: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let has_it = fields.next()?.split(',').any(|name| name == controller);
        fields.next().filter(|_| has_it)
    })
}

/// Mount point of the version 1 hierarchy with this controller.
fn mount_point<'a>(text: &'a str, controller: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let [_, point, "cgroup", options, ..] = fields[..] else { return None };
        options.split(',').any(|option| option == controller).then_some(point)
    })
}

/// Time in which the processors were busy: user, nice, system, interrupts; not stolen time.
pub(crate) fn busy(stat: &str) -> Duration {
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<u64> =
        line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    let used = [0, 1, 2, 5, 6].iter().filter_map(|index| ticks.get(*index)).sum::<u64>();
    // The kernel reports 100 ticks a second on every supported architecture.
    Duration::from_millis(used * 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_waiting_and_stolen_ticks_are_not_busy() {
        let stat = "cpu  1 2 3 1000 500 4 5 77 0 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n";
        assert_eq!(busy(stat), Duration::from_millis(150));
        assert_eq!(busy(""), Duration::ZERO);
    }

    #[test]
    fn a_controller_is_found_among_those_mounted_together() {
        let mounts = "proc /proc proc rw 0 0\ncgroup /c/cpu cgroup rw,cpu,cpuacct 0 0\n";
        assert_eq!(mount_point(mounts, "cpuacct"), Some("/c/cpu"));
        assert_eq!(mount_point(mounts, "acct"), None);
        assert_eq!(membership("2:cpu,cpuacct:/a:b\n0::/\n", "cpuacct"), Some("/a:b"));
        assert_eq!(membership("0::/\n", "cpuacct"), None);
    }
}
