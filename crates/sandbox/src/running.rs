//! A program that runs, as its caller holds it, whichever backend runs it: live output, its end, and the way to ask for it.

use std::sync::Arc;

use tokio::{sync::Notify, task::JoinHandle};

use crate::{Error, Report, live::Live, output::Output};

/// A program that runs. Dropping it ends the sandbox.
#[derive(Debug)]
pub struct Running {
    /// Its standard output, live.
    pub stdout: Output,
    /// Its standard error, live.
    pub stderr: Output,
    canceller: Canceller,
    task: JoinHandle<Result<Report, Error>>,
}

/// Asks a program to end, from wherever it is held: one task waits while another cancels.
#[derive(Debug, Clone, Default)]
pub struct Canceller {
    /// Keeps the wish until the program is watched; more than one are the same.
    wish: Arc<Notify>,
}

impl Canceller {
    /// Asks for the end; the report says `cancelled` unless the program was faster. Does nothing
    /// to one that has ended.
    pub fn cancel(&self) {
        self.wish.notify_one();
    }

    /// Waits until the end is asked for. For the one task that watches the program.
    pub async fn cancelled(&self) {
        self.wish.notified().await;
    }
}

impl Running {
    /// A program of any backend. `end` owns its sandbox: it comes to the report, heeds
    /// [`Canceller::cancelled`], and takes the sandbox with it when it is dropped. It runs on a task of
    /// its own from here on.
    pub fn new(
        stdout: Output,
        stderr: Output,
        canceller: Canceller,
        end: impl Future<Output = Result<Report, Error>> + Send + 'static,
    ) -> Self {
        Self { stdout, stderr, canceller, task: tokio::spawn(end) }
    }

    /// A program of the native backend.
    pub(crate) fn watch(live: Live) -> Self {
        let canceller = Canceller::default();
        let stdout = live.streams.stdout.output.clone();
        let stderr = live.streams.stderr.output.clone();
        let asked = canceller.clone();
        let end = async move { live.watch(asked.cancelled()).await.inspect_err(Error::log) };
        Self::new(stdout, stderr, canceller, end)
    }

    /// A handle that can cancel while somebody else waits. Holding it keeps nothing alive.
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }

    /// Asks for the end; the report says `cancelled` unless the program was faster.
    pub fn cancel(&self) {
        self.canceller.cancel();
    }

    /// Waits for the end. A cancelled program's report has its output, usage, layers and timings
    /// like any other.
    pub async fn wait(mut self) -> Result<Report, Error> {
        let report = (&mut self.task).await;
        report.unwrap_or(Err(Error::Gone("task that watched the sandbox")))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The task owns the sandbox: without it there is none.
        self.task.abort();
    }
}
