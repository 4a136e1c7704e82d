//! Redis beside the server: rate limits that several servers share, and a mirror of holds and sessions
//! for dashboards of SomaAgent 01.
//!
//! Redis decides nothing that matters for a call, and nothing is lost with it. While it is away each
//! server keeps to its own share of a rate, and the mirror is written anew when it is back.
//!
//! Contents: `link` holds the connection, `rate` asks for requests of a rate, `mirror` writes the keys
//! of SomaAgent 01.
//!
//! Invariants:
//! - all servers together never let more through than the rate and its burst, also while Redis goes and
//!   comes back: see `rate`;
//! - no request waits for a Redis that does not answer, but those that were under way when it stopped;
//! - nothing of ours is read from the mirror: keys that others delete or change there have no effect.

mod link;
mod mirror;
mod rate;

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge},
    registry::Registry,
};
use redis::{Client, IntoConnectionInfo as _};
use ringfence_store::Store;
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::link::Link;

/// Settings of Redis.
#[derive(Debug, Clone)]
pub struct Config {
    /// Address and credentials.
    pub url: RedisUrl,
    /// Prefix of the keys of held calls.
    pub requeue_prefix: String,
    /// Lifetime of the entry of a session.
    pub session_lifetime: Duration,
}

/// Address of a Redis server, with credentials. It is shown without them.
#[derive(Clone)]
pub struct RedisUrl {
    client: Client,
}

/// Reason why a text is not the address of a Redis server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUrl {
    /// TLS is not built in.
    #[error("TLS to Redis is not supported; use redis:// over a private network or a tunnel")]
    Tls,
    /// It cannot be read. The text is not repeated: it may hold a password.
    #[error("not redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]")]
    Malformed,
}

impl FromStr for RedisUrl {
    type Err = InvalidUrl;

    fn from_str(text: &str) -> Result<Self, InvalidUrl> {
        if text.starts_with("rediss:") {
            return Err(InvalidUrl::Tls);
        }
        if !text.starts_with("redis://") {
            return Err(InvalidUrl::Malformed);
        }
        let info = text.into_connection_info().map_err(|_| InvalidUrl::Malformed)?;
        let client = Client::open(info).map_err(|_| InvalidUrl::Malformed)?;
        Ok(Self { client })
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = self.client.get_connection_info();
        write!(f, "redis://{}/{}", info.addr(), info.redis_settings().db())
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Metrics of the connection.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    is_up: Gauge,
    failures: Counter,
    servers: Gauge,
}

impl Metrics {
    /// Registers the metrics.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("redis_up", "Whether Redis answers", self.is_up.clone());
        let about = "Servers that share rate limits, this one included";
        registry.register("rate_limit_servers", about, self.servers.clone());
        // The library appends `_total`.
        let about = "Commands and connections that failed";
        registry.register("redis_failures", about, self.failures.clone());
    }
}

/// Connection to Redis and what is written there. Clones share it.
#[derive(Debug, Clone)]
pub struct Redis {
    link: Arc<Link>,
    tasks: TaskTracker,
    stopping: CancellationToken,
}

impl Redis {
    /// Begins to connect. A Redis that is away now is found later.
    pub fn start(config: &Config, store: Arc<dyn Store>, metrics: Metrics) -> Self {
        let link = Arc::new(Link::new(config.url.clone(), store.servers(), metrics));
        let (tasks, stopping) = (TaskTracker::new(), CancellationToken::new());
        let mirror = mirror::Mirror::new(config, link.clone(), store);
        let until_stopped = stopping.clone().cancelled_owned();
        tasks.spawn({
            let link = link.clone();
            async move {
                tokio::select! {
                    () = link.run() => {}
                    () = until_stopped => {}
                }
            }
        });
        let until_stopped = stopping.clone().cancelled_owned();
        tasks.spawn(async move {
            tokio::select! {
                () = mirror.run() => {}
                () = until_stopped => {}
            }
        });
        tasks.close();
        Self { link, tasks, stopping }
    }

    /// Whether Redis answers; changes with it.
    pub fn is_up(&self) -> watch::Receiver<bool> {
        self.link.is_up()
    }

    /// Ends the connection.
    pub async fn stop(&self) {
        self.stopping.cancel();
        self.tasks.wait().await;
    }
}
