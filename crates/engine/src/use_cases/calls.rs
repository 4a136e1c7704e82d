//! Reading the history of one call.

use ringfence_store::{Error, FactQuery};
use ringfence_types::{CallId, Fact, Principal};

use crate::Engine;

/// Facts of one call in an answer; a call that is held again and again has many.
const MAX_FACTS: usize = 500;

impl Engine {
    /// Facts of a call, oldest first: the first of them, up to a bounded number. None if the tenant has
    /// no such call.
    pub async fn call_facts(&self, who: &Principal, call: CallId) -> Result<Vec<Fact>, Error> {
        let tenant = Some(who.tenant.clone());
        let query = FactQuery { tenant, call: Some(call), after: 0, limit: MAX_FACTS };
        let facts = self.inner.parts.store.facts(query).await?;
        Ok(facts.into_iter().map(|logged| logged.fact).collect())
    }
}
