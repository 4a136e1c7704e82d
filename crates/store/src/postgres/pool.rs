//! Connections that are read from. Tenants take turns: one tenant never occupies all of them.

use std::{
    collections::HashMap,
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use super::{
    PostgresUrl,
    connect::{DbError, Link},
};
use crate::Error;

/// Connections for reads.
const READERS: usize = 6;

/// Connections that reads of one tenant occupy at most.
const READERS_PER_TENANT: usize = 3;

/// Connections for keys, which never wait for reads of tenants.
const KEY_READERS: usize = 2;

/// Lane of reads that belong to no tenant.
pub(super) const SERVER: &str = "";

/// Connections that are read from.
#[derive(Debug)]
pub(super) struct Pool {
    url: PostgresUrl,
    tenants: Places,
    keys: Places,
    lanes: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// A bounded number of connections.
#[derive(Debug)]
pub(super) struct Places {
    free: Semaphore,
    idle: Mutex<Vec<Link>>,
}

impl Places {
    fn new(count: usize) -> Self {
        Self { free: Semaphore::new(count), idle: Mutex::default() }
    }

    fn take(&self) -> Option<Link> {
        let mut idle = lock(&self.idle);
        std::iter::from_fn(|| idle.pop()).find(|link| !link.is_closed())
    }
}

/// A connection that is read from until this is dropped.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    link: Option<Link>,
    places: &'a Places,
    _place: SemaphorePermit<'a>,
    _turn: Option<OwnedSemaphorePermit>,
}

impl Deref for Reader<'_> {
    type Target = Link;

    fn deref(&self) -> &Link {
        self.link.as_ref().expect("a reader has its connection until it is dropped")
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        lock(&self.places.idle).extend(self.link.take().filter(|link| !link.is_closed()));
    }
}

impl Pool {
    pub(super) fn new(url: PostgresUrl) -> Self {
        let (tenants, keys) = (Places::new(READERS), Places::new(KEY_READERS));
        Self { url, tenants, keys, lanes: Mutex::default() }
    }

    pub(super) fn url(&self) -> &PostgresUrl {
        &self.url
    }

    /// A connection for a tenant.
    pub(super) async fn read_for(&self, lane: &str) -> Result<Reader<'_>, Error> {
        let turn = self.lane(lane).acquire_owned().await;
        let turn = turn.map_err(Error::backend("wait for a turn"))?;
        self.take(&self.tenants, Some(turn)).await
    }

    /// A connection for the server itself.
    pub(super) async fn read(&self) -> Result<Reader<'_>, Error> {
        self.read_for(SERVER).await
    }

    /// A connection for keys and leases.
    pub(super) async fn look_up(&self) -> Result<Reader<'_>, Error> {
        self.take(&self.keys, None).await
    }

    async fn take<'a>(
        &'a self,
        places: &'a Places,
        turn: Option<OwnedSemaphorePermit>,
    ) -> Result<Reader<'a>, Error> {
        let place = places.free.acquire().await.map_err(Error::backend("wait for a connection"))?;
        let link = match places.take() {
            Some(link) => link,
            None => Link::open(&self.url).await?,
        };
        Ok(Reader { link: Some(link), places, _place: place, _turn: turn })
    }

    fn lane(&self, name: &str) -> Arc<Semaphore> {
        let mut lanes = lock(&self.lanes);
        if let Some(lane) = lanes.get(name).and_then(Weak::upgrade) {
            return lane;
        }
        if lanes.len() >= 1_024 {
            lanes.retain(|_, lane| lane.strong_count() > 0);
        }
        let lane = Arc::new(Semaphore::new(READERS_PER_TENANT));
        lanes.insert(name.to_owned(), Arc::downgrade(&lane));
        lane
    }
}

/// No code panics under these locks, so a poisoned one is as good as any.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl From<DbError> for Error {
    fn from(error: DbError) -> Self {
        Error::Backend { doing: "query the database", source: Box::new(error) }
    }
}
