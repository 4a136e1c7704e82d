//! Look at a broker before anything depends on it.

use std::sync::Arc;

use super::{KafkaOptions, topics::Topics};
use crate::Error;

/// Findings about a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preflight {
    /// Topics that were looked for.
    pub topics: Vec<TopicState>,
}

/// State of one topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicState {
    /// Name in Kafka.
    pub name: String,
    /// Number of its partitions; `None` if it does not exist.
    pub partitions: Option<usize>,
    /// Whether it was created just now.
    pub is_created: bool,
}

/// Whether this build can speak TLS, which SCRAM needs too.
pub fn has_tls() -> bool {
    cfg!(feature = "kafka-tls")
}

/// Looks for topics, and creates those that are missing if asked to.
pub async fn preflight(
    options: &KafkaOptions,
    names: &[&str],
    create: bool,
) -> Result<Preflight, Error> {
    let topics = Topics::new(Arc::new(options.clone()))?;
    let mut found = Vec::new();
    for name in names {
        let name = options.outer(name).to_owned();
        let mut partitions = topics.partitions(&name).await?;
        let is_created = create && partitions.is_none();
        if is_created {
            topics.create(&name).await?;
            partitions = usize::try_from(options.partitions).ok();
        }
        found.push(TopicState { name, partitions, is_created });
    }
    Ok(Preflight { topics: found })
}
