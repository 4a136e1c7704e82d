//! The service's side of the spawner: one helper process, started at most once at a time.

use std::{
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use ringfence_jail::{
    SetupError, socket,
    wire::{FromTemplate, Mode, RootSpec, ToSpawner, ToTemplate},
};

use crate::{Error, link::Link, template::Template};

/// The name under which our own binary plays the spawner; `main` looks for it before anything else.
pub const ROLE: &str = "ringfence-spawner";

/// A running spawner. Ends, with all it made, when dropped.
#[derive(Debug)]
pub(crate) struct Spawner {
    // Dropped before `child` is waited for: the closed socket is the order to end.
    socket: Option<OwnedFd>,
    child: Child,
}

impl Spawner {
    /// Starts `exe` in the role.
    pub(crate) fn start(exe: &Path) -> Result<Self, Error> {
        let pair = socket::pair().map_err(std::io::Error::from);
        let (ours, theirs) = pair.map_err(Error::io("make a socket for the spawner"))?;
        // A spawner that reads nothing any more is as good as gone; nobody waits for it.
        let unblocked = rustix::io::ioctl_fionbio(&ours, true).map_err(std::io::Error::from);
        unblocked.map_err(Error::io("make a socket for the spawner"))?;
        let child = launch(exe, theirs).map_err(Error::io("start the spawner"))?;
        Ok(Self { socket: Some(ours), child })
    }

    /// These cgroups are removed by the spawner should we die.
    pub(crate) fn own(&self, cgroups: Vec<PathBuf>) -> Result<(), Error> {
        self.tell(&ToSpawner::Own(cgroups), &[])
    }

    fn tell(&self, message: &ToSpawner, fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        let socket = self.socket.as_ref().ok_or(Error::Gone("spawner"))?;
        socket::send(socket.as_fd(), message, fds).map_err(|_| Error::Gone("spawner"))
    }

    /// Has a template made for `root` and waits until it stands.
    pub(crate) async fn template(&self, root: &RootSpec) -> Result<Template, Error> {
        let (link, theirs) = Link::<ToTemplate, FromTemplate>::pair()
            .map_err(Error::io("make a socket for a template"))?;
        self.tell(&ToSpawner::Template(root.clone()), &[theirs.as_fd()])?;
        drop(theirs);
        let mode = first_word(&link).await?;
        Ok(Template::new(link, mode))
    }

    /// Closes the socket and waits for the end of everything.
    pub(crate) fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if self.socket.take().is_some() {
            let _ = self.child.wait();
        }
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        self.end();
    }
}

async fn first_word(link: &Link<ToTemplate, FromTemplate>) -> Result<Mode, Error> {
    match link.receive().await {
        Ok(received) => match received.message {
            FromTemplate::Ready { mode } => Ok(mode),
            FromTemplate::Failed(error) => Err(error.into()),
            _ => Err(Error::Gone("template")),
        },
        Err(socket::Error::Closed) => Err(Error::Gone("spawner")),
        Err(error) => Err(error.into()),
    }
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
