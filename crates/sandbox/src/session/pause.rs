//! Pausing of a session, by the cgroup freezer.

use std::{sync::Arc, time::Duration};

use super::{
    Error, State,
    shared::{Parts, Shared},
};
use crate::jailed::Jailed;

/// Time limit for one attempt to freeze every process, and the number of attempts. Between two we
/// check whether the session has ended: then it was thawed, and will not freeze.
const FREEZE_TIMEOUT: Duration = Duration::from_secs(1);
const FREEZE_ATTEMPTS: usize = 5;

/// Freezes the session and records it. Changes in progress finish first.
pub(super) async fn pause(shared: &Arc<Shared>) -> Result<(), Error> {
    let _gate = shared.gate.clone().write_owned().await;
    let Parts { jailed, .. } = shared.parts()?;
    if shared.state() == State::Paused {
        return Ok(());
    }
    let still = Frozen::hold(shared, jailed).await?;
    shared.set_state(State::Paused)?;
    still.keep();
    Ok(())
}

/// Lets the session run.
pub(super) async fn resume(shared: &Arc<Shared>) -> Result<(), Error> {
    let _gate = shared.gate.clone().write_owned().await;
    let Parts { jailed, .. } = shared.parts()?;
    if shared.state() == State::Running {
        return Ok(());
    }
    thaw(&jailed)?;
    shared.set_state(State::Running)
}

/// A sandbox that is frozen for as long as this lives. Ending the session thaws it, but possibly
/// just before the freeze; so this thaws again when dropped.
#[derive(Debug)]
pub(super) struct Frozen {
    jailed: Option<Arc<Jailed>>,
}

impl Frozen {
    pub(super) async fn hold(shared: &Arc<Shared>, jailed: Arc<Jailed>) -> Result<Self, Error> {
        let shared = shared.clone();
        let freezing = tokio::task::spawn_blocking(move || freeze_with_retries(&shared, jailed));
        freezing.await.unwrap_or_else(|_| Err(crate::Error::Gone("task that paused").into()))
    }

    /// Leaves it frozen, as the session's state now says.
    pub(super) fn keep(mut self) {
        self.jailed = None;
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        if let Some(jailed) = &self.jailed {
            let _ = thaw(jailed);
        }
    }
}

fn freeze_with_retries(shared: &Shared, jailed: Arc<Jailed>) -> Result<Frozen, Error> {
    let mut attempts = 1..FREEZE_ATTEMPTS;
    loop {
        let frozen = freeze(&jailed).map(|()| Frozen { jailed: Some(jailed.clone()) });
        shared.parts()?;
        match frozen {
            Err(Error::PauseFailed(_)) if attempts.next().is_some() => {}
            other => return other,
        }
    }
}

fn freeze(jailed: &Jailed) -> Result<(), Error> {
    let group = jailed.group.as_ref().ok_or_else(|| unavailable(jailed))?;
    group.freeze(FREEZE_TIMEOUT).map_err(|error| match error.source.kind() {
        std::io::ErrorKind::Unsupported => unavailable(jailed),
        _ => Error::PauseFailed(error),
    })
}

fn thaw(jailed: &Jailed) -> Result<(), Error> {
    let group = jailed.group.as_ref().ok_or_else(|| unavailable(jailed))?;
    group.thaw().map_err(Error::PauseFailed)
}

fn unavailable(jailed: &Jailed) -> Error {
    let reason = jailed.groups().missing("freezer").map(|reason| reason.what.clone());
    let reason = reason.unwrap_or_else(|| "there is no cgroup freezer".to_owned());
    Error::PauseUnavailable { reason }
}
