//! A call driven by its waiting caller, and by a task of its own once the caller stops waiting.
//!
//! Most calls end before their caller stops waiting. Those need no task and no wake-up by one.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

/// The rest of a call. Dropping it moves the call to its own task.
pub(crate) struct DetachOnDrop {
    /// None once the call has ended or is held.
    future: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl DetachOnDrop {
    /// Tracked from here on, wherever it is polled.
    pub(crate) fn new(
        tasks: &TaskTracker,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        Self { future: Some(Box::pin(tasks.track_future(future))) }
    }
}

impl Future for DetachOnDrop {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(future) = &mut self.future else { return Poll::Ready(()) };
        let polled = future.as_mut().poll(context);
        if polled.is_ready() {
            self.future = None;
        }
        polled
    }
}

impl Drop for DetachOnDrop {
    fn drop(&mut self) {
        // Without a runtime the process is ending, and the next one recovers the call.
        if let (Some(future), Ok(handle)) = (self.future.take(), Handle::try_current()) {
            drop(handle.spawn(future));
        }
    }
}

impl fmt::Debug for DetachOnDrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DetachOnDrop").field("is_over", &self.future.is_none()).finish()
    }
}
