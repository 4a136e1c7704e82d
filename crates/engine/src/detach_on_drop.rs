//! A call on its way: driven by whoever waits for it, and by a task of its own once nobody does.
//!
//! Most calls are over before their caller loses patience. Those cost no task, and their caller
//! need not be woken by one.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

/// The rest of a call. Dropping it lets the call go on by itself.
pub(crate) struct DetachOnDrop {
    /// None once the call has come to where it stands still.
    future: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl DetachOnDrop {
    /// Tracked from here on, whoever drives it.
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
