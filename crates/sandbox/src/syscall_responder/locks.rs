//! Limit on the file locks of a sandbox.
//!
//! A lock takes some 200 bytes of kernel memory that is charged to no cgroup, and the kernel
//! neither limits their number nor counts them, except by listing them. So a sandbox has a budget
//! of *calls*, each of which makes at most two more locks (by splitting one in three). Only when
//! the budget is used up are the held locks counted, which gives the next budget: a database that
//! locks and unlocks for hours is counted rarely, and a sandbox that keeps many is refused.
//!
//! Locks are counted per process (`/proc/PID/fdinfo`), not in `/proc/locks`: that is one list for
//! the whole host, and reading it blocks every process that locks. No lock can be hidden: it is
//! gone as soon as its process closes the file, threads share their descriptors (see the rule for
//! `clone`), and a child inherits no lock.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

/// Largest number of locks of one sandbox: 14 MiB.
const MAX_LOCKS: u64 = 65_536;
/// Number of held locks from which no more calls are allowed; below, a new budget is worth a count.
const MANY_LOCKS: u64 = MAX_LOCKS / 2;
/// Time for which a sandbox with many locks is refused before they are counted again.
const RECOUNT_DELAY: Duration = Duration::from_secs(1);
/// Cpu time for one count. If it is exceeded, the sandbox is taken to hold too many.
const MAX_COUNT_TIME: Duration = Duration::from_millis(50);
/// Largest `fdinfo` text of one descriptor: more than [`MANY_LOCKS`] locks.
const MAX_TEXT: u64 = 4 << 20;

/// Calls that a sandbox may still make before its locks are counted.
#[derive(Debug)]
pub(super) struct LockBudget {
    calls: u64,
    refused_until: Option<Instant>,
}

impl LockBudget {
    pub(super) fn new() -> Self {
        Self { calls: MAX_LOCKS / 2, refused_until: None }
    }

    /// Whether one more call is allowed. `count` returns the number of held locks, if it can be
    /// found.
    pub(super) fn admit(&mut self, now: Instant, count: impl FnOnce() -> Option<u64>) -> bool {
        if self.calls == 0 {
            if self.refused_until.is_some_and(|until| now < until) {
                return false;
            }
            match count().filter(|held| *held <= MANY_LOCKS) {
                Some(held) => self.calls = (MAX_LOCKS - held) / 2,
                None => {
                    self.refused_until = Some(now + RECOUNT_DELAY);
                    return false;
                }
            }
        }
        self.calls -= 1;
        true
    }
}

/// Locks held by all processes in the pid namespace of a thread, up to a little more than
/// [`MANY_LOCKS`]; `None` if they cannot be counted in time.
pub(super) fn held(pid: u32) -> Option<u64> {
    let namespace = |process: &Path| fs::read_link(process.join("ns/pid"));
    let own = namespace(&PathBuf::from(format!("/proc/{pid}"))).ok()?;
    let mut processes = numbered("/proc".as_ref()).ok()?;
    processes.retain(|process| namespace(process).is_ok_and(|other| other == own));
    let deadline = processor_time() + MAX_COUNT_TIME;
    let mut held = 0;
    for process in processes {
        held += of_process(&process, deadline)?;
        if held > MANY_LOCKS {
            break;
        }
    }
    Some(held)
}

/// Locks of one process. Threads share their descriptors, so the first thread that has any shows
/// all; a first thread that has ended has none.
fn of_process(process: &Path, deadline: Duration) -> Option<u64> {
    for thread in unless_gone(numbered(&process.join("task")))? {
        let descriptors = unless_gone(numbered(&thread.join("fdinfo")))?;
        if !descriptors.is_empty() {
            return of_descriptors(&descriptors, deadline);
        }
    }
    Some(0)
}

fn of_descriptors(descriptors: &[PathBuf], deadline: Duration) -> Option<u64> {
    let mut held = 0;
    for descriptor in descriptors {
        if processor_time() > deadline {
            return None;
        }
        held += unless_gone(of_descriptor(descriptor))?;
        if held > MANY_LOCKS {
            break;
        }
    }
    Some(held)
}

/// Locks of one descriptor: lines such as `lock: 1: POSIX  ADVISORY  WRITE 7 00:2d:57 0 EOF`.
fn of_descriptor(path: &Path) -> io::Result<u64> {
    let mut text = Vec::new();
    File::open(path)?.take(MAX_TEXT).read_to_end(&mut text)?;
    let is_lock =
        |line: &&[u8]| line.starts_with(b"lock:") && line.windows(7).any(|w| w == b" POSIX ");
    Ok(text.split(|byte| *byte == b'\n').filter(is_lock).count() as u64)
}

/// Entries of a directory whose names are numbers.
fn numbered(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let is_number = |name: &std::ffi::OsStr| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if is_number(&entry.file_name()) {
            entries.push(entry.path());
        }
    }
    Ok(entries)
}

/// Value read, or the default if the process or descriptor has ended; `None` if it cannot be read.
fn unless_gone<T: Default>(read: io::Result<T>) -> Option<T> {
    match read {
        Ok(found) => Some(found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(T::default()),
        Err(error) if error.raw_os_error() == Some(ESRCH) => Some(T::default()),
        Err(_) => None,
    }
}

const ESRCH: i32 = rustix::io::Errno::SRCH.raw_os_error();

/// Cpu time of this thread, which does not depend on the load of the host.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests;
