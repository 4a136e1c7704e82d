//! Sessions of clients that speak revision 2025-11-25 or older: which key each belongs to, and how many
//! there may be.
//!
//! Every request of a session carries a key of its own and is made by that key. The owner is checked
//! all the same: the stream of a session tells what its client is doing.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ringfence_edge::{Problem, problem_codes};
use ringfence_types::KeyId;
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};

/// Silence after which a session ends. A client begins a new one when it is told so.
const IDLE: Duration = Duration::from_secs(1_800);

#[derive(Debug)]
pub(crate) struct Sessions {
    manager: Arc<LocalSessionManager>,
    owners: Mutex<HashMap<String, KeyId>>,
    max: usize,
    max_per_key: usize,
}

impl Sessions {
    pub(crate) fn new(max: usize, max_per_key: usize) -> Self {
        let mut config = SessionConfig::default();
        config.keep_alive = Some(IDLE);
        let mut manager = LocalSessionManager::default();
        manager.session_config = config;
        Self { manager: Arc::new(manager), owners: Mutex::default(), max, max_per_key }
    }

    pub(crate) fn manager(&self) -> Arc<LocalSessionManager> {
        self.manager.clone()
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<String, KeyId>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a key may use a session. An unknown one is refused by the protocol library, or ignored
    /// where the revision has no sessions.
    pub(crate) fn may_use(&self, id: &str, key: KeyId) -> bool {
        self.owners().get(id).is_none_or(|owner| *owner == key)
    }

    /// Checks that there is room for one more session of this key.
    pub(crate) async fn admit(&self, key: KeyId) -> Result<(), Problem> {
        if self.has_room(key) {
            return Ok(());
        }
        // Some may have ended by themselves.
        let open = self.manager.sessions.read().await;
        self.owners().retain(|id, _| open.contains_key(id.as_str()));
        drop(open);
        if self.has_room(key) {
            return Ok(());
        }
        let detail =
            "too many MCP sessions are open; end some with DELETE, or use revision 2026-07-28";
        Err(Problem::new(&problem_codes::BUSY, detail).retry_after(Duration::from_secs(30)))
    }

    fn has_room(&self, key: KeyId) -> bool {
        let owners = self.owners();
        let of_key = owners.values().filter(|owner| **owner == key).count();
        owners.len() < self.max && of_key < self.max_per_key
    }

    pub(crate) fn add(&self, id: &str, key: KeyId) {
        self.owners().insert(id.to_owned(), key);
    }

    pub(crate) fn remove(&self, id: &str) {
        self.owners().remove(id);
    }
}
