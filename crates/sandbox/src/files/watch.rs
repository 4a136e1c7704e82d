//! Changes under a directory of a workspace, reported by the kernel's inotify.
//!
//! Events are reported at least once: a file made in a new directory before its watch existed is
//! found by reading the directory, and inotify may report it again. Lost events are reported as an
//! event too, and the directories are listed again, because those made meanwhile have no watch yet.
//!
//! Files that are still being written (`.ringfence-` and 16 digits) are not reported.

use std::{
    collections::HashMap,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{
        OFlags,
        inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init, remove_watch},
    },
    io::Errno,
};

use super::{
    BoxPath, Kind, ListOptions, Owner, Reason, Refused, acting_as, list,
    put::is_scratch,
    tree::{Tree, magic_path},
};

/// Kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// The name appeared: made, linked or moved here.
    Created,
    /// Content was written.
    Modified,
    /// The name went away: removed or moved elsewhere.
    Removed,
    /// The kernel dropped events; list the directory to know what is there.
    Overflow,
    /// The limit of watched directories is reached: changes below this one are not reported.
    Unwatched,
}

/// One change under a watched directory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Event {
    /// Kind of change.
    pub kind: EventKind,
    /// Changed path; the watched directory itself for [`EventKind::Overflow`].
    pub path: BoxPath,
    /// Whether the path is a directory.
    pub is_dir: bool,
}

/// An open watch. Its descriptor becomes readable when [`Watch::read_events`] has events.
#[derive(Debug)]
pub struct Watch {
    inotify: OwnedFd,
    tree: Tree,
    owner: Owner,
    top: BoxPath,
    recursive: bool,
    limit: usize,
    /// The directory behind each watch descriptor; at most `limit`.
    dirs: HashMap<i32, BoxPath>,
}

/// Events returned at once, up to one more buffer; the rest waits in the kernel.
const BATCH: usize = 4096;

const MASK: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::ONLYDIR);

pub(super) fn watch(
    tree: &Tree,
    owner: Owner,
    path: &BoxPath,
    recursive: bool,
    limit: usize,
) -> Result<Watch, Refused> {
    let fail = |errno| Refused::errno(path, errno);
    let inotify = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).map_err(fail)?;
    let root = tree.open(&BoxPath::root(), OFlags::PATH | OFlags::DIRECTORY)?;
    let mut watch = Watch {
        inotify,
        tree: Tree::new(root),
        owner,
        top: path.clone(),
        recursive,
        limit: limit.max(1),
        dirs: HashMap::new(),
    };
    watch.add(path)?;
    if recursive {
        // Existing entries are not reported; a limit reached here is an error, because part of the
        // tree would be unwatched.
        let mut told = Vec::new();
        watch.add_below(path, &mut told)?;
        if told.iter().any(|event| event.kind == EventKind::Unwatched) {
            return Err(Refused { path: path.clone(), reason: Reason::TooMany { limit } });
        }
    }
    Ok(watch)
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

impl Watch {
    /// Events since the last call, without waiting; may be empty.
    pub fn read_events(&mut self) -> Result<Vec<Event>, Refused> {
        let raw = self.drain()?;
        let mut told = Vec::new();
        let (owner, top) = (self.owner, self.top.clone());
        acting_as(owner, &top, || {
            raw.into_iter().for_each(|raw| self.tell(raw, &mut told));
            Ok(())
        })?;
        told.dedup();
        Ok(told)
    }

