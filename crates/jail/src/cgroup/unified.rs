//! Version 2: the place of our groups, and delegation of controllers to them.
//!
//! A group gives controllers to its children only if it holds no process itself (the root
//! excepted). So either we are alone in our group and can move into a leaf, or we are in a
//! container whose processes may all be moved, or we are root and use the top of the tree as
//! container engines without systemd do.

use super::Error;
use super::controllers::{Available, Controllers, Dirs, NAMES};
use super::counters;
use super::file;
use super::group;
use super::host::{Host, undelegated, usable};
use super::layout::{GroupPath, Version};
use super::reason::Reason;
use super::remedy;
use std::path::{Path, PathBuf};

/// Name of the leaf that takes the processes of a group that must have none.
pub(super) const LEAF: &str = "ringfence-host";

/// Controllers that set limits; a site without one of them is second choice.
const LIMITING: [&str; 3] = ["memory", "cpu", "pids"];

/// Directory in which groups are made, and its usable controllers.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) controllers: Controllers<Available>,
    /// Whether the processes of the site may be moved into the leaf.
    pub(super) move_neighbours: bool,
}

/// Chooses our own group if it is usable; otherwise the top of the tree if we may use it; otherwise
/// our own with reasons.
pub(super) fn choose(place: &GroupPath) -> Site {
    let own = step_out_of_leaf(&place.own);
    let is_top = own == place.top;
    let first = examine(&own, is_top);
    if is_top || first.is_complete() {
        return first;
    }
    let top = examine(&place.top, false);
    if top.is_complete() && is_real_root(&place.top) { top } else { first }
}

/// Parent of the leaf: after a first base this process is in the leaf.
fn step_out_of_leaf(own: &Path) -> PathBuf {
    match (own.file_name(), own.parent()) {
        (Some(name), Some(parent)) if name == LEAF => parent.to_owned(),
        _ => own.to_owned(),
    }
}

impl Site {
    fn is_complete(&self) -> bool {
        let Controllers { memory, cpu, pids, .. } = &self.controllers;
        memory.is_ok() && cpu.is_ok() && pids.is_ok()
    }
}

fn examine(dir: &Path, move_neighbours: bool) -> Site {
    let controllers = match permitted(dir, move_neighbours) {
        Err(reason) => NAMES.map(|_| Err(reason.clone())),
        Ok(()) => offered(dir),
    };
    Site { controllers, move_neighbours }
}

fn offered(dir: &Path) -> Controllers<Available> {
    let offered = file::read(dir, "cgroup.controllers").unwrap_or_default();
    NAMES.map(|name| {
        // Time accounting and freezing need no controller.
        let is_built_in = matches!(name, "cpuacct" | "freezer");
        if is_built_in || offered.split_ascii_whitespace().any(|word| word == name) {
            return Ok(dir.to_owned());
        }
        let what = format!("the {name} controller was not delegated to this user");
        Err(undelegated(what, Version::V2).at(dir))
    })
}

fn permitted(dir: &Path, move_neighbours: bool) -> Result<(), Reason> {
    usable(dir, Version::V2)?;
    usable(&dir.join("cgroup.procs"), Version::V2)?;
    usable(&dir.join("cgroup.subtree_control"), Version::V2)?;
    if is_real_root(dir) || gives_already(dir) || move_neighbours || is_alone(dir) {
        return Ok(());
    }
    let what = "other processes share our control group, so it can give no controllers";
    Err(undelegated(what, Version::V2).at(dir))
}

/// Whether this is the real root, which has no type; the root of a namespace is a group like any
/// other.
fn is_real_root(dir: &Path) -> bool {
    !dir.join("cgroup.type").exists()
}

fn gives_already(dir: &Path) -> bool {
    let given = file::read(dir, "cgroup.subtree_control").unwrap_or_default();
    LIMITING.iter().all(|name| given.split_ascii_whitespace().any(|word| word == *name))
}

fn is_alone(dir: &Path) -> bool {
    let ourselves = rustix::process::getpid().as_raw_nonzero().get();
    let text = file::read(dir, "cgroup.procs").unwrap_or_default();
    counters::pids(&text).all(|pid| pid == ourselves)
}

/// Makes the base directory with every controller the host found available.
pub(super) fn make_base(host: &Host, dirs: &Dirs) -> Result<(), Error> {
    let distinct = dirs.distinct();
    let Some(base) = distinct.first() else { return Ok(()) };
    let site = base.parent().unwrap_or(base);
    let wanted = wanted(dirs);
    if wanted.is_empty() {
        return group::make_all(&distinct);
    }
    let movers = if host.move_neighbours() { Movers::Everyone } else { Movers::Only("0") };
    give(site, &wanted, movers)?;
    group::make_all(&distinct)?;
    hand_down(dirs).inspect_err(|_| {
        let _ = rustix::fs::rmdir(base);
    })
}

/// Gives the controllers of the base to the groups below it.
pub(super) fn hand_down(dirs: &Dirs) -> Result<(), Error> {
    let wanted = wanted(dirs);
    match dirs.distinct().first() {
        Some(base) if !wanted.is_empty() => file::write(base, "cgroup.subtree_control", &wanted),
        _ => Ok(()),
    }
}

fn wanted(dirs: &Dirs) -> String {
    let given =
        [("+memory", &dirs.memory), ("+cpu", &dirs.cpu), ("+pids", &dirs.pids), ("+io", &dirs.io)];
    let words: Vec<&str> =
        given.iter().filter(|(_, dir)| dir.is_some()).map(|(word, _)| *word).collect();
    words.join(" ")
}

/// Processes to move when they are in the way.
#[derive(Debug, Clone, Copy)]
pub(super) enum Movers<'a> {
    /// One process; `0` is this one.
    Only(&'a str),
    Everyone,
}

/// Enables the controllers for children, moving processes if the kernel says that they are in the
/// way.
pub(super) fn give(site: &Path, wanted: &str, movers: Movers<'_>) -> Result<(), Error> {
    let attempt = || file::write(site, "cgroup.subtree_control", wanted);
    match attempt() {
        Err(error) if error.is(libc::EBUSY) => {}
        other => return other.map_err(|error| error.with_hint(remedy::delegation(Version::V2))),
    }
    let leaf = site.join(LEAF);
    match file::make_dir(&leaf) {
        Err(error) if error.is(libc::EEXIST) => {}
        other => other?,
    }
    match movers {
        Movers::Only(pid) => file::write(&leaf, "cgroup.procs", pid)?,
        Movers::Everyone => move_all(site, &leaf)?,
    }
    attempt().map_err(|error| error.with_hint(remedy::delegation(Version::V2)))
}

/// Moves all processes. One that exits meanwhile is skipped; a new one is seen in the next round.
fn move_all(from: &Path, to: &Path) -> Result<(), Error> {
    for _ in 0..100 {
        let text = file::read(from, "cgroup.procs")?;
        let mut pids = counters::pids(&text).peekable();
        if pids.peek().is_none() {
            return Ok(());
        }
        for pid in pids {
            match file::write(to, "cgroup.procs", &pid.to_string()) {
                Err(error) if !error.is(libc::ESRCH) => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}
