//! Usage of tenants, keys and tools.

use ringfence_store::{Error, UsageQuery, UsageRow};

use crate::Engine;

impl Engine {
    /// Usage of ended calls, in the order of time.
    pub async fn usage(&self, query: UsageQuery) -> Result<Vec<UsageRow>, Error> {
        self.inner.parts.store.usage(query).await
    }
}
