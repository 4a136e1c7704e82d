//! Freezing a group, with confirmation that it is frozen.

use super::Error;
use super::counters;
use super::file;
use super::layout::Version;
use super::wait;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Freezes every process of the group; thaws it and fails if that takes longer than `timeout`.
pub(super) fn freeze(version: Version, dir: &Path, timeout: Duration) -> Result<(), Error> {
    let is_frozen = match version {
        Version::V2 => freeze_v2(dir, timeout)?,
        _ => freeze_v1(dir, timeout)?,
    };
    if is_frozen {
        return Ok(());
    }
    thaw(version, dir)?;
    Err(Error::new("freeze", dir, io::ErrorKind::TimedOut))
}

/// Thaws the group.
pub(super) fn thaw(version: Version, dir: &Path) -> Result<(), Error> {
    match version {
        Version::V2 => file::write(dir, "cgroup.freeze", "0"),
        _ => file::write(dir, "freezer.state", "THAWED"),
    }
}

/// Freezes with version 1, which re-examines its tasks whenever the state is read, without
/// notification.
fn freeze_v1(dir: &Path, timeout: Duration) -> Result<bool, Error> {
    file::write(dir, "freezer.state", "FROZEN")?;
    wait::until(timeout, || Ok(file::read(dir, "freezer.state")?.trim_ascii() == "FROZEN"))
}

/// Freezes with version 2, which notifies pollers of `cgroup.events`.
fn freeze_v2(dir: &Path, timeout: Duration) -> Result<bool, Error> {
    file::write(dir, "cgroup.freeze", "1")?;
    let path = dir.join("cgroup.events");
    wait_for_frozen(&path, timeout).map_err(|errno| Error::new("watch", &path, errno))
}

fn wait_for_frozen(path: &Path, timeout: Duration) -> Result<bool, Errno> {
    let events = openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let deadline = Instant::now() + timeout;
    while !says_frozen(&events)? {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        let timeout = Timespec::try_from(left).map_err(|_| Errno::INVAL)?;
        match poll(&mut [PollFd::new(&events, PollFlags::PRI)], Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(true)
}

fn says_frozen(events: &OwnedFd) -> Result<bool, Errno> {
    let mut bytes = [0; 256];
    let count = rustix::io::pread(events, &mut bytes[..], 0)?;
    let text = String::from_utf8_lossy(&bytes[..count]);
    Ok(counters::keyed(&text, "frozen") == Some(1))
}
