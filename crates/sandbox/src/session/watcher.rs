//! Events of a workspace as they happen.

use std::{
    os::fd::AsFd,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::net::unix::pipe;

use super::{Error, files::blocking, shared::Shared};
use crate::files::{Event, Watch};

/// An open watch on a session's files. Waiting for events is no use of the session.
#[derive(Debug)]
pub struct Watcher {
    /// The descriptor behind `watch`. No pipe, but the runtime's nearest type: only readiness is
    /// asked of it.
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

    /// What happened since the last time, at least one event; `None` when the session has ended.
    pub async fn next(&mut self) -> Result<Option<Vec<Event>>, Error> {
        loop {
            tokio::select! {
                _ = self.shared.ended() => return Ok(None),
                ready = self.ready.readable() => ready.map_err(Error::io("wait for events"))?,
            }
            // Cleared before reading: what comes meanwhile makes it ready again.
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
