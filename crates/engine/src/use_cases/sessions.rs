//! Session events other than calls.

use ringfence_store::{Error, SessionEvent, SessionQuery, SessionSummary};
use ringfence_types::TenantId;

use crate::Engine;

impl Engine {
    /// Appends an event to a session, if the tenant has room for it.
    pub async fn append_session_event(&self, event: SessionEvent) -> Result<(), Error> {
        let store = &self.inner.parts.store;
        store.room().admit(&event.tenant)?;
        store.append_session_event(event).await.map(drop)
    }

    /// Sessions of a tenant, the one with the newest event first.
    pub async fn sessions(
        &self,
        tenant: &TenantId,
        limit: usize,
    ) -> Result<Vec<SessionSummary>, Error> {
        self.inner.parts.store.sessions(tenant, limit).await
    }

    /// Events of a session with their positions, oldest first.
    pub async fn session_events(
        &self,
        query: SessionQuery,
    ) -> Result<Vec<(u64, SessionEvent)>, Error> {
        self.inner.parts.store.session_events(query).await
    }
}
