//! Tells other services what happened, over HTTP.
//!
//! Each address is a group of its own on the bus, so what is published reaches every one at least
//! once and in order per key, also across restarts. A delivery carries the three headers of
//! Standard Webhooks, so that the receiver can tell that it is ours, that it is new, and whether it
//! has seen it before; and the attributes of CloudEvents in binary mode.
//!
//! Invariants:
//! - nothing is given up in silence: what was tried too often is a dead letter with its cause;
//! - the secret is in no log, error or header;
//! - a redirect is not followed: what was signed goes to the address that was named.

mod deliver;
mod secret;

use std::{sync::Arc, time::Duration};

use prometheus_client::{metrics::counter::Counter, registry::Registry};
use reqwest::Url;
use ringfence_bus::{Bus, Group};
use ringfence_types::{Clock, Digest};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::secret::{InvalidSecret, Secret};

/// Who is told what.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to.
    pub urls: Vec<Url>,
    /// What is signed with.
    pub secret: Secret,
    /// What of: topics of the bus.
    pub topics: Vec<String>,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// How long to wait after a first failure; then twice as long each time.
    pub pause: Duration,
}

/// Deliveries so far.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    delivered: Counter,
    failed: Counter,
}

impl Counts {
    /// Shows them.
    pub fn register(&self, registry: &mut Registry) {
        // The library appends `_total`.
        registry.register("webhook_delivered", "Events that were taken", self.delivered.clone());
        registry.register("webhook_failed", "Attempts that were not", self.failed.clone());
    }
}

/// Webhooks that are being delivered.
#[derive(Debug)]
pub struct Webhooks {
    tasks: TaskTracker,
    stopping: CancellationToken,
}

/// Why nothing can be delivered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The client could not be made.
    #[error("prepare the connection")]
    Client(#[source] reqwest::Error),
    /// The bus refused.
    #[error("join the bus")]
    Bus(#[from] ringfence_bus::Error),
}

impl Webhooks {
    /// Begins with what is published from now on, or goes on where it stopped before.
    pub async fn start(
        config: Config,
        bus: &Arc<dyn Bus>,
        clock: Arc<dyn Clock>,
        counts: Counts,
    ) -> Result<Self, Error> {
        // The client library takes the process's choice of cryptography and has none of its own.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .user_agent(concat!("ringfence/", env!("CARGO_PKG_VERSION")))
            .timeout(config.timeout)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .map_err(Error::Client)?;
        let (tasks, stopping) = (TaskTracker::new(), CancellationToken::new());
        for url in config.urls {
            let member = bus.join(group(&url, &config.topics)).await?;
            let line = deliver::Line {
                url,
                http: http.clone(),
                secret: config.secret.clone(),
                pause: config.pause,
                clock: clock.clone(),
                counts: counts.clone(),
            };
            tasks.spawn(deliver::run(line, member, stopping.clone()));
        }
        tasks.close();
        Ok(Self { tasks, stopping })
    }

    /// Stops after the attempts that are under way. What is left is delivered after the next start.
    pub async fn stop(&self) {
        self.stopping.cancel();
        self.tasks.wait().await;
    }
}

/// The name holds no address: it is shown in places where a path with a token should not be.
fn group(url: &Url, topics: &[String]) -> Group {
    let name = format!("webhook-{}", &Digest::of(url.as_str().as_bytes()).hex()[..16]);
    Group { name, topics: topics.to_vec(), from_oldest: false }
}
