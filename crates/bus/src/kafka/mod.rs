//! Apache Kafka as the bus.
//!
//! Kafka gives topics, partitions, groups and order. What it does not have is kept here: the count of
//! attempts is metadata of the committed offset, dead letters are rows beside records on `<topic>.dlq`,
//! and a group that begins now commits the ends of its partitions before it is said to have joined.
//!
//! Every client of librdkafka that can block lives on a thread of its own: a broker that is gone stops
//! neither the runtime nor the dropping of a member.

mod assignment;
mod client;
mod dead;
mod member;
mod preflight;
mod publisher;
mod raw;
mod topics;
mod watch;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use ringfence_sqlite::Db;
use ringfence_types::Clock;
use tokio_util::sync::CancellationToken;

use self::{member::Members, publisher::Publisher, topics::Topics};
pub use self::{
    preflight::{Preflight, TopicState, has_tls, preflight},
    watch::KafkaMetrics,
};
use crate::{
    Bus, Dead, Error, Group, MAX_MESSAGE_BYTES, Member, Message, dead_letters::DeadLetters,
};

/// Settings of the Kafka backend.
#[derive(Clone)]
pub struct KafkaOptions {
    /// Addresses of brokers to begin with, as `host:port`, separated by commas.
    pub brokers: String,
    /// Properties of librdkafka, such as those of TLS and SASL. They win over those that are set here.
    pub properties: Vec<(String, String)>,
    /// Name of this installation: messages of two with the same name would fence each other off.
    pub installation: String,
    /// Topics of Kafka that stand for topics of ours, where their names differ.
    pub topic_names: BTreeMap<String, String>,
    /// Partitions of a topic that is created here.
    pub partitions: u32,
    /// Replicas of a topic that is created here; the broker's default without a number.
    pub replicas: Option<u32>,
    /// Whether topics that do not exist are created.
    pub create_topics: bool,
    /// Bytes of a message, with topic, key and headers, that are published at most.
    pub message_bytes: usize,
    /// Dead letters kept per topic; beyond it the oldest goes.
    pub dead_letters: u64,
    /// Topics that are written only if they exist or may be created.
    pub optional_topics: Vec<String>,
}

impl KafkaOptions {
    /// Defaults for these brokers.
    pub fn new(brokers: impl Into<String>, installation: impl Into<String>) -> Self {
        Self {
            brokers: brokers.into(),
            properties: Vec::new(),
            installation: installation.into(),
            topic_names: BTreeMap::new(),
            partitions: 16,
            replicas: None,
            create_topics: true,
            message_bytes: MAX_MESSAGE_BYTES,
            dead_letters: 10_000,
            optional_topics: Vec::new(),
        }
    }

    /// Name of a topic in Kafka.
    fn outer<'a>(&'a self, topic: &'a str) -> &'a str {
        self.topic_names.get(topic).map_or(topic, String::as_str)
    }

    /// Name of a topic of Kafka here.
    fn inner<'a>(&'a self, topic: &'a str) -> &'a str {
        let mut names = self.topic_names.iter();
        names.find(|(_, outer)| *outer == topic).map_or(topic, |(inner, _)| inner)
    }
}

/// Properties can hold passwords.
impl fmt::Debug for KafkaOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { brokers, installation, .. } = self;
        f.debug_struct("KafkaOptions")
            .field("brokers", brokers)
            .field("installation", installation)
            .finish_non_exhaustive()
    }
}

/// Kafka as the bus. Clones share it.
#[derive(Clone)]
pub struct KafkaBus {
    options: Arc<KafkaOptions>,
    clock: Arc<dyn Clock>,
    dead: DeadLetters,
    topics: Arc<Topics>,
    publisher: Publisher,
    members: Arc<Mutex<Members>>,
    metrics: KafkaMetrics,
    is_up: tokio::sync::watch::Receiver<bool>,
    closed: CancellationToken,
}

