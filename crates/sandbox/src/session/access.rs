//! Access to a session, for reading and for changes; both count as use.

use std::{sync::Arc, time::Instant};

use tokio::sync::OwnedRwLockReadGuard;

use super::{
    Error, State,
    shared::{Parts, Shared},
};
use crate::{files::Workspace, jailed::Jailed};

/// A use in progress. While one is held the session is not idle.
#[derive(Debug)]
pub(super) struct Busy(Arc<Shared>);

impl Drop for Busy {
    fn drop(&mut self) {
        if self.0.with_clock(|clock| clock.finish(Instant::now())) {
            self.0.rescheduled.notify_one();
        }
    }
}

/// A live session in use.
#[derive(Debug)]
pub(super) struct Used {
    pub(super) jailed: Arc<Jailed>,
    pub(super) workspace: Arc<Workspace>,
    pub(super) busy: Busy,
    /// Keeps the session from being paused meanwhile.
    _gate: Option<OwnedRwLockReadGuard<()>>,
}

impl Used {
    /// Ends the lock against pausing, but still counts as use.
    pub(super) fn into_busy(self) -> Busy {
        self.busy
    }
}

impl Shared {
    /// Uses the session without changing it.
    pub(super) fn look(self: &Arc<Self>) -> Result<Used, Error> {
        let Parts { jailed, workspace } = self.parts()?;
        Ok(Used { jailed, workspace, busy: self.busy(), _gate: None })
    }

    /// Uses the session to change it; refused while it is paused, and waits while it is being
    /// frozen.
    pub(super) async fn change(self: &Arc<Self>) -> Result<Used, Error> {
        let gate = self.gate.clone().read_owned().await;
        let used = self.look()?;
        match self.state() {
            State::Running => Ok(Used { _gate: Some(gate), ..used }),
            State::Paused => Err(Error::Paused),
            State::Ended(why) => Err(Error::Ended(why)),
        }
    }

    pub(super) fn busy(self: &Arc<Self>) -> Busy {
        self.with_clock(|clock| clock.begin(Instant::now()));
        Busy(self.clone())
    }
}
