//! Events in and out.
//!
//! A bus carries bytes under topics and knows nothing of their meaning. The embedded backend is a
//! durable queue in the file that the store uses; Apache Kafka is behind the same trait.

pub mod contract;
mod dead_letters;
pub mod kafka;
mod sqlite;

use std::{fmt::Debug, time::Duration};

use async_trait::async_trait;
use ringfence_types::Timestamp;

pub use self::{
    kafka::{KafkaBus, KafkaOptions},
    sqlite::{Options, SqliteBus},
};

/// Events in and out.
///
/// Contract (checked by `contract` for every backend):
/// - **Durable.** What [`Bus::publish`] acknowledged is delivered to every group at least once,
///   also after `kill -9`.
/// - **All or nothing.** The messages of one `publish` are taken together, or none is. Readers of a broker
///   that are not ours must ask for committed messages only.
/// - **Ordered per key.** Within a topic, messages with equal keys reach a group in the order in
///   which they were published, also across redelivery. Messages without a key have no order.
/// - **Groups.** Each group gets every message; within a group each goes to one member at a time.
///   A member that goes away leaves its share to the others.
/// - **One at a time.** Of messages with equal keys, the next is delivered after the one before was
///   committed or given up. A backend may hold back more than that: a whole partition.
/// - **Manual commit.** What was delivered and neither committed nor rejected is delivered again,
///   with a higher `attempt`, when its member goes away. After a crash `attempt` is at least the number
///   of rejections, and what was committed shortly before may come once more: a commit is durable soon,
///   and before its member leaves.
/// - **Poison.** A message that was rejected [`MAX_ATTEMPTS`] times goes to the dead letters with its
///   cause, and those behind it go on. To postpone a message is no rejection.
/// - **Bounded**, where the backend says so. A topic holds at most its limit; beyond it `publish` fails
///   with [`Error::Full`] and takes nothing. What every group has committed makes room; so does age; and
///   of a topic that no group ever read, the oldest.
/// - **Size.** A message of up to [`MAX_MESSAGE_BYTES`] bytes is taken; a larger one may be refused with
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

    /// Whether some group reads a topic, also one that has no member now. A caller that has its messages
    /// on record elsewhere need not publish to other topics; a backend that cannot tell says yes.
    async fn is_read(&self, topic: &str) -> Result<bool, Error>;

    /// Topics that have dead letters, and how many.
    async fn dead_topics(&self) -> Result<Vec<(String, u64)>, Error>;

    /// Messages that could not be handled, oldest first.
    async fn dead(&self, topic: &str, after: u64, limit: usize) -> Result<Vec<Dead>, Error>;

    /// Publishes a dead letter again and takes it off the list; `false` if there is no such one.
    async fn revive(&self, topic: &str, id: u64) -> Result<bool, Error>;

    /// Takes a dead letter off the list; `false` if there is no such one.
    async fn discard(&self, topic: &str, id: u64) -> Result<bool, Error>;
}

/// One member of a group. Dropping it leaves the group.
#[async_trait]
pub trait Member: Debug + Send {
    /// The next message of this member's share. Cancelling the wait loses nothing.
    async fn next(&mut self) -> Result<Delivery, Error>;

    /// Acknowledges a delivery: it does not come again. Doing so twice is harmless.
    async fn commit(&mut self, delivery: &Delivery) -> Result<(), Error>;

    /// Rejects a delivery. It comes again after `delay`, or goes to the dead letters.
    async fn reject(
        &mut self,
        delivery: &Delivery,
        cause: &str,
        delay: Duration,
    ) -> Result<(), Error>;

    /// Gives a delivery back, to come again after `delay`. It is no rejection, however often.
    async fn postpone(&mut self, delivery: &Delivery, delay: Duration) -> Result<(), Error>;

    /// Puts a delivery on the dead letters at once: trying again would not help.
    async fn dead_letter(&mut self, delivery: &Delivery, cause: &str) -> Result<(), Error>;

    /// Stops deliveries of a topic to this member. Its share of the topic waits with it.
    async fn pause(&mut self, topic: &str) -> Result<(), Error>;

    /// Goes on with deliveries of a topic.
    async fn resume(&mut self, topic: &str) -> Result<(), Error>;
}

/// Rejections of a message after which it goes to the dead letters.
pub const MAX_ATTEMPTS: u32 = 5;

/// Bytes of a message, with topic, key and headers, that every backend takes. Clients of Kafka take a
/// million by default, and its brokers count their own framing.
pub const MAX_MESSAGE_BYTES: usize = 960_000;

/// A message to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Name of the topic.
    pub topic: String,
    /// Key: messages with equal keys stay in order.
    pub key: Option<Vec<u8>>,
    /// Headers: names and values beside the payload.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Content.
    pub payload: Vec<u8>,
}

impl Message {
    /// Size of everything that is sent, in bytes.
    pub fn size(&self) -> usize {
        let headers = self.headers.iter().map(|(name, value)| name.len() + value.len());
        let key = self.key.as_ref().map_or(0, Vec::len);
        self.topic.len() + key + headers.sum::<usize>() + self.payload.len()
    }
}

/// Group to join.
#[derive(Debug, Clone)]
pub struct Group {
    /// Name of the group.
    pub name: String,
    /// Topics that it reads.
    pub topics: Vec<String>,
    /// Whether a new group begins with the oldest message rather than with new ones.
    pub from_oldest: bool,
}

/// A message that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The message.
    pub message: Message,
    /// Partition of the topic.
    pub partition: u32,
    /// Offset in the partition.
    pub offset: u64,
    /// Number of its deliveries to this group, this one included; one that ended without an answer
    /// counts.
    pub attempt: u32,
}

/// A message that could not be handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dead {
    /// Id in the list, which grows.
    pub id: u64,
    /// The message.
    pub message: Message,
    /// The group that gave up.
    pub group: String,
    /// Cause that the last attempt gave.
    pub cause: String,
    /// Number of its deliveries.
    pub attempts: u32,
    /// Time of its death.
    pub died_at: Timestamp,
}

/// Failure of the bus.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The topic holds as much as it may.
    #[error("topic `{0}` is full")]
    Full(String),
    /// A message larger than may be published.
    #[error("a message of {size} bytes is larger than the {most} allowed")]
    TooLarge {
        /// Size of the message.
        size: usize,
        /// Size that is allowed.
        most: usize,
    },
    /// The broker has no such topic, and topics are not created here.
    #[error("topic `{0}` does not exist")]
    NoTopic(String),
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
        /// Action that failed.
        doing: &'static str,
        /// Cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
