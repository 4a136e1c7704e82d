//! API keys: scopes, rates, expiry, revocation. Every door asks here; nothing here knows HTTP.
//!
//! Contents: [`Access`] looks keys up and ends them, `keys` makes, lists and revokes them, `cache`
//! holds those that were used lately, `sessions` are those of browsers, `rate` is the bucket of one
//! key, `open_count` counts what a key has open.
//!
//! Invariants:
//! - a secret is never kept, logged or compared: only its digest is looked up;
//! - a revoked or expired key is refused at once, whatever the cache says;
//! - authenticating writes nothing to the store;
//! - a key is made or revoked in one commit with the ledger entry that says so.

mod cache;
mod keys;
mod open_count;
mod rate;
mod secret;
mod sessions;

use std::{
    collections::HashSet,
    fmt::Debug,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use ringfence_ledger::Entry;
use ringfence_store::{Error as StoreError, Store};
use ringfence_types::{Clock, Digest, KeyId, Principal, Scope, Sealed, Timestamp};
use tokio::sync::watch;

pub use self::{
    cache::{KeyEnd, KnownKey, Usage},
    keys::{CreateError, KeyRequest, ListError, NewKey, NotAllowed, RevokeError},
    open_count::{OpenCount, OpenSlot},
    rate::{Rate, SharedRate, Taken},
    secret::{SECRET_LENGTH, SECRET_PREFIX, Secret},
    sessions::{LOGIN_LINK_LIFETIME, NewSession, SESSION_LIFETIME, Token},
};
pub use ringfence_store::Key;

/// The tenant of the first key. Its admins alone make keys for other tenants and register skills,
/// because both reach beyond one tenant.
pub const OPERATOR_TENANT: &str = "default";

/// Whether a key belongs to the operator's own tenant.
pub fn is_operator(who: &Principal) -> bool {
    who.tenant.as_str() == OPERATOR_TENANT
}

/// Whether a key may act beyond its own tenant: an admin key of the operator's tenant.
pub fn is_operator_admin(who: &Principal) -> bool {
    is_operator(who) && who.scopes.allow(Scope::Admin)
}

/// Signs entries of the ledger.
#[async_trait]
pub trait EntrySigner: Debug + Send + Sync + 'static {
    /// Signs an entry. The signing key does not change while the guard is held, so it is held until
    /// the entry is committed.
    async fn sign<'a>(&'a self, entry: Entry) -> Result<(Sealed, SigningGuard<'a>), StoreError>;
}

/// Keeps the signing key of the ledger in force until it is dropped.
pub type SigningGuard<'a> = Box<dyn SigningHeld + 'a>;

/// Anything that keeps a signing key in force by being held.
pub trait SigningHeld: Send + Sync {}
impl<T: Send + Sync> SigningHeld for T {}

/// Why a secret is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum Unauthenticated {
    /// It does not have the form of a secret, so it was not looked up.
    #[error("this is not a key of this server")]
    Malformed,
    /// No key has it.
    #[error("no key has this secret")]
    Unknown,
    /// Its key was revoked.
    #[error("this key was revoked")]
    Revoked,
    /// Its key has expired.
    #[error("this key ended at {0}")]
    Expired(Timestamp),
    /// The key could not be looked up.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The kernel gave no random bytes for a token.
    #[error("get random bytes for a session")]
    Random(#[from] getrandom::Error),
}

/// Keys and their use. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Access(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Arc<dyn Store>,
    signer: Arc<dyn EntrySigner>,
    clock: Arc<dyn Clock>,
    cache: cache::Cache,
    sessions: sessions::Sessions,
    /// Zero of the clock of rates, which grows whatever the wall clock does.
    started: Instant,
    /// Rates that other servers share, if there are other servers.
    shared_rate: OnceLock<Arc<dyn SharedRate>>,
}

impl Access {
    /// Access to the keys of a store, whose changes are signed by `signer`.
    pub fn new(store: Arc<dyn Store>, signer: Arc<dyn EntrySigner>, clock: Arc<dyn Clock>) -> Self {
        let cache = cache::Cache::default();
        let (sessions, started) = (sessions::Sessions::default(), Instant::now());
        let shared_rate = OnceLock::new();
        Self(Arc::new(Inner { store, signer, clock, cache, sessions, started, shared_rate }))
    }

