//! Asynchronous events of a workspace.

use std::{
    os::fd::AsFd,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::net::unix::pipe;

use super::{Error, files::blocking, shared::Shared};
use crate::files::{Event, Watch};

/// An open watch on a session's files. Waiting for events does not count as use.
#[derive(Debug)]
pub struct Watcher {
    /// Descriptor behind `watch`, in the runtime's nearest type; only its readiness is used.
    ready: pipe::Receiver,
    watch: Arc<Mutex<Watch>>,
    shared: Arc<Shared>,
}

impl Watcher {
    pub(super) fn new(watch: Watch, shared: &Arc<Shared>) -> Result<Self, Error> {
        let duplicate = rustix::io::fcntl_dupfd_cloexec(watch.as_fd(), 3);
        let ready = duplicate
            .map_err(std::io::Error::from)
            .and_then(pipe::Receiver::from_owned_fd_unchecked);
        Ok(Self {
            ready: ready.map_err(Error::io("wait for events"))?,
            watch: Arc::new(Mutex::new(watch)),
            shared: shared.clone(),
        })
    }

    /// Events since the last call, at least one; `None` when the session has ended.
    pub async fn next(&mut self) -> Result<Option<Vec<Event>>, Error> {
        loop {
            tokio::select! {
                _ = self.shared.ended() => return Ok(None),
                ready = self.ready.readable() => ready.map_err(Error::io("wait for events"))?,
            }
            // Cleared before reading, so that events that arrive meanwhile make it ready again.
            let _ = self.ready.try_io(|| Err::<(), _>(std::io::ErrorKind::WouldBlock.into()));
            let events = read(self.watch.clone()).await?;
            if !events.is_empty() {
                return Ok(Some(events));
            }
        }
    }
}

async fn read(watch: Arc<Mutex<Watch>>) -> Result<Vec<Event>, Error> {
    blocking(move || {
        let mut watch = watch.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(watch.read_events()?)
    })
    .await
}