    /// Reads whole buffers only: a reader dropped with events in its buffer would lose them.
    fn drain(&self) -> Result<Vec<Raw>, Refused> {
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        let mut events = Vec::new();
        while events.len() < BATCH || !reader.is_buffer_empty() {
            match reader.next() {
                Ok(event) => events.push(Raw {
                    watch: event.wd(),
                    flags: event.events(),
                    name: event.file_name().map(|name| name.to_bytes().to_vec()),
                }),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Refused::errno(&self.top, errno)),
            }
        }
        Ok(events)
    }

    fn tell(&mut self, raw: Raw, told: &mut Vec<Event>) {
        if raw.flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            told.push(Event { kind: EventKind::Overflow, path: self.top.clone(), is_dir: true });
            self.look_anew(told);
            return;
        }
        if raw.flags.contains(ReadFlags::IGNORED) {
            self.dirs.remove(&raw.watch);
            return;
        }
        let (Some(dir), Some(name)) = (self.dirs.get(&raw.watch), raw.name) else { return };
        let Ok(path) = dir.join(&name) else { return };
        // The rename to its final name is the only reported event of a file that we put there.
        let is_dir = raw.flags.contains(ReadFlags::ISDIR);
        if !is_dir && is_scratch(&name) {
            return;
        }
        if raw.flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
            told.push(Event { kind: EventKind::Created, path: path.clone(), is_dir });
            if is_dir && self.recursive {
                self.follow(&path, told);
            }
        } else if raw.flags.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
            if is_dir {
                self.forget(&path);
            }
            told.push(Event { kind: EventKind::Removed, path, is_dir });
        } else if raw.flags.contains(ReadFlags::MODIFY) {
            told.push(Event { kind: EventKind::Modified, path, is_dir });
        }
    }

    /// Watches a new directory and reports what was made in it before the watch existed.
    fn follow(&mut self, path: &BoxPath, told: &mut Vec<Event>) {
        // The directory may be gone or replaced by now; then its own events say so.
        if self.add(path).is_ok() {
            let _ = self.add_below(path, told);
        } else if self.dirs.len() >= self.limit {
            told.push(Event { kind: EventKind::Unwatched, path: path.clone(), is_dir: true });
        }
    }

    /// Lists all directories again after lost events: some may have been made, removed or moved.
    fn look_anew(&mut self, told: &mut Vec<Event>) {
        let before = std::mem::take(&mut self.dirs);
        let mut found = Vec::new();
        // A directory keeps its watch, now under its current name.
        let top = self.top.clone();
        if self.add(&top).is_ok() && self.recursive {
            let _ = self.add_below(&top, &mut found);
        }
        told.extend(found.into_iter().filter(|event| event.kind == EventKind::Unwatched));
        for watch in before.into_keys().filter(|watch| !self.dirs.contains_key(watch)) {
            // A removed directory has lost its watch already.
            let _ = remove_watch(&self.inotify, watch);
        }
    }

    fn add_below(&mut self, path: &BoxPath, told: &mut Vec<Event>) -> Result<(), Refused> {
        let options = ListOptions { recursive: true, max_entries: BATCH * 16, max_depth: 256 };
        let listing = list::list(&self.tree, path, options)?;
        let mut unwatched = (!listing.is_complete()).then(|| path.clone());
        for entry in listing.entries {
            let is_dir = entry.kind == Kind::Directory;
            if !is_dir && entry.path.components().last().is_some_and(is_scratch) {
                continue;
            }
            if is_dir && self.add(&entry.path).is_err() && self.dirs.len() >= self.limit {
                unwatched.get_or_insert(entry.path.clone());
            }
            told.push(Event { kind: EventKind::Created, path: entry.path, is_dir });
        }
        if let Some(path) = unwatched {
            told.push(Event { kind: EventKind::Unwatched, path, is_dir: true });
        }
        Ok(())
    }

    fn add(&mut self, path: &BoxPath) -> Result<(), Refused> {
        let fail = |errno| Refused::errno(path, errno);
        if self.dirs.len() >= self.limit {
            return Err(fail(Errno::NOSPC));
        }
        let dir = self.tree.open(path, OFlags::PATH | OFlags::DIRECTORY)?;
        let watch = add_watch(&self.inotify, magic_path(&dir), MASK).map_err(fail)?;
        self.dirs.insert(watch, path.clone());
        Ok(())
    }

    /// Removes the watches of a directory that was moved away: they would report an old name.
    fn forget(&mut self, path: &BoxPath) {
        let gone: Vec<i32> = self
            .dirs
            .iter()
            .filter_map(|(watch, dir)| path.contains(dir).then_some(*watch))
            .collect();
        for watch in gone {
            self.dirs.remove(&watch);
            // A removed directory has lost its watch already.
            let _ = remove_watch(&self.inotify, watch);
        }
    }
}

struct Raw {
    watch: i32,
    flags: ReadFlags,
    name: Option<Vec<u8>>,
}