impl KafkaBus {
    /// Opens the bus; dead letters are kept in `db`. Brokers are reached later: one that is away now may
    /// come back.
    pub async fn open(db: Db, options: KafkaOptions, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let dead = DeadLetters::open(db, options.dead_letters).await?;
        let options = Arc::new(options);
        let topics = Arc::new(Topics::new(options.clone())?);
        let publisher = Publisher::start(options.clone())?;
        let (metrics, closed) = (KafkaMetrics::default(), CancellationToken::new());
        let (sender, is_up) = tokio::sync::watch::channel(false);
        let probe = watch::probe(topics.clone(), metrics.clone(), sender, closed.clone());
        // Ends when the bus is closed, or with the runtime.
        drop(tokio::spawn(probe));
        let members = Arc::default();
        Ok(Self { options, clock, dead, topics, publisher, members, metrics, is_up, closed })
    }

    /// Metrics of this bus.
    pub fn metrics(&self) -> &KafkaMetrics {
        &self.metrics
    }

    /// Whether a broker answers; changes with it.
    pub fn is_up(&self) -> tokio::sync::watch::Receiver<bool> {
        self.is_up.clone()
    }

    /// Messages of this process' partitions that a group has not committed, as last seen.
    pub fn lag(&self, group: &str) -> Option<i64> {
        self.metrics.lag(group)
    }

    /// Ends all waiting for messages with [`Error::Closed`], and waits until members have left their
    /// groups, for a bounded time.
    pub async fn close(&self, timeout: Duration) {
        let members = {
            let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
            members.close()
        };
        self.publisher.close();
        self.closed.cancel();
        for mut left in members {
            // Beyond the time the threads go on alone, until the process ends.
            let _ = tokio::time::timeout(timeout, left.wait_for(|left| *left)).await;
        }
    }

    async fn publish_checked(&self, messages: Vec<Message>) -> Result<(), Error> {
        for topic in messages.iter().map(|message| message.topic.as_str()) {
            self.topics.ensure(self.options.outer(topic)).await?;
        }
        self.publisher.publish(messages).await
    }
}

#[async_trait]
impl Bus for KafkaBus {
    async fn publish(&self, messages: Vec<Message>) -> Result<(), Error> {
        let most = self.options.message_bytes;
        if let Some(size) = messages.iter().map(Message::size).find(|size| *size > most) {
            return Err(Error::TooLarge { size, most });
        }
        if messages.is_empty() {
            return Ok(());
        }
        self.publish_checked(messages).await
    }

    async fn join(&self, group: Group) -> Result<Box<dyn Member>, Error> {
        for topic in &group.topics {
            self.topics.ensure(self.options.outer(topic)).await?;
        }
        member::join(self, group).await
    }

    /// Always: a group of others may read any topic, also one that joins later from the oldest on. But for
    /// an optional topic that does not exist and may not be created.
    async fn is_read(&self, topic: &str) -> Result<bool, Error> {
        let is_optional = self.options.optional_topics.iter().any(|optional| optional == topic);
        if self.options.create_topics || !is_optional {
            return Ok(true);
        }
        self.topics.has(self.options.outer(topic)).await
    }

    async fn dead_topics(&self) -> Result<Vec<(String, u64)>, Error> {
        self.dead.topics().await
    }

    async fn dead(&self, topic: &str, after: u64, limit: usize) -> Result<Vec<Dead>, Error> {
        self.dead.list(topic, after, limit).await
    }

    /// Published before the row goes: a crash in between publishes twice rather than never.
    async fn revive(&self, topic: &str, id: u64) -> Result<bool, Error> {
        let Some(message) = self.dead.find(topic, id).await? else { return Ok(false) };
        self.publish_checked(vec![message]).await?;
        self.dead.remove(topic, id).await
    }

    async fn discard(&self, topic: &str, id: u64) -> Result<bool, Error> {
        self.dead.remove(topic, id).await
    }
}

impl fmt::Debug for KafkaBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaBus").field("options", &self.options).finish_non_exhaustive()
    }
}
