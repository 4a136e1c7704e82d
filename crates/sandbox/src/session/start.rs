//! From a message to a process: the init is told, and answers that it runs or why it does not.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use ringfence_jail::{
    SetupError, socket,
    wire::{Exec, ToInit, Whom},
};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::{
    Error,
    dispatch::{Heard, ROUTE},
    family::Family,
    shared::{MOST_PROGRAMS, Shared},
};
use crate::cell::Cell;

const SIGKILL: i32 = 9;

/// A program that runs, with the way its messages take.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) tether: Tether,
    pub(super) route: mpsc::Receiver<Heard>,
    pub(super) pid: i32,
    /// The other end of its terminal, if it asked for one.
    pub(super) terminal: Option<OwnedFd>,
    _permit: OwnedSemaphorePermit,
}

/// What holds a program in the session: dropped before its end was seen, it ends the program.
#[derive(Debug)]
pub(super) struct Tether {
    pub(super) shared: Arc<Shared>,
    pub(super) id: u32,
    /// All that the program started, where it can be held together.
    pub(super) family: Option<Family>,
    is_over: bool,
}

/// Has the init start a program; the message gets its number here, and what the program joins if
/// it asks for that and there is one. Cancelling ends the program.
pub(super) async fn start(
    shared: &Arc<Shared>,
    cell: &Cell,
    mut exec: Exec,
    fds: &[BorrowedFd<'_>],
) -> Result<Begun, Error> {
    let permit = shared.programs.clone().try_acquire_owned();
    let permit = permit.map_err(|_| Error::TooMany { what: "programs", limit: MOST_PROGRAMS })?;
    let (sender, mut route) = mpsc::channel(ROUTE);
    exec.id = shared.add_route(sender)?;
    let mut tether = Tether { shared: shared.clone(), id: exec.id, family: None, is_over: false };
    if exec.joins {
        tether.family = shared.families.found(cell)?;
    }
    let part = tether.family.as_ref().map(Family::join_fd).transpose()?;
    exec.joins = part.is_some();
    let fds: Vec<_> = fds.iter().copied().chain(part.iter().map(AsFd::as_fd)).collect();
    let names = (exec.argv.first().cloned().unwrap_or_default(), exec.cwd.clone());
    let sent = cell.control.send(&ToInit::Exec(exec), &fds).await;
    sent.map_err(|error| unsendable(shared, error))?;
    match route.recv().await {
        Some(Heard::Started { pid, terminal }) => {
            Ok(Begun { tether, route, pid, terminal, _permit: permit })
        }
        Some(Heard::NotStarted(error)) => {
            tether.is_over = true;
            Err(not_started(names, error))
        }
        _ => Err(Error::Ended(shared.ending())),
    }
}

fn not_started((program, cwd): (Vec<u8>, Vec<u8>), error: SetupError) -> Error {
    let reason = crate::error::not_started(error, &cwd);
    Error::NotStarted { program: String::from_utf8_lossy(&program).into_owned(), reason }
}

/// A message that could not be sent: the init is gone, it is too large, or the kernel does not take
/// it now.
pub(super) fn unsendable(shared: &Shared, error: socket::Error) -> Error {
    match error {
        socket::Error::Malformed(what) => Error::Invalid(format!("the request is {what}")),
        socket::Error::Closed => Error::Ended(shared.ending()),
        error @ socket::Error::Io(_) => Error::Sandbox(error.into()),
    }
}

impl Tether {
    /// Asks the init to send a signal. It does so in the order of its messages.
    pub(super) async fn signal(&self, signal: i32, whom: Whom) -> Result<(), Error> {
        send_signal(&self.shared, self.id, signal, whom).await
    }

    /// Ends the program and what it started.
    pub(super) async fn kill(&self) -> Result<(), Error> {
        kill(&self.shared, self.id, self.family.as_ref()).await
    }

    /// The program's end was seen.
    pub(super) fn release(&mut self) {
        self.is_over = true;
    }
}

impl Drop for Tether {
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

/// Ends a program and as much of what it started as can be found.
pub(super) async fn kill(shared: &Shared, id: u32, family: Option<&Family>) -> Result<(), Error> {
    let told = send_signal(shared, id, SIGKILL, Whom::Session).await;
    if let Some(family) = family {
        family.end().await;
    }
    told
}

pub(super) async fn send_signal(
    shared: &Shared,
    id: u32,
    signal: i32,
    whom: Whom,
) -> Result<(), Error> {
    let cell = shared.parts()?.cell;
    let sent = cell.control.send(&ToInit::Signal { id, signal, whom }, &[]).await;
    sent.map_err(|error| unsendable(shared, error))
}