    /// The key of this secret, if it may be used now. Marks the key as used.
    pub async fn authenticate(&self, secret: &[u8]) -> Result<Arc<KnownKey>, Unauthenticated> {
        if !Secret::is_well_formed(secret) {
            return Err(Unauthenticated::Malformed);
        }
        self.authenticate_digest(Digest::of(secret)).await
    }

    async fn authenticate_digest(&self, digest: Digest) -> Result<Arc<KnownKey>, Unauthenticated> {
        let now = self.now();
        let known = match self.0.cache.get(digest, now) {
            Some(known) => known,
            None => self.look_up(digest, now).await?,
        };
        known.check(now)?;
        known.usage.used(now);
        Ok(known)
    }

    /// Opens a session of the key with this secret.
    pub async fn sign_in(&self, secret: &[u8]) -> Result<NewSession, Unauthenticated> {
        self.authenticate(secret).await?;
        Ok(self.0.sessions.open(Digest::of(secret), self.now())?)
    }

    /// Makes a login link for the key with this secret: a token that opens one session.
    pub async fn make_login_link(&self, secret: &[u8]) -> Result<Token, Unauthenticated> {
        self.authenticate(secret).await?;
        Ok(self.0.sessions.make_link(Digest::of(secret), self.now())?)
    }

    /// Opens a session by a login link, which is used up.
    pub async fn sign_in_by_link(&self, token: &[u8]) -> Result<NewSession, Unauthenticated> {
        let key = self.0.sessions.use_link(token, self.now()).ok_or(Unauthenticated::Unknown)?;
        self.authenticate_digest(key).await?;
        Ok(self.0.sessions.open(key, self.now())?)
    }

    /// The key of a session, if the session is open and the key may be used now. Marks the key as used.
    pub async fn authenticate_session(
        &self,
        token: &[u8],
    ) -> Result<Arc<KnownKey>, Unauthenticated> {
        let key = self.0.sessions.key(token, self.now()).ok_or(Unauthenticated::Unknown)?;
        self.authenticate_digest(key).await
    }

    /// The token that forms of a session carry, so that a page of another origin cannot send them.
    pub fn form_token(token: &[u8]) -> String {
        sessions::form_token(token)
    }

    /// Closes a session.
    pub fn sign_out(&self, token: &[u8]) {
        self.0.sessions.close(token);
    }

    async fn look_up(
        &self,
        digest: Digest,
        now: Timestamp,
    ) -> Result<Arc<KnownKey>, Unauthenticated> {
        let generation = self.0.cache.generation();
        let key = self.0.store.key_by_secret(digest).await?.ok_or(Unauthenticated::Unknown)?;
        Ok(self.0.cache.put(digest, key, now, generation))
    }

    /// Has requests of keys counted together with other servers from now on. Only the first is taken.
    pub fn share_rates(&self, shared: Arc<dyn SharedRate>) {
        let _ = self.0.shared_rate.set(shared);
    }

    /// Takes one request out of the rate of a key, or says how long to wait for it.
    pub async fn check_rate(&self, known: &KnownKey, rate: Rate) -> Result<(), Duration> {
        // First the bucket of this server: a client that ran wild is stopped without a question.
        known.usage.bucket.take(rate, self.ticks(Instant::now()))?;
        let Some(shared) = self.0.shared_rate.get() else { return Ok(()) };
        match shared.take(known.principal.key, rate).await {
            Taken::Yes => Ok(()),
            Taken::Wait(wait) => Err(wait),
            Taken::Alone { since, servers } => {
                let (since, now) = (self.ticks(since), self.ticks(Instant::now()));
                known.usage.share.take_share(rate, servers, since, now)
            }
        }
    }

    /// Nanoseconds on the clock of rates.
    fn ticks(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.0.started);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    /// The end of a key, to be waited for by what goes on beyond a request.
    pub fn end_of(&self, known: &KnownKey) -> KeyEnd {
        self.0.cache.end_of(known, self.now())
    }

    /// Keys that this process revoked; changes with each of them.
    pub fn revocations(&self) -> watch::Receiver<HashSet<KeyId>> {
        self.0.cache.revocations()
    }

    /// Saves when keys were last used. A use that is not saved is lost: it is a hint for people,
    /// not a record.
    pub async fn save_uses(&self) {
        let used = self.0.cache.take_uses();
        if used.is_empty() {
            return;
        }
        if let Err(error) = self.0.store.touch_keys(used).await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "cannot save when keys were last used");
        }
    }

    fn now(&self) -> Timestamp {
        self.0.clock.now()
    }
}
