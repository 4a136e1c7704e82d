//! Keys that were used lately, so that a request costs no read.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, RwLock,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use ringfence_store::Key;
use ringfence_types::{Digest, KeyId, Principal, Timestamp};
use tokio::{
    sync::{Semaphore, watch},
    time::Instant,
};

use super::bucket::Bucket;

/// A key as the cache knows it. Revoked ones are kept too: they are asked for most.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) principal: Principal,
    pub(crate) revoked: bool,
    pub(crate) expires_at: Option<Timestamp>,
    /// When the store said so.
    read_at: Timestamp,
    pub(crate) usage: Arc<Usage>,
}

/// What a key is doing; outlives a new reading of the key.
#[derive(Debug)]
pub(crate) struct Usage {
    pub(crate) bucket: Bucket,
    /// Event streams it may still open.
    pub(crate) streams: Arc<Semaphore>,
    /// Snapshots it may still be sent at one time.
    pub(crate) snapshots: Arc<Semaphore>,
    /// Microseconds; 0 is never.
    used_at: AtomicI64,
    /// What the store was told of it.
    told_at: AtomicI64,
}

/// A snapshot is whole in memory until its client has taken it.
const SNAPSHOTS: usize = 2;

impl Usage {
    fn new(streams: usize) -> Self {
        Self {
            bucket: Bucket::default(),
            streams: Arc::new(Semaphore::new(streams)),
            snapshots: Arc::new(Semaphore::new(SNAPSHOTS)),
            used_at: AtomicI64::new(0),
            told_at: AtomicI64::new(0),
        }
    }

    pub(crate) fn used(&self, now: Timestamp) {
        self.used_at.store(now.as_micros(), Ordering::Relaxed);
    }
}

/// Keys by the digest of their secret.
#[derive(Debug)]
pub(crate) struct Cache {
    /// Held for the time of a look-up and never across an await.
    keys: RwLock<HashMap<Digest, Arc<Known>>>,
    /// Grows with every revocation, so that a reading from before one is not kept after it.
    generation: AtomicU64,
    streams_per_key: usize,
    /// Keys that this process revoked, for answers that go on beyond their request.
    revoked: watch::Sender<HashSet<KeyId>>,
}

/// Most keys kept.
const MOST: usize = 10_000;

/// How long a reading is believed. Another server on the same store may have revoked the key.
const BELIEVED: Duration = Duration::from_secs(5);

/// Timers do not reach further; a stream that lasts so long may as well begin anew.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// When a key ends.
#[derive(Debug)]
pub(crate) struct End {
    key: KeyId,
    revoked: watch::Receiver<HashSet<KeyId>>,
    expires: Option<Instant>,
}

impl End {
    /// Waits for it.
    pub(crate) async fn come(&self) {
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
    pub(crate) fn new(streams_per_key: usize) -> Self {
        Self {
            keys: RwLock::default(),
            generation: AtomicU64::new(0),
            streams_per_key,
            revoked: watch::Sender::default(),
        }
    }

    /// The end of a key: pending for as long as it may be used.
    pub(crate) fn end(&self, known: &Known, now: Timestamp) -> End {
        let left = known.expires_at.map(|end| end.since(now).min(LONGEST));
        End {
            key: known.principal.key,
            revoked: self.revoked.subscribe(),
            expires: left.map(|left| Instant::now() + left),
        }
    }

    /// Ends whatever goes on under a key that was just revoked.
    pub(crate) fn revoke(&self, id: KeyId) {
        self.revoked.send_if_modified(|revoked| revoked.insert(id));
    }

    pub(crate) fn get(&self, secret: Digest, now: Timestamp) -> Option<Arc<Known>> {
        let keys = self.keys.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        keys.get(&secret).filter(|known| now.since(known.read_at) < BELIEVED).cloned()
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Keeps what was read while the generation was `seen`.
    pub(crate) fn put(&self, secret: Digest, key: Key, now: Timestamp, seen: u64) -> Arc<Known> {
        let mut keys = self.keys.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        let usage = match keys.get(&secret) {
            Some(known) => known.usage.clone(),
            None => Arc::new(Usage::new(self.streams_per_key)),
        };
        let known = Arc::new(Known {
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

    /// Keys used since the last time this was asked, and when.
    pub(crate) fn used(&self) -> Vec<(KeyId, Timestamp)> {
        let keys = self.keys.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let used = keys.values().filter_map(|known| {
            let at = known.usage.used_at.load(Ordering::Relaxed);
            let told = known.usage.told_at.swap(at, Ordering::Relaxed);
            (at > told).then(|| (known.principal.key, Timestamp::from_micros(at)))
        });
        used.collect()
    }
}

/// Forgets idle keys first: their buckets are full, so nothing is lost.
fn make_room(keys: &mut HashMap<Digest, Arc<Known>>, now: Timestamp) {
    if keys.len() < MOST {
        return;
    }
    keys.retain(|_, known| now.since(known.read_at) < BELIEVED);
    if keys.len() >= MOST {
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
        let cache = Cache::new(1);
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
        let cache = Cache::new(1);
        let now = Timestamp::from_micros(0);
        cache.put(key(1).secret, key(1), now, 0);
        assert!(cache.get(key(1).secret, now.after(BELIEVED)).is_none());
    }

    #[test]
    fn the_cache_is_bounded() {
        let cache = Cache::new(1);
        for number in 0..MOST as u128 + 10 {
            cache.put(key(number).secret, key(number), Timestamp::from_micros(0), 0);
        }
        assert!(cache.keys.read().unwrap().len() <= MOST);
    }

    #[test]
    fn a_use_is_told_once() {
        let cache = Cache::new(1);
        let known = cache.put(key(1).secret, key(1), Timestamp::from_micros(0), 0);
        assert_eq!(cache.used(), []);
        known.usage.used(Timestamp::from_micros(7));
        assert_eq!(cache.used(), [(key(1).id, Timestamp::from_micros(7))]);
        assert_eq!(cache.used(), []);
    }
}
