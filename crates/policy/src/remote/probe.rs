//! Looks whether an engine that was in trouble is well again, and tells those who wait.
//!
//! Nothing is asked while nothing is wrong. A line that failed is tried with a light request until
//! one gets through. After an answer that was not understood only another real answer can show that
//! all is well, so those who wait are told to ask again, ever more rarely.
//!
//! Every tick makes somebody judge all held calls again, and a document that an engine always fails
//! on may alternate with others that it answers. So the pause between ticks grows from one trouble to
//! the next and is forgotten only after a calm while.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use reqwest::{Client, Url};

use super::Health;

/// How soon after trouble began.
const FIRST: Duration = Duration::from_millis(200);
/// How long at most between two looks at a line that failed.
const LINE: Duration = Duration::from_secs(2);
/// How long at most between two calls to ask again.
const ASK_AGAIN: Duration = Duration::from_secs(15);
/// After so long without trouble the next one is like the first.
const CALM: Duration = Duration::from_secs(60);

pub(super) struct Probe {
    pub(super) client: Client,
    pub(super) url: Url,
    pub(super) health: Arc<Health>,
}

impl Probe {
    /// Until aborted.
    pub(super) async fn run(self) {
        let (mut pause, mut calm) = (FIRST, Instant::now());
        loop {
            tokio::select! {
                () = self.health.began.notified() => {
                    let start = if calm.elapsed() > CALM { FIRST } else { pause };
                    pause = self.until_well(start).await;
                    calm = Instant::now();
                    tracing::info!("a policy engine answers again");
                    self.health.tick();
                }
                () = self.health.other_rules.notified() => {
                    self.health.tick();
                    tokio::time::sleep(FIRST).await;
                }
            }
        }
    }

    /// Returns how long the next pause is.
    async fn until_well(&self, mut pause: Duration) -> Duration {
        while self.health.is_troubled() {
            let longest = if self.health.has_line() { ASK_AGAIN } else { LINE };
            tokio::time::sleep(pause.min(longest)).await;
            pause = (pause * 2).min(ASK_AGAIN);
            self.look().await;
        }
        pause
    }

    async fn look(&self) {
        if !self.health.has_line() {
            if self.gets_through().await {
                self.health.line_works();
            }
        } else if self.health.is_troubled() {
            // Till it is known to be well, somebody has to try.
            self.health.tick();
        }
    }

    /// Any answer that is not a failure of the server shows that somebody is there.
    async fn gets_through(&self) -> bool {
        let asked = self.client.get(self.url.clone()).send().await;
        asked.is_ok_and(|response| !response.status().is_server_error())
    }
}
