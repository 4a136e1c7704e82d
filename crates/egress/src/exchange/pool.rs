//! Kept connections of one client.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hyper::client::conn::http1::SendRequest;
use tokio::time::{Instant, timeout};

use super::RequestBody;
use crate::{
    host::Host,
    target::{Scheme, Target},
};

/// Kept connections to one server.
const MAX_IDLE_PER_SERVER: usize = 16;
/// Kept connections in all.
const MAX_IDLE: usize = 256;
/// Age at which an unused connection is closed. A name may lead elsewhere by then.
const MAX_IDLE_TIME: Duration = Duration::from_secs(30);
/// Time for a connection to finish its last answer, whose body was read to the end.
const READY_TIMEOUT: Duration = Duration::from_secs(1);

/// Connection to one server.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) sender: SendRequest<RequestBody>,
    pub(super) peer: Option<SocketAddr>,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    since: Instant,
}

type Server = (bool, Host, u16);

/// Unused connections by server, the newest last.
#[derive(Debug, Default)]
pub(super) struct Pool(Mutex<HashMap<Server, Vec<Idle>>>);

impl Pool {
    /// Open connection to the server of `url`.
    pub(super) async fn take(&self, url: &Target) -> Option<Connection> {
        while let Some(mut connection) = self.newest(url) {
            let ready = timeout(READY_TIMEOUT, connection.sender.ready()).await;
            if matches!(ready, Ok(Ok(()))) {
                return Some(connection);
            }
        }
        None
    }

    fn newest(&self, url: &Target) -> Option<Connection> {
        let mut idle = self.lock();
        let found = idle.get_mut(&server(url))?;
        found.retain(is_usable);
        found.pop().map(|idle| idle.connection)
    }

    /// Keeps a connection whose last answer was read to the end.
    pub(super) fn put(&self, url: &Target, connection: Connection) {
        let mut idle = self.lock();
        idle.retain(|_, kept| {
            kept.retain(is_usable);
            !kept.is_empty()
        });
        let total: usize = idle.values().map(Vec::len).sum();
        let kept = idle.entry(server(url)).or_default();
        if total < MAX_IDLE && kept.len() < MAX_IDLE_PER_SERVER {
            kept.push(Idle { connection, since: Instant::now() });
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Server, Vec<Idle>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_usable(idle: &Idle) -> bool {
    !idle.connection.sender.is_closed() && idle.since.elapsed() < MAX_IDLE_TIME
}

fn server(url: &Target) -> Server {
    (url.scheme() == Scheme::Https, url.host().clone(), url.port())
}
