//! The connection, whether it can be used, and since when it cannot.

use std::{
    fmt,
    sync::{PoisonError, RwLock},
    time::{Duration, Instant},
};

use redis::{AsyncConnectionConfig, ErrorKind, RedisError, aio::MultiplexedConnection, cmd};
use tokio::sync::{Notify, watch};

use crate::{Metrics, RedisUrl};

/// Time limit of a command. Requests wait for it once, when Redis stops to answer.
const COMMAND_TIMEOUT: Duration = Duration::from_millis(100);

/// Time limit of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// Time between two beats, and between two tries to connect.
const BEAT: Duration = Duration::from_millis(250);

/// Time after the first contact with a new Redis at which its rates count, by its own clock. All servers
/// that can reach it have done so by then, so they begin to share at the same moment.
pub(crate) const SETTLE_TIME: Duration = Duration::from_secs(2);

const _: () =
    assert!(SETTLE_TIME.as_millis() > 2 * (BEAT.as_millis() + CONNECT_TIMEOUT.as_millis()));

/// Key of the note about the server of Redis: see `beat.lua`.
pub(crate) const NOTE: &str = "ringfence:rate:note";

pub(crate) struct Link {
    url: RedisUrl,
    servers: watch::Receiver<u32>,
    metrics: Metrics,
    state: RwLock<State>,
    is_up: watch::Sender<bool>,
    /// A command failed.
    failed: Notify,
}

#[derive(Clone)]
enum State {
    Down { since: Instant },
    Up { connection: MultiplexedConnection, shared_from: Instant, down_since: Instant },
}

/// Reason why Redis cannot be asked for a rate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Alone {
    /// Time from which this server was alone.
    pub(crate) since: Instant,
    /// Servers that live, this one included.
    pub(crate) servers: u32,
}

impl Link {
    pub(crate) fn new(url: RedisUrl, servers: watch::Receiver<u32>, metrics: Metrics) -> Self {
        Self {
            url,
            servers,
            metrics,
            state: RwLock::new(State::Down { since: Instant::now() }),
            is_up: watch::Sender::new(false),
            failed: Notify::new(),
        }
    }

    pub(crate) fn is_up(&self) -> watch::Receiver<bool> {
        self.is_up.subscribe()
    }

    /// The connection, if Redis answers.
    pub(crate) fn connection(&self) -> Option<MultiplexedConnection> {
        match self.state() {
            State::Up { connection, .. } => Some(connection),
            State::Down { .. } => None,
        }
    }

    /// The connection, if rates are shared by it now.
    pub(crate) fn shared(&self) -> Result<MultiplexedConnection, Alone> {
        match self.state() {
            State::Up { connection, shared_from, .. } if shared_from <= Instant::now() => {
                Ok(connection)
            }
            State::Up { down_since: since, .. } | State::Down { since } => Err(self.alone(since)),
        }
    }

    /// Gives the connection up after a command failed.
    pub(crate) fn fail(&self, error: &RedisError) -> Alone {
        let since = self.go_down(error);
        self.failed.notify_one();
        self.alone(since)
    }

    fn alone(&self, since: Instant) -> Alone {
        Alone { since, servers: self.count_servers() }
    }

    fn count_servers(&self) -> u32 {
        let servers = (*self.servers.borrow()).max(1);
        self.metrics.servers.set(i64::from(servers));
        servers
    }

    fn state(&self) -> State {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The time since which Redis is away; now, if it was not.
    fn go_down(&self, error: &RedisError) -> Instant {
        self.metrics.failures.inc();
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let since = match &*state {
            State::Down { since } => *since,
            // Not yet shared: still the same time alone.
            State::Up { shared_from, down_since, .. } if *shared_from > now => *down_since,
            State::Up { .. } => now,
        };
        *state = State::Down { since };
        drop(state);
        if self.is_up.send_replace(false) {
            self.metrics.is_up.set(0);
            let (address, error) = (&self.url, error.to_string());
            tracing::warn!(%address, error, "Redis does not answer; rate limits are split");
        }
        since
    }

    fn go_up(&self, connection: MultiplexedConnection, shared_from: Instant) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let down_since = match &*state {
            State::Down { since } => *since,
            // A beat of a connection that is in use.
            State::Up { .. } => return,
        };
        *state = State::Up { connection, shared_from, down_since };
        drop(state);
        if !self.is_up.send_replace(true) {
            self.metrics.is_up.set(1);
            tracing::info!(address = %self.url, "Redis answers");
        }
    }

    /// Keeps a connection, for good.
    pub(crate) async fn run(&self) {
        loop {
            if let Err(error) = self.connected().await {
                self.go_down(&error);
            }
            tokio::time::sleep(BEAT).await;
        }
    }

    /// Connects and beats until something fails.
    async fn connected(&self) -> Result<(), RedisError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(COMMAND_TIMEOUT));
        let client = &self.url.client;
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        loop {
            let shared_from = beat(&mut connection).await?;
            self.go_up(connection.clone(), shared_from);
            self.count_servers();
            tokio::select! {
                () = tokio::time::sleep(BEAT) => {}
                () = self.failed.notified() => return Ok(()),
            }
        }
    }
}

/// Asks Redis for its age; gives the time from which its rates count.
async fn beat(connection: &mut MultiplexedConnection) -> Result<Instant, RedisError> {
    let mut command = cmd("EVAL");
    command.arg(include_str!("beat.lua")).arg(1).arg(NOTE);
    let (now, since): (i64, i64) = command.query_async(connection).await?;
    let settle = i64::try_from(SETTLE_TIME.as_micros()).unwrap_or(i64::MAX);
    let left = since.saturating_add(settle).saturating_sub(now).clamp(0, settle);
    Ok(Instant::now() + Duration::from_micros(left.unsigned_abs()))
}

/// Error for an answer that makes no sense.
pub(crate) fn unexpected(what: &'static str) -> RedisError {
    RedisError::from((ErrorKind::UnexpectedReturnType, what))
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("url", &self.url).finish_non_exhaustive()
    }
}
