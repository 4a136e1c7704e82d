//! The family of a program: all it started, and all they started, wherever they went.
//!
//! A program with a timeout is put into a part of the session's cgroup, which no process can leave.
//! Whatever is in there is ended with the program; without one only those are found that stayed in
//! the program's session.

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
use crate::cell::Cell;

/// How much of what a program started is ended with it, by its timeout or by a kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// All of it.
    Everything,
    /// What did not leave its session by `setsid(2)` and is not hidden from `/proc`: it has no
    /// timeout, or the host gives us no control groups to hold it by.
    Session,
}

/// How long the kernel may take to end what was killed before we stop waiting.
const PATIENCE: Duration = Duration::from_secs(5);

/// Families whose program is gone but that still have members, and the next one's number.
#[derive(Debug, Default)]
pub(super) struct Families {
    next: AtomicU64,
    orphaned: Mutex<Vec<Family>>,
}

/// One family, held by its part of the cgroup.
#[derive(Debug, Clone)]
pub(super) struct Family {
    part: Arc<Part>,
}

impl Families {
    /// A new one; `None` where there is no cgroup to hold it by.
    pub(super) fn found(&self, cell: &Cell) -> Result<Option<Family>, Error> {
        self.orphaned().retain(|family| !family.is_gone());
        let Some(group) = &cell.group else { return Ok(None) };
        match group.part(&format!("program-{}", self.next.fetch_add(1, Ordering::Relaxed))) {
            Ok(part) => Ok(Some(Family { part: Arc::new(part) })),
            Err(error) if error.source.kind() == std::io::ErrorKind::Unsupported => Ok(None),
            Err(error) => Err(crate::Error::from(error).into()),
        }
    }

    /// Its program is gone. What that left in the background stays until the session ends.
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
    /// What the program writes to in order to be of this family.
    pub(super) fn join_fd(&self) -> Result<OwnedFd, Error> {
        Ok(self.part.join_fd().map_err(crate::Error::from)?)
    }

    /// Ends every member, and waits until they are gone.
    pub(super) async fn end(&self) {
        let part = self.part.clone();
        let ending = tokio::task::spawn_blocking(move || part.kill(PATIENCE));
        // Failing, it is for want of the directory, which went with the session.
        let _ = ending.await;
    }

    /// Whether nobody was left in it; it is not used again then.
    fn is_gone(&self) -> bool {
        matches!(self.part.remove(), Ok(Removal::Gone))
    }
}
