//! Stopping everything inside a sandbox for a while, by the cgroup freezer.

use std::{sync::Arc, time::Duration};

use super::{
    Error, State,
    shared::{Parts, Shared},
};
use crate::cell::Cell;

/// How long the kernel may take to stop every process, in one attempt, and how many there are.
/// Between two we look whether the session has ended: then it is thawed, and will not stop.
const PATIENCE: Duration = Duration::from_secs(1);
const ATTEMPTS: usize = 5;

/// Freezes the session and notes it. Changes under way are let finish first.
pub(super) async fn pause(shared: &Arc<Shared>) -> Result<(), Error> {
    let _gate = shared.gate.clone().write_owned().await;
    let Parts { cell, .. } = shared.parts()?;
    if shared.state() == State::Paused {
        return Ok(());
    }
    let still = Still::hold(shared, cell).await?;
    shared.set_state(State::Paused)?;
    still.keep();
    Ok(())
}

/// Lets the session run.
pub(super) async fn resume(shared: &Arc<Shared>) -> Result<(), Error> {
    let _gate = shared.gate.clone().write_owned().await;
    let Parts { cell, .. } = shared.parts()?;
    if shared.state() == State::Running {
        return Ok(());
    }
    thaw(&cell)?;
    shared.set_state(State::Running)
}

/// A sandbox that is frozen as long as this lives. Whoever ends the session meanwhile thaws it, but
/// may have done so just before the freeze; so this thaws again when dropped.
#[derive(Debug)]
pub(super) struct Still {
    cell: Option<Arc<Cell>>,
}

impl Still {
    pub(super) async fn hold(shared: &Arc<Shared>, cell: Arc<Cell>) -> Result<Self, Error> {
        let shared = shared.clone();
        let freezing = tokio::task::spawn_blocking(move || freeze_patiently(&shared, cell));
        freezing.await.unwrap_or_else(|_| Err(crate::Error::Gone("task that paused").into()))
    }

    /// Leaves it frozen: the session's state says so now.
    pub(super) fn keep(mut self) {
        self.cell = None;
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        if let Some(cell) = &self.cell {
            let _ = thaw(cell);
        }
    }
}

fn freeze_patiently(shared: &Shared, cell: Arc<Cell>) -> Result<Still, Error> {
    let mut attempts = 1..ATTEMPTS;
    loop {
        let frozen = freeze(&cell).map(|()| Still { cell: Some(cell.clone()) });
        shared.parts()?;
        match frozen {
            Err(Error::PauseFailed(_)) if attempts.next().is_some() => {}
            other => return other,
        }
    }
}

fn freeze(cell: &Cell) -> Result<(), Error> {
    let group = cell.group.as_ref().ok_or_else(|| unavailable(cell))?;
    group.freeze(PATIENCE).map_err(|error| match error.source.kind() {
        std::io::ErrorKind::Unsupported => unavailable(cell),
        _ => Error::PauseFailed(error),
    })
}

fn thaw(cell: &Cell) -> Result<(), Error> {
    let group = cell.group.as_ref().ok_or_else(|| unavailable(cell))?;
    group.thaw().map_err(Error::PauseFailed)
}

fn unavailable(cell: &Cell) -> Error {
    let reason = cell.groups().missing("freezer").map(|reason| reason.what.clone());
    let reason = reason.unwrap_or_else(|| "there is no cgroup freezer".to_owned());
    Error::PauseUnavailable { reason }
}
