//! Looks whether an engine that was in trouble is well again.
//!
//! Nothing is asked while nothing is wrong. A line that failed is tried with a light request until
//! one gets through. After an answer that was not understood only another real answer can show that
//! all is well, so those who wait are told to ask again, ever more rarely.

use std::{sync::Arc, time::Duration};

use reqwest::{Client, Url};

use super::Health;

/// How soon after trouble began.
const FIRST: Duration = Duration::from_millis(200);
/// How long at most between two looks at a line that failed.
const LINE: Duration = Duration::from_secs(2);
/// How long at most between two calls to ask again.
const ASK_AGAIN: Duration = Duration::from_secs(60);

pub(super) struct Probe {
    pub(super) client: Client,
    pub(super) url: Url,
    pub(super) health: Arc<Health>,
}

impl Probe {
    /// Until aborted.
    pub(super) async fn run(self) {
        loop {
            self.health.began.notified().await;
            let mut pause = FIRST;
            while self.health.is_troubled() {
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    // Documents that are never understood may alternate with others that are.
                    () = self.health.ended.notified() => tokio::time::sleep(FIRST).await,
                }
                if self.health.is_troubled() {
                    pause = self.look(pause).await;
                }
            }
            tracing::info!("a policy engine answers again");
            self.health.tick();
        }
    }

    /// Returns when to look next.
    async fn look(&self, pause: Duration) -> Duration {
        if self.health.has_line() {
            // Ticks once more when it is well; till then somebody has to try.
            self.health.tick();
            return (pause * 2).min(ASK_AGAIN);
        }
        if self.gets_through().await {
            self.health.line_works();
        }
        (pause * 2).min(LINE)
    }

    /// Any answer that is not a failure of the server shows that somebody is there.
    async fn gets_through(&self) -> bool {
        let asked = self.client.get(self.url.clone()).send().await;
        asked.is_ok_and(|response| !response.status().is_server_error())
    }
}
