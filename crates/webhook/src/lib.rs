//! Webhooks: deliveries of events to other services over HTTP.
//!
//! Each address is a separate group on the bus, so every published event reaches each address at
//! least once and in order per key, also across restarts. A delivery carries the three headers of
//! Standard Webhooks, so that the receiver can check origin, age and repetition, and the attributes of
//! CloudEvents in binary mode.
//!
//! Invariants:
//! - no event is dropped silently: after too many attempts it is a dead letter with its cause;
//! - the secret is in no log, error or header;
//! - a redirect is not followed: a signed delivery goes to the configured address only;
//! - no delivery reaches a metadata service, whatever its name resolves to.

mod deliver;
mod secret;

use std::{sync::Arc, time::Duration};

use prometheus_client::{metrics::counter::Counter, registry::Registry};
use ringfence_bus::{Bus, Group};
use ringfence_egress::{GuardedClient, Roots, Target, Timeouts};
use ringfence_types::{Clock, Digest};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::secret::{InvalidSecret, Secret};

/// Configuration of webhooks.
#[derive(Debug, Clone)]
pub struct Config {
    /// Addresses.
    pub urls: Vec<Target>,
    /// Secret for signatures.
    pub secret: Secret,
    /// Topics of the bus.
    pub topics: Vec<String>,
    /// Time limit of one attempt.
    pub timeout: Duration,
    /// Pause after a first failure; it doubles each time.
    pub pause: Duration,
}

/// Number of deliveries by result.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    delivered: Counter,
    failed: Counter,
}

impl Counts {
    /// Registers the metrics.
    pub fn register(&self, registry: &mut Registry) {
        // The library appends `_total`.
        registry.register("webhook_delivered", "Events that were taken", self.delivered.clone());
        registry.register("webhook_failed", "Attempts that were not", self.failed.clone());
    }
}

/// Running webhooks.
#[derive(Debug)]
pub struct Webhooks {
    tasks: TaskTracker,
    stopping: CancellationToken,
}

/// Failure to start webhooks.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bus refused.
    #[error("join the bus")]
    Bus(#[from] ringfence_bus::Error),
}

impl Webhooks {
    /// Starts with events published from now on, or resumes where it stopped before.
    pub async fn start(
        config: Config,
        bus: &Arc<dyn Bus>,
        clock: Arc<dyn Clock>,
        counts: Counts,
    ) -> Result<Self, Error> {
        // The operator chose the addresses, so internal ones are allowed.
        let client = GuardedClient::configured(Roots::System);
        let (tasks, stopping) = (TaskTracker::new(), CancellationToken::new());
        for url in config.urls {
            let member = bus.join(group(&url, &config.topics)).await?;
            let endpoint = deliver::Endpoint {
                url,
                client: client.clone(),
                timeouts: Timeouts::within(config.timeout),
                secret: config.secret.clone(),
                pause: config.pause,
                clock: clock.clone(),
                counts: counts.clone(),
            };
            tasks.spawn(deliver::run(endpoint, member, stopping.clone()));
        }
        tasks.close();
        Ok(Self { tasks, stopping })
    }

    /// Stops after the attempts in flight. The rest is delivered after the next start.
    pub async fn stop(&self) {
        self.stopping.cancel();
        self.tasks.wait().await;
    }
}

/// Bus group of an address. Its name contains a digest instead of the URL, which may hold a token.
fn group(url: &Target, topics: &[String]) -> Group {
    let name = format!("webhook-{}", &Digest::of(url.as_str().as_bytes()).hex()[..16]);
    Group { name, topics: topics.to_vec(), from_oldest: false }
}
