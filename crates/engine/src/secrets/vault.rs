//! The secrets of all tenants: set, listed, removed, opened, and encrypted anew with another key.

use std::{
    io,
    sync::{Arc, PoisonError, RwLock},
};

use prometheus_client::{metrics::counter::Counter, registry::Registry};
use ringfence_egress::{HeaderName, HostRule};
use ringfence_store::{SecretRow, SecretSeal, Store};
use ringfence_types::{
    KeyId, SecretName, SecretPlace, SecretRule, SecretText, TenantId, Timestamp,
};
use tokio::task::spawn_blocking;

use super::keyring::{SealedValue, SecretKey, SecretKeys};

/// Length limit of a value.
const MAX_VALUE_BYTES: usize = 16 << 10;
/// Number of tools, and of hosts, of one secret.
const MAX_BINDINGS: usize = 32;
/// Secrets of one tenant.
const MAX_SECRETS: usize = 500;

/// Secret to be set.
#[derive(Debug, Clone)]
pub struct NewSecret {
    /// Name of the secret.
    pub name: SecretName,
    /// Its value.
    pub value: SecretText,
    /// Where it may go.
    pub rule: SecretRule,
}

/// Everything about a secret but its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretInfo {
    /// Name of the secret.
    pub name: SecretName,
    /// Where it may go.
    pub rule: SecretRule,
    /// Time at which the value was set.
    pub set_at: Timestamp,
    /// Key that set it.
    pub set_by: KeyId,
    /// Encryption key of the row, by its id.
    pub key: String,
}

/// Reason why a secret cannot be set, used or changed.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The secret or its rule is invalid. All problems, by field.
    #[error("invalid secret")]
    Invalid(Vec<(&'static str, String)>),
    /// The tenant has too many.
    #[error("a tenant has at most {MAX_SECRETS} secrets")]
    TooMany,
    /// There is no key to encrypt with.
    #[error(
        "this server has no key for secrets: copy secrets.key from the data directory of the server \
         that made it, or set RINGFENCE_SECRETS_KEY"
    )]
    NoKey,
    /// The row does not open with any key at hand.
    #[error("the value cannot be decrypted with the keys of this server; set the secret again")]
    Undecryptable,
    /// The keys cannot be read or written.
    #[error("cannot use the keys for secrets")]
    Keys(#[source] io::Error),
    /// The store failed.
    #[error("cannot reach the stored secrets")]
    Store(#[from] ringfence_store::Error),
}

/// The secrets of all tenants.
#[derive(Debug)]
pub(crate) struct Vault {
    store: Arc<dyn Store>,
    keys: Arc<dyn SecretKeys>,
    /// Keys as read last; the one in force first.
    ring: RwLock<Vec<SecretKey>>,
    uses: Counter,
}

impl Vault {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        keys: Arc<dyn SecretKeys>,
        registry: &mut Registry,
    ) -> Self {
        let uses = Counter::default();
        let help = "Secrets that were added to requests";
        registry.register("secret_uses", help, uses.clone());
        Self { store, keys, ring: RwLock::default(), uses }
    }

    pub(crate) fn count_uses(&self, number: usize) {
        self.uses.inc_by(number as u64);
    }

    /// Checks and encrypts a new secret. It counts once it is [`set`](Self::set).
    pub(crate) async fn prepare(
        &self,
        tenant: &TenantId,
        new: NewSecret,
        by: KeyId,
        at: Timestamp,
    ) -> Result<SecretRow, SecretError> {
        check(&new).map_err(SecretError::Invalid)?;
        let known = self.store.secret(tenant, &new.name).await?.is_some();
        if !known && self.store.secrets(Some(tenant), None).await?.len() >= MAX_SECRETS {
            return Err(SecretError::TooMany);
        }
        let key = self.key_in_force().await?;
        let seal = key.seal(tenant, &new.name, &new.value).map_err(SecretError::Keys)?;
        Ok(SecretRow {
            tenant: tenant.clone(),
            name: new.name,
            rule: new.rule,
            seal: stored(seal),
            set_at: at,
            set_by: by,
        })
    }

    /// Keeps an encrypted secret, in the place of an earlier one of the same name.
    pub(crate) async fn set(&self, row: SecretRow) -> Result<SecretInfo, SecretError> {
        self.store.set_secret(row.clone()).await?;
        Ok(info(row))
    }

    /// Removes a secret; `false` if there was none.
    pub(crate) async fn remove(
        &self,
        tenant: &TenantId,
        name: &SecretName,
    ) -> Result<bool, SecretError> {
        Ok(self.store.remove_secret(tenant, name).await?)
    }

    pub(crate) async fn list(&self, tenant: &TenantId) -> Result<Vec<SecretInfo>, SecretError> {
        let rows = self.store.secrets(Some(tenant), None).await?;
        Ok(rows.into_iter().map(info).collect())
    }

    /// Rule of a secret; none if there is no such secret.
    pub(super) async fn rule(
        &self,
        tenant: &TenantId,
        name: &SecretName,
    ) -> Result<Option<SecretRule>, SecretError> {
        Ok(self.store.secret(tenant, name).await?.map(|row| row.rule))
    }

    /// Rule and value of a secret; none if there is no such secret.
    pub(super) async fn open(
        &self,
        tenant: &TenantId,
        name: &SecretName,
    ) -> Result<Option<(SecretRule, SecretText)>, SecretError> {
        let Some(row) = self.store.secret(tenant, name).await? else { return Ok(None) };
        let value = self.value(&row).await?;
        Ok(Some((row.rule, value)))
    }

    async fn value(&self, row: &SecretRow) -> Result<SecretText, SecretError> {
        let find = |keys: &[SecretKey]| keys.iter().find(|key| key.id() == row.seal.key).cloned();
        let cached = find(&self.ring.read().unwrap_or_else(PoisonError::into_inner));
        let key = match cached {
            Some(key) => Some(key),
            // Another server may have made a new key since.
            None => find(&self.load().await?),
        };
        let key = key.ok_or(SecretError::Undecryptable)?;
        let opened = key.open(&row.tenant, &row.name, &row.seal.bytes);
        opened.ok_or(SecretError::Undecryptable)
    }

    /// Encrypts every secret anew with the key in force. Where this server makes the keys, a new one is
    /// made first, and older ones are forgotten afterwards. Returns the number of rows that changed.
    pub(crate) async fn rotate(&self) -> Result<usize, SecretError> {
        let mut ring = self.load().await?;
        let is_ours = self.keys.makes_first();
        if is_ours {
            ring.insert(0, SecretKey::random().map_err(SecretError::Keys)?);
            self.keep(ring.clone()).await?;
        }
        let newest = ring.first().cloned().ok_or(SecretError::NoKey)?;
        let mut changed = 0;
        let mut after = None;
        loop {
            let rows = self.store.secrets(None, after.take()).await?;
            let Some(last) = rows.last() else { break };
            after = Some((last.tenant.clone(), last.name.clone()));
            for row in rows {
                if row.seal.key == newest.id() {
                    continue;
                }
                let value = self.value(&row).await?;
                let seal =
                    newest.seal(&row.tenant, &row.name, &value).map_err(SecretError::Keys)?;
                // A row that was set meanwhile has the new key already.
                changed += usize::from(self.store.reseal_secret(row, stored(seal)).await?);
            }
        }
        if is_ours {
            self.keep(vec![newest]).await?;
        }
        Ok(changed)
    }

    async fn key_in_force(&self) -> Result<SecretKey, SecretError> {
        let ring = self.load().await?;
        if let Some(key) = ring.into_iter().next() {
            return Ok(key);
        }
        if !self.keys.makes_first() {
            return Err(SecretError::NoKey);
        }
        let key = SecretKey::random().map_err(SecretError::Keys)?;
        self.keep(vec![key.clone()]).await?;
        Ok(key)
    }

    async fn load(&self) -> Result<Vec<SecretKey>, SecretError> {
        let keys = self.keys.clone();
        let read = spawn_blocking(move || keys.load()).await;
        let read = read.unwrap_or_else(|error| Err(io::Error::other(error)));
        let read = read.map_err(SecretError::Keys)?;
        read.clone_into(&mut self.ring.write().unwrap_or_else(PoisonError::into_inner));
        Ok(read)
    }

    async fn keep(&self, ring: Vec<SecretKey>) -> Result<(), SecretError> {
        let (keys, kept) = (self.keys.clone(), ring.clone());
        let written = spawn_blocking(move || keys.replace(&kept)).await;
        let written = written.unwrap_or_else(|error| Err(io::Error::other(error)));
        written.map_err(SecretError::Keys)?;
        *self.ring.write().unwrap_or_else(PoisonError::into_inner) = ring;
        Ok(())
    }
}

