//! Copies a directory of the host into a root file system; hard links are kept, links not followed.

use std::{collections::HashMap, fs::File};

use rustix::fs::{Mode, OFlags};

use super::{Error, Problem, rootfs::Rootfs};
use crate::{
    archive::{Meta, Sink, UnpackLimits},
    files::{BoxPath, Entry, Kind, ListOptions, Refused, Tree, list, magic_path, read_link},
};

/// Copies all of `source`. Devices, FIFOs, sockets and other mounts are left out: a sandbox has its
/// own `/dev` and `/proc`.
pub(super) fn copy(
    source: &Tree,
    rootfs: &mut Rootfs<'_>,
    limits: UnpackLimits,
) -> Result<(), Error> {
    let options = ListOptions {
        recursive: true,
        max_entries: usize::try_from(limits.entries).unwrap_or(usize::MAX).saturating_add(1),
        max_depth: limits.depth,
    };
    let listing = list::list(source, &BoxPath::root(), options)
        .map_err(|refused| Error::new("directory", refused))?;
    if listing.entries.len() as u64 > limits.entries {
        let problem = Problem::Over { what: "entries", limit: limits.entries };
        return Err(Error::new("directory", problem));
    }
    if !listing.is_complete() {
        rootfs.notes.add("directory", "what lies too deep or cannot be read was left out");
    }
    let mut linked = HashMap::new();
    let mut bytes = 0_u64;
    for entry in &listing.entries {
        bytes = bytes.saturating_add(if entry.kind == Kind::File { entry.size } else { 0 });
        if bytes > limits.bytes {
            let problem = Problem::Over { what: "bytes", limit: limits.bytes };
            return Err(Error::new(entry.path.to_string(), problem));
        }
        copy_entry(source, rootfs, entry, &mut linked)
            .map_err(|refused| Error::new(entry.path.to_string(), refused))?;
    }
    Ok(())
}

fn copy_entry(
    source: &Tree,
    rootfs: &mut Rootfs<'_>,
    entry: &Entry,
    linked: &mut HashMap<(u64, u64), BoxPath>,
) -> Result<(), Refused> {
    let path = &entry.path;
    if entry.mode & 0o6000 != 0 && entry.kind == Kind::File {
        rootfs.notes.add(&path.to_string(), "set-user-id or set-group-id bit dropped");
    }
    let meta = Meta { mode: entry.mode & 0o1777, modified_secs: entry.modified_secs };
    match entry.kind {
        Kind::Directory => rootfs.directory(path, meta),
        Kind::Symlink => rootfs.symlink(path, &read_link(source, path)?),
        Kind::File => copy_file(source, rootfs, path, meta, linked),
        kind => {
            rootfs.notes.add(&path.to_string(), &format!("{kind} left out"));
            Ok(())
        }
    }
}

fn copy_file(
    source: &Tree,
    rootfs: &mut Rootfs<'_>,
    path: &BoxPath,
    meta: Meta,
    linked: &mut HashMap<(u64, u64), BoxPath>,
) -> Result<(), Refused> {
    let (node, stat) = source.open_node(path)?;
    let id = (stat.st_dev, stat.st_ino);
    if let Some(original) = linked.get(&id) {
        return rootfs.hard_link(path, original);
    }
    if stat.st_nlink > 1 {
        linked.insert(id, path.clone());
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::open(magic_path(&node), flags, Mode::empty())
        .map_err(|errno| Refused::errno(path, errno))?;
    rootfs.file(path, meta, &mut File::from(file)).map(drop)
}
