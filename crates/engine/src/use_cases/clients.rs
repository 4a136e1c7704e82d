//! MCP clients that were seen since the start, for people. Nothing is decided by it.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use ringfence_types::{KeyId, Principal, TenantId, Timestamp};

use crate::Engine;

/// Clients that are remembered; of more, the one that was seen longest ago is forgotten.
const MAX_CLIENTS: usize = 256;
/// Characters of a name.
const MAX_CHARS: usize = 100;

/// A client, as it describes itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenClient {
    /// Tenant of its key.
    pub tenant: TenantId,
    /// Label of its key.
    pub label: String,
    /// Name that it gives itself.
    pub name: String,
    /// Version that it gives itself.
    pub version: String,
    /// Revision of the protocol.
    pub revision: String,
    /// Requests since it was first seen.
    pub requests: u64,
    /// Time of its last request.
    pub seen_at: Timestamp,
}

/// Clients by key, name and version.
#[derive(Debug, Default)]
pub(crate) struct SeenClients(Mutex<HashMap<(KeyId, String, String), SeenClient>>);

impl Engine {
    /// Notes a request of an MCP client.
    pub fn note_mcp_client(&self, who: &Principal, name: &str, version: &str, revision: &str) {
        let short = |text: &str| text.chars().take(MAX_CHARS).collect::<String>();
        let (name, version) = (short(name), short(version));
        let seen_at = self.clock().now();
        let mut all = self.inner.clients.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (who.key, name.clone(), version.clone());
        if !all.contains_key(&key) && all.len() >= MAX_CLIENTS {
            let oldest = all.iter().min_by_key(|(_, client)| client.seen_at);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                all.remove(&oldest);
            }
        }
        let client = all.entry(key).or_insert_with(|| SeenClient {
            tenant: who.tenant.clone(),
            label: who.label.clone(),
            name,
            version,
            revision: String::new(),
            requests: 0,
            seen_at,
        });
        client.requests += 1;
        (client.revision, client.seen_at) = (short(revision), seen_at);
    }

    /// MCP clients of the tenant that this process saw, the last seen first.
    pub fn mcp_clients(&self, who: &Principal) -> Vec<SeenClient> {
        let all = self.inner.clients.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = all.values().filter(|client| client.tenant == who.tenant);
        let mut own: Vec<_> = own.cloned().collect();
        own.sort_by_key(|client| std::cmp::Reverse(client.seen_at));
        own
    }
}
