//! What this machine offers, found out without changing anything.

use super::controllers::{Absent, Available, Controllers, Dirs, NAMES};
use super::layout::{self, Layout, Texts, Version};
use super::reason::Reason;
use super::unified;
use rustix::fs::{Access, AtFlags, CWD, accessat, statfs};
use rustix::io::Errno;
use std::fs;
use std::path::{Path, PathBuf};

/// The control groups we can use: a directory per controller, or in words why there is none.
#[derive(Debug)]
pub struct Host {
    /// Which generation is mounted.
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
    /// Looks at this process and its mounts. A `/proc` that cannot be read is a host without groups.
    pub fn detect() -> Host {
        let layout = read_layout();
        match layout.version {
            Version::V2 => from_unified(layout),
            _ => from_legacy(layout),
        }
    }

    /// The unified hierarchy alone, whatever the version: its mechanics work without controllers.
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

    /// The controllers we cannot use, with reasons.
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

    /// Version 2: may the other processes of our group be moved into a leaf?
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
    let mut controllers =
        layout.legacy.map(|place| place.and_then(|place| usable(&place.own).map(|()| place.own)));
    controllers.io = Err(Reason::new("block device counters are read in version 2 only"));
    Host::new(layout.version, controllers, tops)
}

/// May we write here, and is it really a control group file system that we see?
pub(super) fn usable(path: &Path) -> Result<(), Reason> {
    let shown = path.display();
    let kind =
        statfs(path).map_err(|errno| Reason::new(format!("{shown} cannot be used: {errno}")))?;
    let magics = [libc::CGROUP_SUPER_MAGIC as u64, libc::CGROUP2_SUPER_MAGIC as u64];
    if !magics.contains(&(kind.f_type as u64)) {
        return Err(Reason::new(format!("something else is mounted over {shown}")));
    }
    accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).map_err(|errno| match errno {
        Errno::ROFS => Reason::with_fix(
            format!("{shown} is mounted read-only"),
            "mount it writable: in Docker `--privileged` or `--security-opt writable-cgroups=true`",
        ),
        _ => Reason::with_fix(format!("{shown} is not ours to write ({errno})"), unified::HINT),
    })
}
