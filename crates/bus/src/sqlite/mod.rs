//! A durable queue in the file that the store uses.
//!
//! Tables say what is true: messages, how far each group has come, what is dead. Memory says what
//! only this process can know: who is a member, who holds which message, what waits for a delay.
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
mod rows;
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
use crate::{Bus, Dead, Error, Group, LARGEST, Member, Message};

/// Its history; see [`Db::migrate`].
const MIGRATIONS: &[&str] = &[include_str!("schema.sql")];

/// How much of everything.
#[derive(Debug, Clone)]
pub struct Options {
    /// Partitions of a topic that is new; one that exists keeps its own number.
    pub partitions: u32,
    /// Most messages that a topic holds.
    pub topic_messages: u64,
    /// Most bytes of a message, with key and headers.
    pub message_bytes: usize,
    /// Age at which a message goes, whoever has not read it.
    pub retention: Duration,
    /// Most dead letters that a topic keeps; beyond it the oldest goes.
    pub dead_letters: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            partitions: 16,
            topic_messages: 100_000,
            message_bytes: LARGEST,
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
    state: Arc<Mutex<State>>,
}

impl SqliteBus {
    /// Brings the tables up to date and reads which topics there are.
    pub async fn open(db: Db, options: Options, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        db.migrate("bus", MIGRATIONS).await?;
        let state = Arc::new(Mutex::new(State::new(topics::load(&db).await?)));
        Ok(Self { db, options: Arc::new(options), clock, state })
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

    async fn dead(&self, topic: &str, after: u64, limit: usize) -> Result<Vec<Dead>, Error> {
        dead::list(self, topic, after, limit).await
    }

    async fn revive(&self, topic: &str, id: u64) -> Result<bool, Error> {
        dead::revive(self, topic, id).await
    }
}

impl fmt::Debug for SqliteBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteBus").field("options", &self.options).finish_non_exhaustive()
    }
}
