//! The service's side of the spawner: one helper process, at most one at a time.

use std::{
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use ringfence_jail::{
    SetupError, socket,
    wire::{FromTemplate, Mode, RootSpec, ToSpawner, ToTemplate},
};

use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, pidfd_open},
};
use tokio::time::{sleep, timeout};

use crate::{
    Error,
    groups::{Groups, Leftovers, SandboxSlot, wait_for_end},
    link::Link,
    template::Template,
};

/// Name under which our own binary runs as the spawner; `main` checks it before anything else.
pub const ROLE: &str = "ringfence-spawner";

/// A running spawner. On drop it ends with everything it made. The cgroups of this service stay:
/// the service removes them itself, and can go on with another spawner.
#[derive(Debug)]
pub(crate) struct Spawner {
    socket: OwnedFd,
    /// The process; `None` once it was waited for.
    child: Option<Child>,
    groups: Arc<Groups>,
}

/// Time limit for a spawner to end what it made: it gives each template that it kills five seconds.
const END_TIMEOUT: Duration = Duration::from_secs(7);

impl Spawner {
    /// Starts `exe` in the role. It removes the cgroups of this service if the service dies.
    pub(crate) fn start(exe: &Path, groups: &Arc<Groups>) -> Result<Self, Error> {
        let pair = socket::pair().map_err(std::io::Error::from);
        let (ours, theirs) = pair.map_err(Error::io("make a socket for the spawner"))?;
        // Non-blocking, so that a spawner that reads nothing cannot block the service.
        let unblocked = rustix::io::ioctl_fionbio(&ours, true).map_err(std::io::Error::from);
        unblocked.map_err(Error::io("make a socket for the spawner"))?;
        let child = launch(exe, theirs).map_err(Error::io("start the spawner"))?;
        let spawner = Self { socket: ours, child: Some(child), groups: groups.clone() };
        spawner.send(&ToSpawner::Own(groups.paths()), &[]).map_err(send_error)?;
        Ok(spawner)
    }

    fn send(&self, message: &ToSpawner, fds: &[BorrowedFd<'_>]) -> Result<(), socket::Error> {
        socket::send(self.socket.as_fd(), message, fds)
    }

    /// Requests a template for `root` and waits until it is ready.
    pub(crate) async fn template(&self, root: &RootSpec) -> Result<Template, Error> {
        let (link, theirs) = Link::<ToTemplate, FromTemplate>::pair()
            .map_err(Error::io("make a socket for a template"))?;
        link.ask_for_pid().map_err(Error::io("ask for a template's pid"))?;
        let wanted = ToSpawner::Template(root.clone());
        self.send_with_retries(&wanted, &[theirs.as_fd()]).await.map_err(send_error)?;
        drop(theirs);
        let first_message = timeout(self.groups.health.rules.timeout, first_message(&link)).await;
        let (mode, process) = first_message.unwrap_or(Err(Error::Unresponsive("spawner")))?;
        Ok(Template::new(link, mode, process, self.groups.clone()))
    }

    /// Sends with retries while the spawner's queue is full or the kernel refuses the message.
    async fn send_with_retries(
        &self,
        message: &ToSpawner,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), socket::Error> {
        for pause in socket::RETRY_PAUSES {
            match self.send(message, fds) {
                Err(error) if error.is_transient() || is_full(&error) => sleep(pause).await,
                other => return other,
            }
        }
        self.send(message, fds)
    }

    /// Makes it end everything it made, and waits for that.
    pub(crate) fn stop(mut self) {
        let Some(mut child) = self.child.take() else { return };
        let released = self.send(&ToSpawner::Release, &[]).is_ok();
        // Closing the socket tells the spawner to end.
        drop(self);
        let process = hold(child.id().cast_signed());
        let has_ended = |limit| process.as_ref().is_some_and(|held| wait_for_end(held, limit));
        if !released || !has_ended(END_TIMEOUT) {
            let _ = child.kill();
            has_ended(Duration::from_secs(1));
        }
        let _ = child.try_wait();
    }
}

impl Drop for Spawner {
    /// Kills the spawner, because it may have stopped reading; its templates die with it.
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let pidfd = hold(child.id().cast_signed());
        let _ = child.kill();
        self.groups.tear_down(SandboxSlot::default(), Leftovers { pidfd, ..Leftovers::default() });
        // Reaps the process when it dies.
        let wait = std::thread::Builder::new().name("spawner-wait".to_owned());
        let _ = wait.spawn(move || drop(child.wait()));
    }
}

/// Whether its queue is full because it has not read for a while.
fn is_full(error: &socket::Error) -> bool {
    matches!(error, socket::Error::Io(Errno::AGAIN))
}

fn send_error(error: socket::Error) -> Error {
    match error {
        socket::Error::Closed => Error::Gone("spawner"),
        error if is_full(&error) => Error::Unresponsive("spawner"),
        error => error.into(),
    }
}

/// First message of a template, with the pidfd of its process.
async fn first_message(
    link: &Link<ToTemplate, FromTemplate>,
) -> Result<(Mode, Option<OwnedFd>), Error> {
    match link.receive().await {
        Ok(received) => match received.message {
            FromTemplate::Ready { mode } => {
                let process = received.pid.and_then(hold);
                // The pid cannot have been reused while the socket is open.
                Ok((mode, process.filter(|_| !link.is_closed())))
            }
            FromTemplate::Failed(error) => Err(error.into()),
            _ => Err(Error::Gone("template")),
        },
        Err(socket::Error::Closed) => Err(Error::Gone("spawner")),
        Err(error) => Err(error.into()),
    }
}

fn hold(pid: i32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

/// Starts the spawner. Its socket is standard input, so no other descriptor has to survive `exec`.
#[expect(clippy::disallowed_methods, reason = "this is the one process the service starts")]
fn launch(exe: &Path, socket: OwnedFd) -> std::io::Result<Child> {
    Command::new(exe)
        .arg0(ROLE)
        .stdin(Stdio::from(socket))
        .stdout(Stdio::null())
        // It prints nothing, and must not keep our own standard error open for readers of it.
        .stderr(Stdio::null())
        .env_clear()
        .current_dir("/")
        .spawn()
}

/// Answer of a template to a request.
pub(crate) type Spawned = Result<OwnedFd, SetupError>;