fn stored(seal: SealedValue) -> SecretSeal {
    SecretSeal { key: seal.key, bytes: seal.bytes }
}

fn info(row: SecretRow) -> SecretInfo {
    let SecretRow { name, rule, seal, set_at, set_by, .. } = row;
    SecretInfo { name, rule, set_at, set_by, key: seal.key }
}

/// All problems of a new secret. None of them repeats the value.
fn check(new: &NewSecret) -> Result<(), Vec<(&'static str, String)>> {
    let mut problems = Vec::new();
    let value = new.value.reveal();
    if value.is_empty() || value.len() > MAX_VALUE_BYTES {
        problems.push(("value", format!("must have 1 to {MAX_VALUE_BYTES} bytes")));
    }
    let SecretRule { tools, hosts, place } = &new.rule;
    if !(1..=MAX_BINDINGS).contains(&tools.len()) {
        problems.push(("tools", format!("must name 1 to {MAX_BINDINGS} tools")));
    }
    if !(1..=MAX_BINDINGS).contains(&hosts.len()) {
        problems.push(("hosts", format!("must name 1 to {MAX_BINDINGS} hosts")));
    }
    for host in hosts {
        if let Err(invalid) = host.parse::<HostRule>() {
            problems.push(("hosts", invalid.to_string()));
        }
    }
    match place {
        SecretPlace::Header { name, format } => {
            let reserved = ["host", "content-length", "transfer-encoding", "connection", "te"];
            let parsed = name.parse::<HeaderName>();
            if parsed.map_or(true, |name| reserved.contains(&name.as_str())) {
                problems.push(("header", format!("`{name}` is not a header that can be set")));
            }
            if format.matches("{}").count() != 1 || format.len() > 200 || !is_visible(format) {
                let rule = "must contain `{}` once, in at most 200 visible characters";
                problems.push(("format", rule.to_owned()));
            }
            if !is_visible(value) {
                let rule = "must be visible ASCII characters to be sent in a header; remove the \
                            line break at the end";
                problems.push(("value", rule.to_owned()));
            }
        }
        SecretPlace::Query { name } => {
            if !(1..=100).contains(&name.len()) || !is_visible(name) {
                problems.push(("query", "must be 1 to 100 visible ASCII characters".to_owned()));
            }
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

fn is_visible(text: &str) -> bool {
    text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}
