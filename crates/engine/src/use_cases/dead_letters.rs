//! Dead letters: messages on the bus that could not be handled.

use ringfence_bus::{Dead, Error};

use crate::Engine;

impl Engine {
    /// Topics that have dead letters, and how many.
    pub async fn dead_topics(&self) -> Result<Vec<(String, u64)>, Error> {
        self.inner.parts.bus.dead_topics().await
    }

    /// Dead letters of a topic behind an id, oldest first.
    pub async fn dead_letters(
        &self,
        topic: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Dead>, Error> {
        self.inner.parts.bus.dead(topic, after, limit).await
    }

    /// Publishes a dead letter again; `false` if there is no such one.
    pub async fn replay_dead_letter(&self, topic: &str, id: u64) -> Result<bool, Error> {
        self.inner.parts.bus.revive(topic, id).await
    }

    /// Removes a dead letter; `false` if there is no such one.
    pub async fn remove_dead_letter(&self, topic: &str, id: u64) -> Result<bool, Error> {
        self.inner.parts.bus.discard(topic, id).await
    }
}
