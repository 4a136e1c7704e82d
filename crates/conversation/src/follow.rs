//! Following a session: its stored events from a position on, then new ones as they come.

use std::{collections::VecDeque, time::Duration};

use ringfence_engine::data::{SessionEvent, SessionQuery, StoreError};
use ringfence_types::{Principal, SessionId};
use tokio::sync::broadcast;

use crate::Conversations;

/// Events of one read.
const EVENTS_PER_READ: usize = 100;
/// Time after which the store is read again for events of other processes.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// An event with its position in the store.
pub type Followed = (u64, SessionEvent);

/// Reader of the events of one session.
#[derive(Debug)]
pub struct Follow {
    conversations: Conversations,
    query: SessionQuery,
    changed: broadcast::Receiver<(ringfence_types::TenantId, String)>,
    ready: VecDeque<Followed>,
}

impl Conversations {
    /// Events of a session after a position.
    pub fn follow(&self, who: &Principal, session: SessionId, after: u64) -> Follow {
        let query = SessionQuery {
            tenant: who.tenant.clone(),
            session,
            kind: None,
            after,
            last: false,
            limit: EVENTS_PER_READ,
        };
        let changed = self.inner.changed.subscribe();
        Follow { conversations: self.clone(), query, changed, ready: VecDeque::new() }
    }

    /// Stored events of a session.
    pub async fn events(&self, query: SessionQuery) -> Result<Vec<Followed>, StoreError> {
        self.inner.parts.engine.session_events(query).await
    }
}

impl Follow {
    /// The next event; waits for it. Cancelling the wait loses nothing.
    pub async fn next(&mut self) -> Result<Followed, StoreError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(event);
            }
            let found = self.conversations.events(self.query.clone()).await?;
            if let Some((position, _)) = found.last() {
                self.query.after = *position;
                self.ready.extend(found);
                continue;
            }
            self.wait().await;
        }
    }

    /// Waits until the session may have changed.
    async fn wait(&mut self) {
        let is_ours = |(tenant, session): &(ringfence_types::TenantId, String)| {
            *tenant == self.query.tenant && session == self.query.session.as_str()
        };
        let announced = async {
            loop {
                match self.changed.recv().await {
                    Ok(changed) if is_ours(&changed) => return,
                    Ok(_) => {}
                    Err(broadcast::error::RecvError::Lagged(_)) => return,
                    // Only the poll is left.
                    Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
                }
            }
        };
        let _ = tokio::time::timeout(POLL_INTERVAL, announced).await;
    }
}
