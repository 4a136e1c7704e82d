//! Counts of what sandboxes leave: processes, cgroups, mounts, namespaces, descriptors, files.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Everything one service process and its helpers hold at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) processes: BTreeSet<String>,
    pub(crate) cgroups: BTreeSet<PathBuf>,
    pub(crate) namespaces: BTreeSet<String>,
    pub(crate) mounts: usize,
    pub(crate) descriptors: usize,
    pub(crate) threads: usize,
    pub(crate) temporary: usize,
}

impl Census {
    /// Census of the service with this pid whose helpers run `exe`.
    pub(crate) fn of(pid: u32, exe: &Path) -> Self {
        let processes = processes(pid, exe);
        let namespaces = processes.iter().flat_map(|(pid, _)| namespaces(*pid)).collect();
        Self {
            processes: processes.into_iter().map(|(pid, name)| format!("{pid} {name}")).collect(),
            cgroups: cgroups(pid),
            namespaces,
            mounts: fs::read_to_string("/proc/self/mountinfo").expect("mountinfo").lines().count(),
            descriptors: count(&format!("/proc/{pid}/fd")),
            threads: count(&format!("/proc/{pid}/task")),
            temporary: count("/tmp"),
        }
    }

    /// Whether nothing is left that a service makes for others.
    pub(crate) fn is_clean(&self) -> bool {
        self.processes.is_empty() && self.cgroups.is_empty() && self.namespaces.is_empty()
    }
}

fn count(dir: &str) -> usize {
    fs::read_dir(dir).map(Iterator::count).unwrap_or_default()
}

/// Pid and name of every process that belongs to the service: its helpers and their descendants,
/// and processes in its cgroups.
fn processes(service: u32, exe: &Path) -> Vec<(u32, String)> {
    let family = family(exe);
    let caught = |pid: &u32| {
        let cgroup = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        family.contains(pid) || cgroup.contains(&mark(service))
    };
    let named = |pid| (pid, fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default());
    pids().filter(caught).map(named).map(|(pid, name)| (pid, name.trim().into())).collect()
}

/// Processes that run this copy of the binary, and all that descend from them.
pub(crate) fn family(exe: &Path) -> BTreeSet<u32> {
    let parents: Vec<(u32, u32)> = pids().filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let runs = |pid: &u32| runs(*pid, exe);
    let mut family: BTreeSet<u32> = parents.iter().map(|(pid, _)| *pid).filter(runs).collect();
    loop {
        let known = family.len();
        let born = parents.iter().filter(|(_, parent)| family.contains(parent));
        let born: Vec<u32> = born.map(|(pid, _)| *pid).collect();
        family.extend(born);
        if family.len() == known {
            return family;
        }
    }
}

fn runs(pid: u32, exe: &Path) -> bool {
    let id = |file: fs::Metadata| (file.dev(), file.ino());
    let theirs = fs::metadata(format!("/proc/{pid}/exe")).map(id).ok();
    theirs.is_some() && theirs == fs::metadata(exe).map(id).ok()
}

fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").expect("proc").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Prefix of the names of the service's cgroups, in its own pid namespace.
fn mark(service: u32) -> String {
    let namespace = fs::metadata("/proc/self/ns/pid").expect("own namespace").ino();
    format!("ringfence.{namespace}.{service}.")
}

/// Directories of the service in every hierarchy, with all below.
pub(crate) fn cgroups(service: u32) -> BTreeSet<PathBuf> {
    let mark = mark(service);
    let mut found = BTreeSet::new();
    let mut left = vec![(PathBuf::from("/sys/fs/cgroup"), false)];
    while let Some((dir, inside)) = left.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let inside = inside || entry.file_name().to_string_lossy().starts_with(&mark);
                if inside {
                    found.insert(entry.path());
                }
                left.push((entry.path(), inside));
            }
        }
    }
    found
}

/// Namespaces of a process that are not our own.
pub(crate) fn namespaces(pid: u32) -> BTreeSet<String> {
    const KINDS: [&str; 7] = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"];
    let link = |whose: &str, kind: &str| {
        let path = fs::read_link(format!("/proc/{whose}/ns/{kind}")).ok()?;
        Some(path.to_string_lossy().into_owned())
    };
    let foreign = |kind: &&str| {
        link(&pid.to_string(), kind).filter(|theirs| Some(theirs) != link("self", kind).as_ref())
    };
    KINDS.iter().filter_map(foreign).collect()
}

/// Templates: they run our binary, first in a pid namespace below ours.
pub(crate) fn templates(exe: &Path) -> Vec<u32> {
    helpers(exe, 1)
}

/// Zygotes: they run an interpreter, first in a pid namespace below a template's.
pub(crate) fn zygotes(exe: &Path) -> Vec<u32> {
    let level = namespace_pids(std::process::id()).len() + 2;
    let is_first = |pid: &u32| {
        let pids = namespace_pids(*pid);
        !runs(*pid, exe) && pids.len() == level && pids.last() == Some(&1)
    };
    family(exe).into_iter().filter(is_first).collect()
}

/// Spawners: they run our binary in our own pid namespace.
pub(crate) fn spawners(exe: &Path) -> Vec<u32> {
    helpers(exe, 0)
}

fn helpers(exe: &Path, below: usize) -> Vec<u32> {
    let level = namespace_pids(std::process::id()).len() + below;
    let is_helper = |pid: &u32| runs(*pid, exe) && namespace_pids(*pid).len() == level;
    family(exe).into_iter().filter(is_helper).collect()
}

/// Inits of sandboxes, cold or forked, and zygotes: first in a namespace two or three below.
pub(crate) fn first_processes(exe: &Path) -> Vec<u32> {
    let own = namespace_pids(std::process::id()).len();
    let is_first = |pids: &[u32]| pids.len() >= own + 2 && pids.last() == Some(&1);
    family(exe).into_iter().filter(|pid| is_first(&namespace_pids(*pid))).collect()
}

/// A process's number in every pid namespace it is in, ours first.
pub(crate) fn namespace_pids(pid: u32) -> Vec<u32> {
    status(pid, "NSpid:")
}

/// The numbers after one word of a process's status; none if the process is gone.
pub(crate) fn status(pid: u32, key: &str) -> Vec<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    line.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

/// Continues every process of the service that has stopped itself.
pub(crate) fn wake(exe: &Path) {
    use rustix::process::{Pid, Signal, kill_process};
    for pid in family(exe).into_iter().filter_map(|pid| Pid::from_raw(pid.cast_signed())) {
        let _ = kill_process(pid, Signal::CONT);
    }
}

/// Kills one process of the service. Its pid may have been reused by now, so it is opened first and
/// then checked once more.
pub(crate) fn kill(pid: u32, exe: &Path) {
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
    let held = Pid::from_raw(pid.cast_signed()).map(|pid| pidfd_open(pid, PidfdFlags::empty()));
    if let Some(Ok(held)) = held
        && family(exe).contains(&pid)
    {
        let _ = pidfd_send_signal(held, Signal::KILL);
    }
}
