//! Removal of the leftovers of instances that were killed before they could clean up.
//!
//! The whole visible tree is searched, not only our own group: after a crash the service may be
//! started from another session, and the leftovers are in the old one's group.

use super::Error;
use super::group::Removal;
use super::instance::{Instance, own_pid_namespace};
use super::{Host, end};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time limit for one dead instance, whose processes have to exit.
const INSTANCE_TIMEOUT: Duration = Duration::from_secs(5);
/// Largest number of directories visited, far above the groups of a busy host.
const MAX_DIRECTORIES: usize = 50_000;

/// Result of a sweep.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Names of dead instances that are now removed.
    pub removed: Vec<String>,
    /// Names of dead instances with a process that did not end in time.
    pub busy: Vec<String>,
}

pub(super) fn sweep(host: &Host, goes_on: impl Fn() -> bool) -> Result<Swept, Error> {
    let namespace = own_pid_namespace()?;
    let mut swept = Swept::default();
    for (name, dirs) in find(host, namespace) {
        if !goes_on() {
            break;
        }
        match end::remove_trees(&dirs, INSTANCE_TIMEOUT)? {
            Removal::Gone => swept.removed.push(name),
            Removal::Busy => swept.busy.push(name),
        }
    }
    Ok(swept)
}

/// Directories of each dead instance, over all hierarchies: its processes are killed together,
/// because one that is frozen in one hierarchy keeps its directory in the others busy.
fn find(host: &Host, namespace: u64) -> BTreeMap<String, Vec<PathBuf>> {
    let mut found: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    let mut left = host.tops().to_vec();
    let mut visited = 0;
    while let Some(dir) = left.pop() {
        visited += 1;
        if visited > MAX_DIRECTORIES {
            break;
        }
        // A group that cannot be listed, or that vanished meanwhile, is skipped.
        for child in end::children(&dir).unwrap_or_default() {
            match instance_of(&child) {
                Some(instance) if is_ours_and_dead(&instance, namespace, &child) => {
                    found.entry(instance.to_string()).or_default().push(child);
                }
                Some(_) => {}
                None => left.push(child),
            }
        }
    }
    found
}

fn instance_of(dir: &Path) -> Option<Instance> {
    dir.file_name()?.to_str()?.parse().ok()
}

/// Whether the directory belongs to our own user and a dead instance: any user with a delegated
/// group can choose a name like ours, and could otherwise make us kill processes moved into it.
fn is_ours_and_dead(instance: &Instance, namespace: u64, dir: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    instance.pid_namespace == namespace
        && std::fs::symlink_metadata(dir).is_ok_and(|metadata| metadata.uid() == user)
        && instance.is_dead()
}
