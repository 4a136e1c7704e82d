//! Process family of a program: all processes it started, directly or indirectly.
//!
//! A program with a timeout is put into a sub-cgroup of the session's, which no process can leave.
//! All processes in there are ended with the program; without a sub-cgroup only those are create
//! that stayed in the program's session.

use std::{
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ringfence_jail::cgroup::{Part, Removal};

use super::Error;
use crate::jailed::Jailed;

/// Extent of what a timeout or a kill ends of a program's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// All of them.
    Everything,
    /// Processes that did not leave its session by `setsid(2)` and are not hidden from `/proc`: it
    /// has no timeout, or the host has no control groups.
    Session,
}

/// Time limit for the end of killed processes.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Families whose program has ended but that still have members, and the next number.
#[derive(Debug, Default)]
pub(super) struct Families {
    next: AtomicU64,
    orphaned: Mutex<Vec<Family>>,
}

/// One family, which is a sub-cgroup.
#[derive(Debug, Clone)]
pub(super) struct Family {
    part: Arc<Part>,
}

impl Families {
    /// A new family; `None` without cgroups.
    pub(super) fn create(&self, jailed: &Jailed) -> Result<Option<Family>, Error> {
        self.orphaned().retain(|family| !family.is_gone());
        let Some(group) = &jailed.group else { return Ok(None) };
        match group.part(&format!("program-{}", self.next.fetch_add(1, Ordering::Relaxed))) {
            Ok(part) => Ok(Some(Family { part: Arc::new(part) })),
            Err(error) if error.source.kind() == std::io::ErrorKind::Unsupported => Ok(None),
            Err(error) => Err(crate::Error::from(error).into()),
        }
    }

    /// Keeps the family of an ended program: its background processes stay until the session ends.
    pub(super) fn leave(&self, family: Family) {
        if !family.is_gone() {
            self.orphaned().push(family);
        }
    }

    fn orphaned(&self) -> std::sync::MutexGuard<'_, Vec<Family>> {
        self.orphaned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Family {
    /// Descriptor that the program writes to in order to join.
    pub(super) fn join_fd(&self) -> Result<OwnedFd, Error> {
        Ok(self.part.join_fd().map_err(crate::Error::from)?)
    }

    /// Kills every member, and waits until they are gone.
    pub(super) async fn end(&self) {
        let part = self.part.clone();
        let ending = tokio::task::spawn_blocking(move || part.kill(KILL_TIMEOUT));
        // It fails if the directory is gone, which went with the session.
        let _ = ending.await;
    }

    /// Whether it is empty and removed; it is not used again then.
    fn is_gone(&self) -> bool {
        matches!(self.part.remove(), Ok(Removal::Gone))
    }
}
