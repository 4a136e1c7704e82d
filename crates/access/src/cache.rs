//! Keys that were used lately, so that a request costs no read.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, RwLock,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use ringfence_types::{Digest, KeyId, Principal, Timestamp};
use tokio::{sync::watch, time::Instant};

use crate::{Key, OpenCount, Unauthenticated, rate::Bucket};

/// A key as the cache knows it. Revoked ones are kept too: they are asked for most.
#[derive(Debug)]
pub struct KnownKey {
    /// The identity that requests with this key have.
    pub principal: Principal,
    /// Use of the key.
    pub usage: Arc<Usage>,
    revoked: bool,
    expires_at: Option<Timestamp>,
    /// When the store said so.
    read_at: Timestamp,
}

impl KnownKey {
    /// Refuses a key that was revoked or has expired.
    pub(crate) fn check(&self, now: Timestamp) -> Result<(), Unauthenticated> {
        match self.expires_at {
            _ if self.revoked => Err(Unauthenticated::Revoked),
            Some(end) if end <= now => Err(Unauthenticated::Expired(end)),
            _ => Ok(()),
        }
    }
}

/// Use of a key; outlives a new reading of the key.
#[derive(Debug, Default)]
pub struct Usage {
    /// Event streams that it has open.
    pub streams: OpenCount,
    /// Snapshots that it is being sent.
    pub snapshots: OpenCount,
    pub(crate) bucket: Bucket,
    /// Part of a shared rate, for the time in which requests are not counted together.
    pub(crate) share: Bucket,
    /// Microseconds; 0 is never.
    used_at: AtomicI64,
    /// The last use that was taken to be saved.
    saved_at: AtomicI64,
}

impl Usage {
    pub(crate) fn used(&self, now: Timestamp) {
        self.used_at.store(now.as_micros(), Ordering::Relaxed);
    }
}

/// Keys by the digest of their secret.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    /// Held for the time of a look-up and never across an await.
    keys: RwLock<HashMap<Digest, Arc<KnownKey>>>,
    /// Grows with every revocation, so that a reading from before one is not kept after it.
    generation: AtomicU64,
    /// Keys that this process revoked, for answers that go on beyond their request.
    revoked: watch::Sender<HashSet<KeyId>>,
}

/// Keys in the cache.
const MAX_KEYS: usize = 10_000;

/// Time that a reading is believed. Another server on the same store may have revoked the key.
const CACHE_LIFETIME: Duration = Duration::from_secs(5);

/// The longest wait for an expiry. Timers do not reach further; a stream that lasts so long may as
/// well begin anew.
const MAX_EXPIRY_WAIT: Duration = Duration::from_secs(366 * 86_400);

/// The end of a key: its revocation or its expiry.
#[derive(Debug)]
pub struct KeyEnd {
    key: KeyId,
    revoked: watch::Receiver<HashSet<KeyId>>,
    expires: Option<Instant>,
}

impl KeyEnd {
    /// Waits for it.
    pub async fn wait(&self) {
        let mut revoked = self.revoked.clone();
        // Without its sender the server is ending, which ends everything.
        let revocation = async {
            let _ = revoked.wait_for(|revoked| revoked.contains(&self.key)).await;
        };
        let expiry = async {
            match self.expires {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = revocation => {}
            () = expiry => {}
        }
    }
}

impl Cache {
    /// The end of a key: pending for as long as the key may be used.
    pub(crate) fn end_of(&self, known: &KnownKey, now: Timestamp) -> KeyEnd {
        let left = known.expires_at.map(|end| end.since(now).min(MAX_EXPIRY_WAIT));
        KeyEnd {
            key: known.principal.key,
            revoked: self.revoked.subscribe(),
            expires: left.map(|left| Instant::now() + left),
        }
    }

    pub(crate) fn revocations(&self) -> watch::Receiver<HashSet<KeyId>> {
        self.revoked.subscribe()
    }

    /// Ends what goes on under a key that was just revoked.
    pub(crate) fn revoke(&self, id: KeyId) {
        self.revoked.send_if_modified(|revoked| revoked.insert(id));
    }

