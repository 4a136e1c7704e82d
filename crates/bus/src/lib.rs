//! Events in and out.
//!
//! A bus carries bytes under topics and knows nothing of their meaning. The embedded backend is a
//! durable queue in the file that the store uses; a broker comes behind the same trait.

pub mod contract;
mod sqlite;

use std::{fmt::Debug, time::Duration};

use async_trait::async_trait;

pub use self::sqlite::{Options, SqliteBus};

/// Events in and out.
///
/// Contract (checked by `contract` for every backend):
/// - **Durable.** What [`Bus::publish`] acknowledged is delivered to every group at least once,
///   also after `kill -9`.
/// - **All or nothing.** The messages of one `publish` are taken together, or none is.
/// - **Ordered per key.** Within a topic, messages with equal keys reach a group in the order in
///   which they were published, also across redelivery. Messages without a key have no order.
/// - **Groups.** Each group gets every message; within a group each goes to one member at a time.
///   A member that goes away leaves its share to the others.
/// - **One at a time.** Of messages with equal keys, the next is delivered after the one before was
///   committed or given up. A backend may hold back more than that: a whole partition.
/// - **Manual commit.** What was delivered and neither committed nor rejected is delivered again,
///   with a higher `attempt`, when its member goes away or the process restarts.
/// - **Poison.** A message that was rejected [`ATTEMPTS`] times goes to the dead letters with its
///   cause, and those behind it go on.
/// - **Bounded.** A topic holds at most its limit; beyond it `publish` fails with [`Error::Full`]
///   and takes nothing. What every group has committed makes room; so does age; and of a topic that
///   no group ever read, the oldest.
/// - **Size.** A message of up to [`LARGEST`] bytes is taken; a larger one may be refused with
///   [`Error::TooLarge`], which trying again does not change.
/// - **Pause.** A topic that a member paused delivers nothing to it until it is resumed; what was
///   delivered before can still be committed.
#[async_trait]
pub trait Bus: Debug + Send + Sync + 'static {
    /// Publishes messages.
    async fn publish(&self, messages: Vec<Message>) -> Result<(), Error>;

    /// Joins a group. A group that is new begins with what is published from now on, or with the
    /// oldest message there is.
    async fn join(&self, group: Group) -> Result<Box<dyn Member>, Error>;

    /// Whether some group reads a topic, also one that has no member now. Who has the messages on record
    /// elsewhere need not publish what no group would get; a backend that cannot tell says yes.
    async fn is_read(&self, topic: &str) -> Result<bool, Error>;

    /// Messages that nobody could handle, oldest first.
    async fn dead(&self, topic: &str, after: u64, limit: usize) -> Result<Vec<Dead>, Error>;

    /// Publishes a dead letter again and takes it off the list; `false` if there is no such one.
    async fn revive(&self, topic: &str, id: u64) -> Result<bool, Error>;
}

/// One member of a group. Dropping it leaves the group.
#[async_trait]
pub trait Member: Debug + Send {
    /// The next message of this member's share. Cancelling the wait loses nothing.
    async fn next(&mut self) -> Result<Delivery, Error>;

    /// Says that a delivery has been dealt with, durably. Saying it twice is harmless.
    async fn commit(&mut self, delivery: &Delivery) -> Result<(), Error>;

    /// Says that a delivery could not be dealt with, and why. It comes again after `delay`, or
    /// goes to the dead letters.
    async fn reject(
        &mut self,
        delivery: &Delivery,
        cause: &str,
        delay: Duration,
    ) -> Result<(), Error>;

    /// Stops deliveries of a topic to this member. Its share of the topic waits with it.
    async fn pause(&mut self, topic: &str) -> Result<(), Error>;

    /// Goes on with them.
    async fn resume(&mut self, topic: &str) -> Result<(), Error>;
}

/// How often a message is tried before it counts as poison.
pub const ATTEMPTS: u32 = 5;

/// Bytes of a message, with topic, key and headers, that every backend takes. It is the usual bound
/// of brokers.
pub const LARGEST: usize = 1 << 20;

/// A message to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Where.
    pub topic: String,
    /// Messages with equal keys stay in order.
    pub key: Option<Vec<u8>>,
    /// Names and values beside the payload.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The bytes.
    pub payload: Vec<u8>,
}

impl Message {
    /// Everything that is sent of it, in bytes.
    pub fn size(&self) -> usize {
        let headers = self.headers.iter().map(|(name, value)| name.len() + value.len());
        let key = self.key.as_ref().map_or(0, Vec::len);
        self.topic.len() + key + headers.sum::<usize>() + self.payload.len()
    }
}

/// Which group to join.
#[derive(Debug, Clone)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// What it reads.
    pub topics: Vec<String>,
    /// Whether a new group begins with the oldest message rather than with new ones.
    pub from_oldest: bool,
}

/// A message that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The message.
    pub message: Message,
    /// Which part of the topic it is in.
    pub partition: u32,
    /// Where it is there.
    pub offset: u64,
    /// How often it was delivered to this group, this time included; a delivery that a crash cut
    /// short counts.
    pub attempt: u32,
}

/// A message that nobody could handle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dead {
    /// Its place in the list.
    pub id: u64,
    /// The message.
    pub message: Message,
    /// The group that gave up.
    pub group: String,
    /// Why, in the words of the last attempt.
    pub cause: String,
    /// How often it was tried.
    pub attempts: u32,
}

/// Why the bus did not do it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The topic holds as much as it may.
    #[error("topic `{0}` is full")]
    Full(String),
    /// A message larger than may be published.
    #[error("a message of {size} bytes is larger than the {most} allowed")]
    TooLarge {
        /// How large it is.
        size: usize,
        /// How large it may be.
        most: usize,
    },
    /// The delivery is not this member's: another member has it by now.
    #[error("the delivery is not this member's to answer")]
    NotHeld,
    /// More is waiting to be written than may wait.
    #[error("the bus has more to write than it can take")]
    Busy,
    /// The bus was closed.
    #[error("the bus is closed")]
    Closed,
    /// The backend failed.
    #[error("{doing}")]
    Backend {
        /// What was being done.
        doing: &'static str,
        /// Why it failed.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
