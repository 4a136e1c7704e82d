//! Directory of each controller, derived from the text of three `/proc` files: no I/O.
//!
//! The controllers decide the version: as soon as one of the limiting ones (memory, cpu, pids) is
//! mounted in version 1, the unified hierarchy cannot have it, and version 1 is used.

use super::controllers::{Controllers, NAMES};
use super::membership::{self, Built, Membership};
use super::mountinfo::{self, Hierarchy, Mount};
use super::reason::Reason;
use serde::{Deserialize, Serialize};
use std::path::{Component, Path, PathBuf};

/// Version of control groups on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Version {
    /// Version 1 hierarchies alone.
    V1,
    /// The unified hierarchy with its controllers.
    V2,
    /// Version 1 controllers; the unified hierarchy is mounted beside them without any.
    Hybrid,
    /// No control group file system is mounted.
    Absent,
}

/// Our own group in one hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GroupPath {
    /// The mount point: the topmost group we can see.
    pub(super) top: PathBuf,
    /// The group this process is in.
    pub(super) own: PathBuf,
}

/// Groups of this process in each hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) version: Version,
    pub(super) unified: Result<GroupPath, Reason>,
    /// Version 1 only; `io` is used in version 2 alone.
    pub(super) legacy: Controllers<Result<GroupPath, Reason>>,
}

/// Texts of `/proc/self/mountinfo`, `/proc/self/cgroup` and `/proc/cgroups`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Texts<'a> {
    pub(super) mountinfo: &'a str,
    pub(super) membership: &'a str,
    pub(super) kernel: &'a str,
}

pub(super) fn read(texts: Texts<'_>) -> Layout {
    let mounts = mountinfo::parse(texts.mountinfo);
    let memberships = membership::parse(texts.membership);
    Layout {
        version: version(&mounts),
        unified: unified(&mounts, &memberships),
        legacy: NAMES.map(|name| legacy(name, &mounts, &memberships, texts.kernel)),
    }
}

fn version(mounts: &[Mount]) -> Version {
    let limiting = ["memory", "cpu", "pids"];
    let legacy = mounts.iter().any(|mount| limiting.iter().any(|name| mount.carries(name)));
    let unified = mounts.iter().any(|mount| mount.hierarchy == Hierarchy::V2);
    match (legacy, unified) {
        (true, true) => Version::Hybrid,
        (true, false) => Version::V1,
        (false, true) => Version::V2,
        (false, false) => Version::Absent,
    }
}

fn unified(mounts: &[Mount], memberships: &[Membership]) -> Result<GroupPath, Reason> {
    let candidates = mounts.iter().filter(|mount| mount.hierarchy == Hierarchy::V2);
    let own = memberships.iter().find(|membership| membership.controllers.is_empty());
    locate(candidates, own).unwrap_or_else(|| {
        let what = "control groups version 2 are not mounted";
        Err(Reason::with_fix(what, "mount -t cgroup2 none /sys/fs/cgroup"))
    })
}

fn legacy(
    name: &str,
    mounts: &[Mount],
    memberships: &[Membership],
    kernel: &str,
) -> Result<GroupPath, Reason> {
    let candidates = mounts.iter().filter(|mount| mount.carries(name));
    let own = memberships.iter().find(|m| m.controllers.iter().any(|c| c == name));
    locate(candidates, own).unwrap_or_else(|| Err(why_unmounted(name, kernel)))
}

fn why_unmounted(name: &str, kernel: &str) -> Reason {
    match membership::built(kernel, name) {
        Built::No => Reason::new(format!("this kernel has no {name} controller")),
        Built::Disabled => Reason::with_fix(
            format!("the {name} controller is switched off at boot"),
            format!("add cgroup_enable={name} to the kernel command line"),
        ),
        Built::Enabled { attached: true } => Reason::new(format!(
            "the {name} controller is in use, but not mounted where this process can see it"
        )),
        Built::Enabled { attached: false } => Reason::with_fix(
            format!("the {name} controller is not mounted"),
            format!("mount -t cgroup -o {name} none /sys/fs/cgroup/{name}"),
        ),
    }
}

/// The first mount that shows our group; `None` if there is no mount at all.
fn locate<'a>(
    candidates: impl Iterator<Item = &'a Mount>,
    own: Option<&Membership>,
) -> Option<Result<GroupPath, Reason>> {
    let mut refusal = None;
    for mount in candidates {
        match place(mount, own) {
            Ok(place) => return Some(Ok(place)),
            Err(reason) => refusal = Some(Err(reason)),
        }
    }
    refusal
}

/// Path of our group. A container may see only its own part of a hierarchy, mounted as if it were
/// the whole.
fn place(mount: &Mount, own: Option<&Membership>) -> Result<GroupPath, Reason> {
    let path = &own.ok_or_else(unlisted)?.path;
    let outside = || {
        Reason::new("our own control group is not in the part of the hierarchy that is mounted")
            .at(path)
    };
    let relative = path.strip_prefix(&mount.root).map_err(|_| outside())?;
    if relative.components().any(|part| part == Component::ParentDir) {
        return Err(outside());
    }
    Ok(GroupPath { top: mount.point.clone(), own: join(&mount.point, relative) })
}

fn unlisted() -> Reason {
    Reason::new("/proc/self/cgroup does not list this hierarchy")
}

/// Joins the paths; `Path::join` would leave a trailing slash for an empty relative path.
fn join(point: &Path, relative: &Path) -> PathBuf {
    if relative.as_os_str().is_empty() { point.to_owned() } else { point.join(relative) }
}

#[cfg(test)]
mod tests;
