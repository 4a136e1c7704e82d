//! Control groups of this machine, found without changing anything.

use super::controllers::{Absent, Available, Controllers, Dirs, NAMES};
use super::layout::{self, GroupPath, Layout, Texts, Version};
use super::reason::Reason;
use super::{remedy, unified};
use rustix::fs::{Access, AtFlags, CWD, accessat, statfs};
use rustix::io::Errno;
use std::fs;
use std::path::{Path, PathBuf};

/// Available control groups: a directory per controller, or the reason why there is none.
#[derive(Debug)]
pub struct Host {
    /// Mounted version.
    pub version: Version,
    /// Memory limits and out-of-memory evidence.
    pub memory: Available,
    /// The share of cpu time.
    pub cpu: Available,
    /// Counting cpu time; built into version 2.
    pub cpuacct: Available,
    /// The number of processes.
    pub pids: Available,
    /// Pausing; built into version 2.
    pub freezer: Available,
    /// Block device counters; version 2 alone.
    pub io: Available,
    tops: Vec<PathBuf>,
    move_neighbours: bool,
}

impl Host {
    /// Inspects this process and its mounts. If `/proc` cannot be read, the host counts as one
    /// without groups.
    pub fn detect() -> Host {
        let layout = read_layout();
        match layout.version {
            Version::V2 => from_unified(layout),
            _ => from_legacy(layout),
        }
    }

    /// The unified hierarchy alone, for any version: it works without controllers.
    #[cfg(test)]
    pub(super) fn detect_unified() -> Host {
        from_unified(Layout { version: Version::V2, ..read_layout() })
    }

    /// Each controller by name, in a stable order.
    pub fn controllers(&self) -> [(&'static str, &Available); 6] {
        let Host { memory, cpu, cpuacct, pids, freezer, io, .. } = self;
        let all = [memory, cpu, cpuacct, pids, freezer, io];
        std::array::from_fn(|at| (NAMES.into_array()[at], all[at]))
    }

    /// Whether a limit is unavailable that a delegated group of the unified hierarchy would have.
    pub fn needs_delegation(&self) -> bool {
        let limiting = [&self.memory, &self.cpu, &self.pids];
        self.version == Version::V2 && limiting.iter().any(|available| available.is_err())
    }

    /// Controllers that cannot be used, with reasons.
    pub fn absent(&self) -> Vec<Absent> {
        let reasons = self.controllers().into_iter().filter_map(|(controller, available)| {
            let reason = available.as_ref().err()?.clone();
            Some(Absent { controller, reason })
        });
        reasons.collect()
    }

    /// The directory below which the base goes, per controller.
    pub(super) fn sites(&self) -> Dirs {
        let Host { memory, cpu, cpuacct, pids, freezer, io, .. } = self;
        Controllers { memory, cpu, cpuacct, pids, freezer, io }
            .map(|site| site.as_ref().ok().cloned())
    }

    /// The topmost group of each hierarchy we use.
    pub(super) fn tops(&self) -> &[PathBuf] {
        &self.tops
    }

    /// Version 2: whether the other processes of our group may be moved into a leaf.
    pub(super) fn move_neighbours(&self) -> bool {
        self.move_neighbours
    }

    fn new(version: Version, controllers: Controllers<Available>, tops: Vec<PathBuf>) -> Host {
        let Controllers { memory, cpu, cpuacct, pids, freezer, io } = controllers;
        Host { version, memory, cpu, cpuacct, pids, freezer, io, tops, move_neighbours: false }
    }
}

fn read_layout() -> Layout {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    layout::read(Texts {
        mountinfo: &read("/proc/self/mountinfo"),
        membership: &read("/proc/self/cgroup"),
        kernel: &read("/proc/cgroups"),
    })
}

fn from_unified(layout: Layout) -> Host {
    match layout.unified {
        Err(reason) => Host::new(layout.version, NAMES.map(|_| Err(reason.clone())), Vec::new()),
        Ok(place) => {
            let site = unified::choose(&place);
            let host = Host::new(layout.version, site.controllers, vec![place.top]);
            Host { move_neighbours: site.move_neighbours, ..host }
        }
    }
}

fn from_legacy(layout: Layout) -> Host {
    let places = layout.legacy.as_ref().map(|place| place.as_ref().ok());
    let mut tops: Vec<PathBuf> =
        places.into_array().into_iter().flatten().map(|place| place.top.clone()).collect();
    tops.sort();
    tops.dedup();
    let usable = |place: GroupPath| usable(&place.own, Version::V1).map(|()| place.own);
    let mut controllers = layout.legacy.map(|place| place.and_then(usable));
    controllers.io = Err(Reason::new("block device counters are read in version 2 only"));
    Host::new(layout.version, controllers, tops)
}

/// Checks that the directory is writable and really part of a control group file system.
pub(super) fn usable(path: &Path, version: Version) -> Result<(), Reason> {
    let kind = statfs(path).map_err(|errno| {
        Reason::new(format!("the control group cannot be used: {errno}")).at(path)
    })?;
    let magics = [libc::CGROUP_SUPER_MAGIC as u64, libc::CGROUP2_SUPER_MAGIC as u64];
    if !magics.contains(&(kind.f_type as u64)) {
        return Err(Reason::new("something else is mounted over the control groups").at(path));
    }
    let refused = accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS);
    refused.map_err(|errno| match errno {
        Errno::ROFS => Reason::with_fix(
            "control groups are mounted read-only",
            "mount them writable: in Docker `--privileged` or `--security-opt writable-cgroups=true`",
        )
        .at(path),
        Errno::ACCESS | Errno::PERM => {
            undelegated("no control group was delegated to this user", version).at(path)
        }
        _ => Reason::new(format!("the control group cannot be written: {errno}")).at(path),
    })
}

/// Reason for a group that was not delegated to this user.
pub(super) fn undelegated(what: impl Into<String>, version: Version) -> Reason {
    Reason { fix: remedy::delegation(version), ..Reason::new(what) }
}
