//! Leftovers of a server on the host: processes, cgroups, mounts.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// One process for good: its id and when it started.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Process {
    pid: u32,
    started: u64,
}

impl Process {
    /// Whether it still runs; one that only waits to be reaped does not.
    pub(crate) fn lives(&self) -> bool {
        stat(self.pid).is_some_and(|stat| stat.started == self.started && !stat.is_dead)
    }
}

struct Stat {
    parent: u32,
    started: u64,
    is_dead: bool,
}

fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    Some(Stat {
        is_dead: matches!(fields[0], "Z" | "X"),
        parent: fields[1].parse().ok()?,
        started: fields[19].parse().ok()?,
    })
}

/// Everything that descends from a process.
pub(crate) fn descendants(pid: u32) -> BTreeSet<Process> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let all: Vec<_> = pids.filter_map(|pid| Some((pid, stat(pid)?))).collect();
    let (mut found, mut parents) = (BTreeSet::new(), vec![pid]);
    while let Some(parent) = parents.pop() {
        for (pid, stat) in all.iter().filter(|(_, stat)| stat.parent == parent) {
            if found.insert(Process { pid: *pid, started: stat.started }) {
                parents.push(*pid);
            }
        }
    }
    found
}

/// The helpers of a server: its own children, and every first process of a pid namespace.
pub(crate) fn helpers(server: u32) -> Vec<u32> {
    let is_helper = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let is_first =
            numbers.is_some_and(|numbers| numbers.split_whitespace().last() == Some("1"));
        is_first || stat(pid).is_some_and(|stat| stat.parent == server)
    };
    descendants(server).iter().map(|process| process.pid).filter(|pid| is_helper(*pid)).collect()
}

/// Directories of the control groups that a server made, by its process id.
pub(crate) fn groups(pid: u32) -> Vec<PathBuf> {
    let mut found = Vec::new();
    search(Path::new("/sys/fs/cgroup"), &format!(".{pid}."), 6, &mut found);
    found
}

fn search(dir: &Path, part: &str, depth: usize, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("ringfence.") && name.contains(part) {
            found.push(entry.path());
        } else if depth > 0 {
            search(&entry.path(), part, depth - 1, found);
        }
    }
}

/// Mounts of the host that are ours by name.
pub(crate) fn mounts() -> BTreeSet<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").expect("the mounts");
    table.lines().filter(|line| line.contains("ringfence")).map(str::to_owned).collect()
}
