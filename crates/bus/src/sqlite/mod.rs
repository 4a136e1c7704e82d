//! A durable queue in the file that the store uses.
//!
//! Tables hold messages, positions of groups and dead letters. Memory holds the state of this process:
//! members, messages under way, delays.
//!
//! A topic has a fixed number of partitions, and of a partition at most one message is under way
//! per group. That is what keeps the order of a key across redelivery, and what makes partitions
//! the measure of how much a group does at once.

mod dead;
mod groups;
mod member;
mod place;
mod publish;
mod reclaim;
pub(crate) mod rows;
mod state;
#[cfg(test)]
mod tests;
mod topics;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use ringfence_sqlite::Db;
use ringfence_types::Clock;

use self::state::State;
use crate::{
    Bus, Dead, Error, Group, MAX_MESSAGE_BYTES, Member, Message, dead_letters::DeadLetters,
};

/// History of the tables; see [`Db::migrate`].
pub(crate) const MIGRATIONS: &[&str] = &[include_str!("schema.sql"), include_str!("schema2.sql")];

/// Bounds of the queue.
#[derive(Debug, Clone)]
pub struct Options {
    /// Partitions of a topic that is new; one that exists keeps its own number.
    pub partitions: u32,
    /// Messages that a topic holds.
    pub topic_messages: u64,
    /// Bytes of a message, with key and headers.
    pub message_bytes: usize,
    /// Age at which a message goes, read or not.
    pub retention: Duration,
    /// Dead letters kept per topic; beyond it the oldest goes.
    pub dead_letters: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            partitions: 16,
            topic_messages: 100_000,
            message_bytes: MAX_MESSAGE_BYTES,
            retention: Duration::from_secs(7 * 86_400),
            dead_letters: 10_000,
        }
    }
}

/// The durable queue. Clones share it.
#[derive(Clone)]
pub struct SqliteBus {
    db: Db,
    options: Arc<Options>,
    clock: Arc<dyn Clock>,
    dead: DeadLetters,
    state: Arc<Mutex<State>>,
}

impl SqliteBus {
    /// Brings the tables up to date and reads which topics there are.
    pub async fn open(db: Db, options: Options, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let dead = DeadLetters::open(db.clone(), options.dead_letters).await?;
        let state = Arc::new(Mutex::new(State::new(topics::load(&db).await?)));
        Ok(Self { db, options: Arc::new(options), clock, dead, state })
    }

    /// Ends all waiting for messages with [`Error::Closed`]. What was published stays.
    pub fn close(&self) {
        self.state().close();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// Nothing under the lock can panic half-way, so a poisoned lock is as good as any.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl Bus for SqliteBus {
    async fn publish(&self, messages: Vec<Message>) -> Result<(), Error> {
        publish::publish(self, messages).await
    }

    async fn join(&self, group: Group) -> Result<Box<dyn Member>, Error> {
        groups::join(self, group).await
    }

    async fn is_read(&self, topic: &str) -> Result<bool, Error> {
        groups::is_read(self, topic).await
    }

    async fn dead_topics(&self) -> Result<Vec<(String, u64)>, Error> {
        self.dead.topics().await
    }

    async fn dead(&self, topic: &str, after: u64, limit: usize) -> Result<Vec<Dead>, Error> {
        self.dead.list(topic, after, limit).await
    }

    async fn revive(&self, topic: &str, id: u64) -> Result<bool, Error> {
        dead::revive(self, topic, id).await
    }

    async fn discard(&self, topic: &str, id: u64) -> Result<bool, Error> {
        self.dead.remove(topic, id).await
    }
}

impl fmt::Debug for SqliteBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteBus").field("options", &self.options).finish_non_exhaustive()
    }
}
