//! The service's side of a template: requests sandboxes and routes each answer to its caller.

use std::{
    collections::HashMap,
    os::fd::{BorrowedFd, OwnedFd},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use ringfence_jail::{
    Stage, socket,
    wire::{FromTemplate, Mode, ToTemplate},
};
use tokio::{sync::oneshot, task::AbortHandle, time::timeout};

use crate::{
    Error,
    groups::{Groups, Leftovers, SandboxSlot, kill},
    health::SetupTimer,
    link::Link,
    spawner::Spawned,
};

/// A running template.
#[derive(Debug)]
pub(crate) struct Template {
    shared: Arc<TemplateShared>,
    reader: AbortHandle,
    process: Option<OwnedFd>,
    groups: Arc<Groups>,
    /// Privileges with which it builds.
    pub(crate) mode: Mode,
}

#[derive(Debug)]
struct TemplateShared {
    link: Link<ToTemplate, FromTemplate>,
    next: AtomicU64,
    /// Waiting callers by request number; `None` once the template is gone.
    waiting: Mutex<Option<HashMap<u64, oneshot::Sender<Spawned>>>>,
}

impl Template {
    /// Takes over a template that is ready, and the pidfd of its process.
    pub(crate) fn new(
        link: Link<ToTemplate, FromTemplate>,
        mode: Mode,
        process: Option<OwnedFd>,
        groups: Arc<Groups>,
    ) -> Self {
        let waiting = Mutex::new(Some(HashMap::new()));
        let shared = Arc::new(TemplateShared { link, next: AtomicU64::new(1), waiting });
        let reader = tokio::spawn(read(shared.clone())).abort_handle();
        Self { shared, reader, process, groups, mode }
    }

    /// Whether requests may succeed; `false` once the process was seen to be gone.
    pub(crate) fn is_alive(&self) -> bool {
        self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Whether its process is gone at this moment.
    pub(crate) fn is_gone(&self) -> bool {
        !self.is_alive() || self.shared.link.is_closed()
    }

    /// Sends a request made with its number, and waits for the pidfd of the new process. A template
    /// that does not answer in time gets no more requests; it ends with its last sandbox.
    pub(crate) async fn request(
        &self,
        message: impl FnOnce(u64) -> ToTemplate,
        fds: &[BorrowedFd<'_>],
    ) -> Result<OwnedFd, Error> {
        let _timer = SetupTimer::begin("clone");
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let answer = self.shared.expect(id)?;
        let asked = async {
            match self.shared.link.send(&message(id), fds).await {
                Ok(()) => Ok(answer.await.map_err(|_| Error::Gone("template"))??),
                Err(socket::Error::Closed) => {
                    self.shared.mark_gone();
                    Err(Error::Gone("template"))
                }
                Err(error) => {
                    self.shared.forget(id);
                    Err(error.into())
                }
            }
        };
        timeout(self.groups.health.rules.timeout, asked).await.unwrap_or_else(|_| {
            self.shared.mark_gone();
            Err(Error::Unresponsive("template"))
        })
    }
}

impl Drop for Template {
    fn drop(&mut self) {
        self.reader.abort();
        if let Some(process) = self.process.take() {
            kill(&process);
            let leftovers = Leftovers { pidfd: Some(process), ..Leftovers::default() };
            self.groups.tear_down(SandboxSlot::default(), leftovers);
        }
    }
}

impl TemplateShared {
    fn expect(&self, id: u64) -> Result<oneshot::Receiver<Spawned>, Error> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.as_mut().ok_or(Error::Gone("template"))?.insert(id, sender);
        Ok(receiver)
    }

    /// Marks the template as gone: the senders of waiting callers are dropped, and new requests
    /// fail.
    fn mark_gone(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn forget(&self, id: u64) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.as_mut().and_then(|map| map.remove(&id));
    }

    fn answer(&self, id: u64, spawned: Spawned) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = waiting.as_mut().and_then(|map| map.remove(&id)) {
            // If the caller gave up, the pidfd is dropped and the sandbox sees its control socket
            // close.
            let _ = sender.send(spawned);
        }
    }
}

async fn read(shared: Arc<TemplateShared>) {
    while let Ok(received) = shared.link.receive().await {
        match received.message {
            FromTemplate::Spawned { id } => {
                let lost = ringfence_jail::SetupError { stage: Stage::Clone, errno: 5 };
                shared.answer(id, received.fds.into_iter().next().ok_or(lost));
            }
            FromTemplate::Refused { id, error } => shared.answer(id, Err(error)),
            FromTemplate::Ready { .. } | FromTemplate::Failed(_) => break,
        }
    }
    shared.mark_gone();
}
