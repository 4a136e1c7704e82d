//! State of the broker and lag of groups, as seen from here.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};
use rdkafka::statistics::Statistics;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::topics::Topics;

/// Time between two questions whether a broker answers.
const PROBE_INTERVAL: Duration = Duration::from_secs(2);

/// Label: consumer group.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GroupLabel {
    group: String,
}

/// Metrics of Kafka. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct KafkaMetrics {
    is_up: Gauge,
    lag: Family<GroupLabel, Gauge>,
    /// Lag of each partition that some member of this process has, by group.
    known: Arc<Mutex<HashMap<String, i64>>>,
}

impl KafkaMetrics {
    /// Registers the metrics.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("kafka_up", "Whether a broker of Kafka answers", self.is_up.clone());
        let about = "Messages of this server's partitions that are not committed, by group";
        registry.register("kafka_consumer_lag", about, self.lag.clone());
    }

    /// Takes the lag of a member's partitions from statistics of its client.
    pub(super) fn see(&self, group: &str, statistics: &Statistics) {
        let partitions = statistics.topics.values().flat_map(|topic| topic.partitions.values());
        let lag = partitions.map(|partition| partition.consumer_lag.max(0)).sum();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(group.to_owned(), lag);
        self.lag.get_or_create(&GroupLabel { group: group.to_owned() }).set(lag);
    }

    /// Messages of this process' partitions that a group has not committed, as last seen.
    pub(super) fn lag(&self, group: &str) -> Option<i64> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(group).copied()
    }
}

/// Asks a broker again and again, until the bus is closed.
pub(super) async fn probe(
    topics: Arc<Topics>,
    metrics: KafkaMetrics,
    is_up: watch::Sender<bool>,
    closed: CancellationToken,
) {
    loop {
        let answers = tokio::select! {
            answer = topics.is_answering(PROBE_INTERVAL) => answer,
            () = closed.cancelled() => return,
        };
        metrics.is_up.set(i64::from(answers));
        if is_up.send_replace(answers) != answers {
            match answers {
                true => tracing::info!("Kafka answers"),
                false => tracing::warn!("Kafka does not answer; results wait until it does"),
            }
        }
        tokio::select! {
            () = tokio::time::sleep(PROBE_INTERVAL) => {}
            () = closed.cancelled() => return,
        }
    }
}