    pub(crate) fn get(&self, secret: Digest, now: Timestamp) -> Option<Arc<KnownKey>> {
        let keys = self.keys.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        keys.get(&secret).filter(|known| now.since(known.read_at) < CACHE_LIFETIME).cloned()
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Keeps what was read while the generation was `seen`.
    pub(crate) fn put(&self, secret: Digest, key: Key, now: Timestamp, seen: u64) -> Arc<KnownKey> {
        let mut keys = self.keys.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        let usage = match keys.get(&secret) {
            Some(known) => known.usage.clone(),
            None => Arc::default(),
        };
        let known = Arc::new(KnownKey {
            principal: Principal {
                key: key.id,
                tenant: key.tenant,
                persona: key.persona,
                scopes: key.scopes,
                label: key.label,
                person: key.person,
            },
            revoked: key.revoked_at.is_some(),
            expires_at: key.expires_at,
            read_at: now,
            usage,
        });
        if self.generation() == seen {
            make_room(&mut keys, now);
            keys.insert(secret, known.clone());
        }
        known
    }

    /// Forgets a key that was just revoked.
    pub(crate) fn forget(&self, id: KeyId) {
        self.generation.fetch_add(1, Ordering::Release);
        let mut keys = self.keys.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        keys.retain(|_, known| known.principal.key != id);
    }

    /// Keys used since this was last called, and when.
    pub(crate) fn take_uses(&self) -> Vec<(KeyId, Timestamp)> {
        let keys = self.keys.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let used = keys.values().filter_map(|known| {
            let at = known.usage.used_at.load(Ordering::Relaxed);
            let saved = known.usage.saved_at.swap(at, Ordering::Relaxed);
            (at > saved).then(|| (known.principal.key, Timestamp::from_micros(at)))
        });
        used.collect()
    }
}

/// Forgets idle keys first: their buckets are full, so nothing is lost.
fn make_room(keys: &mut HashMap<Digest, Arc<KnownKey>>, now: Timestamp) {
    if keys.len() < MAX_KEYS {
        return;
    }
    keys.retain(|_, known| now.since(known.read_at) < CACHE_LIFETIME);
    if keys.len() >= MAX_KEYS {
        keys.clear();
    }
}

#[cfg(test)]
mod tests {
    use ringfence_types::{Scope, Scopes};
    use uuid::Uuid;

    use super::*;

    fn key(number: u128) -> Key {
        Key {
            id: KeyId(Uuid::from_u128(number)),
            tenant: "one".parse().unwrap(),
            persona: None,
            person: None,
            label: String::new(),
            prefix: String::new(),
            secret: Digest::of(&number.to_be_bytes()),
            scopes: Scopes::from(vec![Scope::Call]),
            created_at: Timestamp::from_micros(0),
            created_by: None,
            expires_at: None,
            revoked_at: None,
            last_used_at: None,
        }
    }

    #[test]
    fn a_reading_from_before_a_revocation_is_not_kept_after_it() {
        let cache = Cache::default();
        let now = Timestamp::from_micros(0);
        let seen = cache.generation();
        cache.forget(key(1).id);
        cache.put(key(1).secret, key(1), now, seen);
        assert!(cache.get(key(1).secret, now).is_none());
        // Control: a reading from after it is kept.
        cache.put(key(1).secret, key(1), now, cache.generation());
        assert!(cache.get(key(1).secret, now).is_some());
        cache.forget(key(1).id);
        assert!(cache.get(key(1).secret, now).is_none());
    }

    #[test]
    fn a_reading_is_believed_for_a_while_only() {
        let cache = Cache::default();
        let now = Timestamp::from_micros(0);
        cache.put(key(1).secret, key(1), now, 0);
        assert!(cache.get(key(1).secret, now.after(CACHE_LIFETIME)).is_none());
    }

    #[test]
    fn the_cache_is_bounded() {
        let cache = Cache::default();
        for number in 0..MAX_KEYS as u128 + 10 {
            cache.put(key(number).secret, key(number), Timestamp::from_micros(0), 0);
        }
        assert!(cache.keys.read().unwrap().len() <= MAX_KEYS);
    }

    #[test]
    fn a_use_is_saved_once() {
        let cache = Cache::default();
        let known = cache.put(key(1).secret, key(1), Timestamp::from_micros(0), 0);
        assert_eq!(cache.take_uses(), []);
        known.usage.used(Timestamp::from_micros(7));
        assert_eq!(cache.take_uses(), [(key(1).id, Timestamp::from_micros(7))]);
        assert_eq!(cache.take_uses(), []);
    }
}
