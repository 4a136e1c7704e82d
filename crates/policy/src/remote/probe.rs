//! Probe of a failed engine until it recovers, with notification of the subscribers.
//!
//! A healthy engine is not probed. A failed connection is probed with a light request until one
//! succeeds. After a malformed answer only another real answer can show recovery, so subscribers are
//! notified to ask again, at growing intervals.
//!
//! Every notification rechecks all held calls, and a document on which the engine always fails may
//! alternate with others that it answers. So the interval grows from one failure to the next and is
//! reset only after [`CALM_PERIOD`].

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ringfence_egress::{Exchange, GuardedClient, Method, Target, Timeouts};

use super::Health;

/// First delay after a failure.
const FIRST_DELAY: Duration = Duration::from_millis(200);
/// Longest interval between probes of a failed connection.
const MAX_PROBE_INTERVAL: Duration = Duration::from_secs(2);
/// Longest interval between notifications to ask again.
const MAX_NOTIFY_INTERVAL: Duration = Duration::from_secs(15);
/// Time without failures after which the interval is reset.
const CALM_PERIOD: Duration = Duration::from_secs(60);

pub(super) struct Probe {
    pub(super) client: GuardedClient,
    pub(super) url: Target,
    pub(super) timeouts: Timeouts,
    pub(super) health: Arc<Health>,
}

impl Probe {
    /// Probes until aborted.
    pub(super) async fn run(self) {
        let (mut pause, mut calm) = (FIRST_DELAY, Instant::now());
        loop {
            tokio::select! {
                () = self.health.began.notified() => {
                    let start = if calm.elapsed() > CALM_PERIOD { FIRST_DELAY } else { pause };
                    pause = self.until_well(start).await;
                    calm = Instant::now();
                    tracing::info!("a policy engine answers again");
                    self.health.tick();
                }
                () = self.health.other_rules.notified() => {
                    self.health.tick();
                    tokio::time::sleep(FIRST_DELAY).await;
                }
            }
        }
    }

    /// Probes until the engine has recovered; returns the next interval.
    async fn until_well(&self, mut pause: Duration) -> Duration {
        while self.health.is_troubled() {
            let longest =
                if self.health.has_line() { MAX_NOTIFY_INTERVAL } else { MAX_PROBE_INTERVAL };
            tokio::time::sleep(pause.min(longest)).await;
            pause = (pause * 2).min(MAX_NOTIFY_INTERVAL);
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
            // Until recovery is known, a real question has to be asked.
            self.health.tick();
        }
    }

    /// Whether the server answers: any status other than a server error counts.
    async fn gets_through(&self) -> bool {
        let timeouts = self.timeouts;
        let request = Exchange { timeouts, ..Exchange::new(Method::GET, self.url.clone()) };
        let asked = self.client.send(request).await;
        asked.is_ok_and(|answer| !answer.status.is_server_error())
    }
}
