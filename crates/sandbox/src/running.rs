//! A program that runs, as its caller holds it: live output, its end, and the way to ask for it.

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
#[derive(Debug, Clone)]
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
}

impl Running {
    /// Hands the program to a task of its own.
    pub(crate) fn watch(live: Live) -> Self {
        let canceller = Canceller { wish: Arc::new(Notify::new()) };
        let stdout = live.streams.stdout.output.clone();
        let stderr = live.streams.stderr.output.clone();
        let wish = canceller.wish.clone();
        let task = tokio::spawn(async move { live.watch(wish.notified()).await });
        Self { stdout, stderr, canceller, task }
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
