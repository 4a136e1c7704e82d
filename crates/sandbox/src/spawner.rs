//! The service's side of the spawner: one helper process, started at most once at a time.

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
    groups::{Groups, Place, Remains, wait_for_end},
    link::Link,
    template::Template,
};

/// The name under which our own binary plays the spawner; `main` looks for it before anything else.
pub const ROLE: &str = "ringfence-spawner";

/// A running spawner. Ends, with all it made, when dropped. The cgroups of this service stay: it
/// removes them itself, and lives on without this spawner.
#[derive(Debug)]
pub(crate) struct Spawner {
    socket: OwnedFd,
    /// `None` once it was waited for.
    child: Option<Child>,
    groups: Arc<Groups>,
}

/// How long a spawner may take to end what it made: it gives each template that it kills five
/// seconds.
const END_TIMEOUT: Duration = Duration::from_secs(7);

impl Spawner {
    /// Starts `exe` in the role. It removes the cgroups of this service should we die.
    pub(crate) fn start(exe: &Path, groups: &Arc<Groups>) -> Result<Self, Error> {
        let pair = socket::pair().map_err(std::io::Error::from);
        let (ours, theirs) = pair.map_err(Error::io("make a socket for the spawner"))?;
        // Nobody waits in a system call for a spawner that reads nothing any more.
        let unblocked = rustix::io::ioctl_fionbio(&ours, true).map_err(std::io::Error::from);
        unblocked.map_err(Error::io("make a socket for the spawner"))?;
        let child = launch(exe, theirs).map_err(Error::io("start the spawner"))?;
        let spawner = Self { socket: ours, child: Some(child), groups: groups.clone() };
        spawner.tell(&ToSpawner::Own(groups.paths()), &[]).map_err(unheard)?;
        Ok(spawner)
    }

    fn tell(&self, message: &ToSpawner, fds: &[BorrowedFd<'_>]) -> Result<(), socket::Error> {
        socket::send(self.socket.as_fd(), message, fds)
    }

    /// Has a template made for `root` and waits until it stands.
    pub(crate) async fn template(&self, root: &RootSpec) -> Result<Template, Error> {
        let (link, theirs) = Link::<ToTemplate, FromTemplate>::pair()
            .map_err(Error::io("make a socket for a template"))?;
        link.ask_for_pid().map_err(Error::io("ask for a template's pid"))?;
        let wanted = ToSpawner::Template(root.clone());
        self.tell_with_retries(&wanted, &[theirs.as_fd()]).await.map_err(unheard)?;
        drop(theirs);
        let first_word = timeout(self.groups.health.rules.timeout, first_word(&link)).await;
        let (mode, process) = first_word.unwrap_or(Err(Error::Unresponsive("spawner")))?;
        Ok(Template::new(link, mode, process, self.groups.clone()))
    }

    /// Tries again for a while if the spawner has much to read, or the kernel takes no message.
    async fn tell_with_retries(
        &self,
        message: &ToSpawner,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), socket::Error> {
        for pause in socket::RETRY_PAUSES {
            match self.tell(message, fds) {
                Err(error) if error.is_transient() || is_full(&error) => sleep(pause).await,
                other => return other,
            }
        }
        self.tell(message, fds)
    }

    /// Has it end everything it made, and waits for that.
    pub(crate) fn stop(mut self) {
        let Some(mut child) = self.child.take() else { return };
        let released = self.tell(&ToSpawner::Release, &[]).is_ok();
        // The closed socket is the order to end.
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
    /// Killed, because it may have stopped reading; its templates die with it.
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let pidfd = hold(child.id().cast_signed());
        let _ = child.kill();
        self.groups.bury(Place::default(), Remains { pidfd, ..Remains::default() });
        // Takes it off the list of processes, whenever it dies.
        let wait = std::thread::Builder::new().name("spawner-wait".to_owned());
        let _ = wait.spawn(move || drop(child.wait()));
    }
}

/// Its queue is full: it has not read for a while.
fn is_full(error: &socket::Error) -> bool {
    matches!(error, socket::Error::Io(Errno::AGAIN))
}

fn unheard(error: socket::Error) -> Error {
    match error {
        socket::Error::Closed => Error::Gone("spawner"),
        error if is_full(&error) => Error::Unresponsive("spawner"),
        error => error.into(),
    }
}

/// A template's first word, with the pidfd of its process.
async fn first_word(
    link: &Link<ToTemplate, FromTemplate>,
) -> Result<(Mode, Option<OwnedFd>), Error> {
    match link.receive().await {
        Ok(received) => match received.message {
            FromTemplate::Ready { mode } => {
                let process = received.pid.and_then(hold);
                // While its socket is open its number is nobody else's.
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

/// The socket travels as standard input, so that no descriptor needs to survive `exec` by number.
#[expect(clippy::disallowed_methods, reason = "this is the one process the service starts")]
fn launch(exe: &Path, socket: OwnedFd) -> std::io::Result<Child> {
    Command::new(exe)
        .arg0(ROLE)
        .stdin(Stdio::from(socket))
        .stdout(Stdio::null())
        // It has nothing to say, and whoever reads our own standard error must not wait for it.
        .stderr(Stdio::null())
        .env_clear()
        .current_dir("/")
        .spawn()
}

/// What a template said about a request.
pub(crate) type Spawned = Result<OwnedFd, SetupError>;
