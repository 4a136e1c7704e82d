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
pub(crate) struct Onward {
    /// None once the call has come to where it stands still.
    walk: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Onward {
    /// Tracked from here on, whoever drives it.
    pub(crate) fn new(
        tasks: &TaskTracker,
        walk: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        Self { walk: Some(Box::pin(tasks.track_future(walk))) }
    }
}

impl Future for Onward {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(walk) = &mut self.walk else { return Poll::Ready(()) };
        let polled = walk.as_mut().poll(context);
        if polled.is_ready() {
            self.walk = None;
        }
        polled
    }
}

impl Drop for Onward {
    fn drop(&mut self) {
        // Without a runtime the process is ending, and the next one recovers the call.
        if let (Some(walk), Ok(handle)) = (self.walk.take(), Handle::try_current()) {
            drop(handle.spawn(walk));
        }
    }
}

impl fmt::Debug for Onward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Onward").field("is_over", &self.walk.is_none()).finish()
    }
}
