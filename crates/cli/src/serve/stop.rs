//! The wish to stop, which may be asked for once and waited for by many.

use tokio::sync::watch;

/// The wish to stop.
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

    /// Waits for it; who asks may be gone by then.
    pub(super) fn asked(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut receiver = self.0.subscribe();
        async move {
            let _ = receiver.wait_for(|asked| *asked).await;
        }
    }
}
