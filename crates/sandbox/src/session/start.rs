//! From a message to a process: the init is told, and answers that it runs or why it does not.

use std::{
    os::fd::{BorrowedFd, OwnedFd},
    sync::Arc,
};

use ringfence_jail::{
    SetupError, Stage, socket,
    wire::{Exec, ToInit, Whom},
};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::{
    Error,
    dispatch::{Heard, ROUTE},
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
    is_over: bool,
}

/// Has the init start a program; the message gets its number here. Cancelling ends the program.
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
    let mut tether = Tether { shared: shared.clone(), id: exec.id, is_over: false };
    let names = (exec.argv.first().cloned().unwrap_or_default(), exec.cwd.clone());
    let sent = cell.control.send(&ToInit::Exec(exec), fds).await;
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
    let errno = error.errno();
    let reason = match error.stage {
        Stage::Exec => errno.to_string(),
        Stage::WorkingDirectory => {
            format!("directory `{}`: {errno}", String::from_utf8_lossy(&cwd))
        }
        stage => format!("{stage}: {errno}"),
    };
    Error::NotStarted { program: String::from_utf8_lossy(&program).into_owned(), reason }
}

/// A message that could not be sent: the init is gone, or it is too large.
pub(super) fn unsendable(shared: &Shared, error: socket::Error) -> Error {
    match error {
        socket::Error::Malformed(what) => Error::Invalid(format!("the request is {what}")),
        _ => Error::Ended(shared.ending()),
    }
}

impl Tether {
    /// Asks the init to send a signal. It does so in the order of its messages.
    pub(super) async fn signal(&self, signal: i32, whom: Whom) -> Result<(), Error> {
        send_signal(&self.shared, self.id, signal, whom).await
    }

    /// Ends the program and everything in its session.
    pub(super) async fn kill(&self) -> Result<(), Error> {
        self.signal(SIGKILL, Whom::Session).await
    }

    /// The program's end was seen.
    pub(super) fn release(&mut self) {
        self.is_over = true;
    }
}

impl Drop for Tether {
    fn drop(&mut self) {
        self.shared.remove_route(self.id);
        if self.is_over {
            return;
        }
        let (shared, id) = (self.shared.clone(), self.id);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                // If this fails the session has ended, and with it the program.
                let _ = send_signal(&shared, id, SIGKILL, Whom::Session).await;
            });
        }
    }
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
