//! Topics of the broker: found, and created where that is allowed.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rdkafka::{
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    error::{KafkaError, RDKafkaErrorCode},
};

use super::{
    KafkaOptions,
    client::{Log, broken, config, failed},
};
use crate::Error;

/// Time limit of a question to the brokers.
const ADMIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for which a topic that did not exist is not looked for again.
const ABSENT_LIFETIME: Duration = Duration::from_secs(30);

/// Topics that are known to exist.
pub(super) struct Topics {
    options: Arc<KafkaOptions>,
    admin: Arc<AdminClient<Log>>,
    known: Mutex<HashSet<String>>,
    /// Topics that did not exist, and when that was seen.
    absent: Mutex<HashMap<String, Instant>>,
}

impl Topics {
    pub(super) fn new(options: Arc<KafkaOptions>) -> Result<Self, Error> {
        let admin = config(&options, &[]).create_with_context(Log);
        let admin = Arc::new(admin.map_err(|error| failed("set up a Kafka client", error))?);
        Ok(Self { options, admin, known: Mutex::default(), absent: Mutex::default() })
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes sure that a topic exists.
    pub(super) async fn ensure(&self, topic: &str) -> Result<(), Error> {
        if self.known().contains(topic) {
            return Ok(());
        }
        match self.partitions(topic).await? {
            Some(_) => {}
            None if self.options.create_topics => self.create(topic).await?,
            None => return Err(Error::NoTopic(topic.to_owned())),
        }
        self.known().insert(topic.to_owned());
        Ok(())
    }

    /// Whether a topic exists. That it does not is believed for a while.
    pub(super) async fn has(&self, topic: &str) -> Result<bool, Error> {
        let absent = || self.absent.lock().unwrap_or_else(PoisonError::into_inner);
        if self.known().contains(topic) {
            return Ok(true);
        }
        if absent().get(topic).is_some_and(|seen| seen.elapsed() < ABSENT_LIFETIME) {
            return Ok(false);
        }
        let exists = self.partitions(topic).await?.is_some();
        match exists {
            true => _ = self.known().insert(topic.to_owned()),
            false => _ = absent().insert(topic.to_owned(), Instant::now()),
        }
        Ok(exists)
    }

    /// Whether a broker answers within this time.
    pub(super) async fn is_answering(&self, timeout: Duration) -> bool {
        let admin = self.admin.clone();
        let asked = move || admin.inner().fetch_metadata(None, timeout).is_ok();
        tokio::task::spawn_blocking(asked).await.unwrap_or(false)
    }

    /// Number of partitions of a topic; `None` if there is no such topic.
    pub(super) async fn partitions(&self, topic: &str) -> Result<Option<usize>, Error> {
        let (admin, topic) = (self.admin.clone(), topic.to_owned());
        let looked = tokio::task::spawn_blocking(move || {
            // All of them: to ask for one by name could create it.
            let metadata = admin.inner().fetch_metadata(None, ADMIN_TIMEOUT)?;
            let mut topics = metadata.topics().iter();
            let found = topics.find(|found| found.name() == topic && found.error().is_none());
            Ok::<_, KafkaError>(found.map(|found| found.partitions().len()))
        });
        let looked = looked.await.map_err(|error| broken("look up topics", error))?;
        looked.map_err(|error| failed("look up topics", error))
    }

    /// Creates a topic; one that exists by now is as good.
    pub(super) async fn create(&self, topic: &str) -> Result<(), Error> {
        let partitions = i32::try_from(self.options.partitions.max(1)).unwrap_or(i32::MAX);
        let replicas = self.options.replicas.and_then(|count| i32::try_from(count).ok());
        let new = NewTopic::new(topic, partitions, TopicReplication::Fixed(replicas.unwrap_or(-1)));
        let options = AdminOptions::new()
            .request_timeout(Some(ADMIN_TIMEOUT))
            .operation_timeout(Some(ADMIN_TIMEOUT));
        let created = self.admin.create_topics([&new], &options).await;
        for result in created.map_err(|error| failed("create a topic", error))? {
            match result {
                Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
                Err((topic, code)) => {
                    return Err(broken("create a topic", format!("topic `{topic}`: {code}")));
                }
            }
        }
        tracing::info!(topic, partitions, "created a topic");
        Ok(())
    }
}
