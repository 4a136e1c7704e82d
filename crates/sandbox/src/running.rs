//! Handle of a running program of any backend: live output, its end, and cancellation.

use std::{os::fd::OwnedFd, sync::Arc};

use tokio::{sync::Notify, task::JoinHandle};

use crate::{Error, Report, output::Output, supervisor::Supervisor};

/// A running program. Dropping it ends the sandbox.
#[derive(Debug)]
pub struct Running {
    /// Standard output, live.
    pub stdout: Output,
    /// Standard error, live.
    pub stderr: Output,
    /// Sockets of [`crate::Request::listeners`], in order.
    pub listeners: Vec<OwnedFd>,
    canceller: Canceller,
    task: JoinHandle<Result<Report, Error>>,
}

/// Handle that cancels a program while another task waits for it.
#[derive(Debug, Clone, Default)]
pub struct Canceller {
    /// Stores the request until the program is supervised; repeated requests are the same.
    wish: Arc<Notify>,
}

impl Canceller {
    /// Cancels the program; the report says `cancelled` unless it ended before. Does nothing after
    /// its end.
    pub fn cancel(&self) {
        self.wish.notify_one();
    }

    /// Waits for cancellation. For the one task that supervises the program.
    pub async fn cancelled(&self) {
        self.wish.notified().await;
    }
}

impl Running {
    /// A program of any backend. `end` owns its sandbox: it resolves to the report, reacts to
    /// [`Canceller::cancelled`], and ends the sandbox when it is dropped. It is spawned as a task
    /// here.
    pub fn new(
        stdout: Output,
        stderr: Output,
        canceller: Canceller,
        end: impl Future<Output = Result<Report, Error>> + Send + 'static,
    ) -> Self {
        let listeners = Vec::new();
        Self { stdout, stderr, listeners, canceller, task: tokio::spawn(end) }
    }

    /// A program of the native backend.
    pub(crate) fn watch(mut supervisor: Supervisor) -> Self {
        let listeners = std::mem::take(&mut supervisor.jailed.listeners);
        let canceller = Canceller::default();
        let stdout = supervisor.streams.stdout.output.clone();
        let stderr = supervisor.streams.stderr.output.clone();
        let asked = canceller.clone();
        let end = async move { supervisor.watch(asked.cancelled()).await.inspect_err(Error::log) };
        let mut running = Self::new(stdout, stderr, canceller, end);
        running.listeners = listeners;
        running
    }

    /// Handle that can cancel while another task waits. Holding it keeps nothing alive.
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }

    /// Cancels the program; the report says `cancelled` unless it ended before.
    pub fn cancel(&self) {
        self.canceller.cancel();
    }

    /// Waits for the end. The report of a cancelled program has its output, usage, layers and
    /// timings like any other.
    pub async fn wait(mut self) -> Result<Report, Error> {
        let report = (&mut self.task).await;
        report.unwrap_or(Err(Error::Gone("task that watched the sandbox")))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The task owns the sandbox, so aborting it ends the sandbox.
        self.task.abort();
    }
}
