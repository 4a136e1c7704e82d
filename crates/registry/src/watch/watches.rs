//! Change detection by inotify.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::{Mutex, PoisonError},
};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::net::unix::pipe;

use crate::files::{MAX_DEPTH, is_ignored};

/// Events that can change a skill; not reads, which scans cause themselves.
const CHANGES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// Folders watched in one place; beyond them, only the slow rescan finds changes.
const MAX_FOLDERS: usize = 8_192;

/// Watches on directories.
#[derive(Debug)]
pub(super) struct Watches {
    /// The inotify descriptor, read like a pipe.
    inotify: pipe::Receiver,
    /// Watches on the parent of a missing place, with the one relevant name there.
    awaited: Mutex<HashMap<i32, OsString>>,
}

impl Watches {
    /// Opens inotify. Needs a runtime with I/O.
    pub(super) fn open() -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let inotify = pipe::Receiver::from_owned_fd_unchecked(inotify)?;
        Ok(Self { inotify, awaited: Mutex::default() })
    }

    /// Watches a place and all folders in it; existing watches stay.
    pub(super) fn watch(&self, place: &Path) {
        let mut left = MAX_FOLDERS;
        if self.add(place).is_some() {
            // One level more than a skill may have: the place itself is not part of it.
            self.watch_within(place, MAX_DEPTH + 1, &mut left);
        } else {
            self.await_place(place);
        }
    }

    /// Completes when something has changed since it last completed.
    pub(super) async fn changed(&self) {
        let mut buffer = [0; 4096];
        while self.inotify.readable().await.is_ok() {
            match self.inotify.try_read(&mut buffer) {
                Ok(read) if self.matters(&buffer[..read]) => return,
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => break,
                _ => {}
            }
        }
        // Reading failed for good; only the slow rescan is left.
        std::future::pending().await
    }

    /// Whether any of these events concerns a configured place.
    fn matters(&self, mut events: &[u8]) -> bool {
        let awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((watch, name, rest)) = event(events) {
            if awaited.get(&watch).is_none_or(|awaited| awaited.as_bytes() == name) {
                return true;
            }
            events = rest;
        }
        false
    }

    fn add(&self, folder: &Path) -> Option<i32> {
        let watch = inotify::add_watch(&self.inotify, folder, CHANGES).ok()?;
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner).remove(&watch);
        Some(watch)
    }

    fn await_place(&self, place: &Path) {
        let (Some(parent), Some(name)) = (place.parent(), place.file_name()) else { return };
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        if let Some(watch) = self.add(parent) {
            let mut awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
            awaited.insert(watch, name.to_owned());
        }
    }

    fn watch_within(&self, folder: &Path, depth: usize, left: &mut usize) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries.flatten() {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if !is_folder || depth == 0 || is_ignored(&entry.file_name().to_string_lossy()) {
                continue;
            }
            let Some(fewer) = left.checked_sub(1) else { return };
            *left = fewer;
            self.add(&entry.path());
            self.watch_within(&entry.path(), depth - 1, left);
        }
    }
}

/// First event of a buffer in the kernel's layout: watch, mask, cookie, length of the name, and the
/// name padded with zeros.
fn event(bytes: &[u8]) -> Option<(i32, &[u8], &[u8])> {
    let (watch, rest) = bytes.split_first_chunk()?;
    let (length, rest) = rest.get(8..)?.split_first_chunk()?;
    let length = usize::try_from(u32::from_ne_bytes(*length)).ok()?;
    let (name, rest) = rest.split_at_checked(length)?;
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(length);
    Some((i32::from_ne_bytes(*watch), &name[..end], rest))
}
