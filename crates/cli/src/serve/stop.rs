//! Stop signal, sent once and awaited by many.

use tokio::sync::watch;

/// Stop signal.
#[derive(Debug)]
pub(super) struct Stop(watch::Sender<bool>);

impl Default for Stop {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Stop {
    pub(super) fn ask(&self) {
        self.0.send_replace(true);
    }

    /// Waits for the signal; the sender may be gone by then.
    pub(super) fn asked(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut receiver = self.0.subscribe();
        async move {
            let _ = receiver.wait_for(|asked| *asked).await;
        }
    }
}
