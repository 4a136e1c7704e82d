//! Start of a process: a message to the init, and its answer that it runs or why it does not.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use ringfence_jail::{
    SetupError, socket,
    wire::{Exec, SignalScope, ToInit},
};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::{
    Error,
    dispatch::{ProgramMessage, ROUTE_CAPACITY},
    family::Family,
    shared::{MAX_PROGRAMS, Shared},
};
use crate::jailed::Jailed;

const SIGKILL: i32 = 9;

/// A running program with the channel for its messages.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) guard: ProgramGuard,
    pub(super) route: mpsc::Receiver<ProgramMessage>,
    pub(super) pid: i32,
    /// Outer end of its terminal, if it requested one.
    pub(super) terminal: Option<OwnedFd>,
    _permit: OwnedSemaphorePermit,
}

/// Guard of a program in the session: if dropped before its end was seen, it kills the program.
#[derive(Debug)]
pub(super) struct ProgramGuard {
    pub(super) shared: Arc<Shared>,
    pub(super) id: u32,
    /// Process family of the program, if there are cgroups.
    pub(super) family: Option<Family>,
    is_over: bool,
}

/// Makes the init start a program; its number and the descriptor for joining its family, if it has
/// one, are added to the message. Cancelling kills the program.
pub(super) async fn start(
    shared: &Arc<Shared>,
    jailed: &Jailed,
    mut exec: Exec,
    fds: &[BorrowedFd<'_>],
) -> Result<Begun, Error> {
    let permit = shared.programs.clone().try_acquire_owned();
    let permit = permit.map_err(|_| Error::TooMany { what: "programs", limit: MAX_PROGRAMS })?;
    let (sender, mut route) = mpsc::channel(ROUTE_CAPACITY);
    exec.id = shared.add_route(sender)?;
    let mut guard =
        ProgramGuard { shared: shared.clone(), id: exec.id, family: None, is_over: false };
    if exec.joins {
        guard.family = shared.families.create(jailed)?;
    }
    let part = guard.family.as_ref().map(Family::join_fd).transpose()?;
    exec.joins = part.is_some();
    let fds: Vec<_> = fds.iter().copied().chain(part.iter().map(AsFd::as_fd)).collect();
    let names = (exec.argv.first().cloned().unwrap_or_default(), exec.cwd.clone());
    let sent = jailed.control.send(&ToInit::Exec(exec), &fds).await;
    sent.map_err(|error| unsendable(shared, error))?;
    match route.recv().await {
        Some(ProgramMessage::Started { pid, terminal }) => {
            Ok(Begun { guard, route, pid, terminal, _permit: permit })
        }
        Some(ProgramMessage::NotStarted(error)) => {
            guard.is_over = true;
            Err(not_started(names, error))
        }
        _ => Err(Error::Ended(shared.ending())),
    }
}

fn not_started((program, cwd): (Vec<u8>, Vec<u8>), error: SetupError) -> Error {
    let reason = crate::error::not_started(error, &cwd);
    Error::NotStarted { program: String::from_utf8_lossy(&program).into_owned(), reason }
}

/// Error of a message that could not be sent: the init is gone, the message is too large, or the
/// kernel refuses it now.
pub(super) fn unsendable(shared: &Shared, error: socket::Error) -> Error {
    match error {
        socket::Error::Malformed(what) => Error::Invalid(format!("the request is {what}")),
        socket::Error::Closed => Error::Ended(shared.ending()),
        error @ socket::Error::Io(_) => Error::Sandbox(error.into()),
    }
}

impl ProgramGuard {
    /// Asks the init to send a signal. Signals are sent in the order of the messages.
    pub(super) async fn signal(&self, signal: i32, scope: SignalScope) -> Result<(), Error> {
        send_signal(&self.shared, self.id, signal, scope).await
    }

    /// Kills the program and what it started.
    pub(super) async fn kill(&self) -> Result<(), Error> {
        kill(&self.shared, self.id, self.family.as_ref()).await
    }

    /// Disarms the guard: the program's end was seen.
    pub(super) fn release(&mut self) {
        self.is_over = true;
    }
}

impl Drop for ProgramGuard {
    fn drop(&mut self) {
        self.shared.remove_route(self.id);
        let family = self.family.take();
        if self.is_over {
            family.into_iter().for_each(|family| self.shared.families.leave(family));
            return;
        }
        let (shared, id) = (self.shared.clone(), self.id);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                // If this fails the session has ended, and with it the program.
                let _ = kill(&shared, id, family.as_ref()).await;
                family.into_iter().for_each(|family| shared.families.leave(family));
            });
        }
    }
}

/// Kills a program and as much of what it started as can be found.
pub(super) async fn kill(shared: &Shared, id: u32, family: Option<&Family>) -> Result<(), Error> {
    let told = send_signal(shared, id, SIGKILL, SignalScope::Session).await;
    if let Some(family) = family {
        family.end().await;
    }
    told
}

pub(super) async fn send_signal(
    shared: &Shared,
    id: u32,
    signal: i32,
    scope: SignalScope,
) -> Result<(), Error> {
    let jailed = shared.parts()?.jailed;
    let sent = jailed.control.send(&ToInit::Signal { id, signal, scope }, &[]).await;
    sent.map_err(|error| unsendable(shared, error))
}
