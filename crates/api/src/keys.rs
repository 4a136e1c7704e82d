//! Making keys. A secret exists in memory once, on its way to whoever asked for it.

use std::fmt;

use ringfence_engine::Engine;
use ringfence_ledger::{Entry, KeyChange};
use ringfence_store::Key;
use ringfence_types::{Digest, KeyId, PersonId, PersonaId, Scope, Scopes, TenantId, Timestamp};
use uuid::Uuid;

use crate::base64;

/// Every secret begins like this, so that scanners for leaked secrets can find it.
pub const SECRET_PREFIX: &str = "rf_";

/// Length of every secret: the prefix and 32 random bytes in base64url.
pub const SECRET_LENGTH: usize = 46;

/// How much of a secret is kept to recognise it: too little to guess the rest.
const SHOWN: usize = 9;

/// The tenant of the first key. Its admins alone make keys for other tenants and register skills,
/// because both reach beyond one tenant.
pub const OPERATOR_TENANT: &str = "default";

/// A secret. It shows itself only when asked by name.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text to send as `Authorization: Bearer`.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A key that was just made, with its secret.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// The key as it is kept.
    pub key: Key,
    /// Its secret, which is nowhere else.
    pub secret: Secret,
}

/// What a new key is to be.
#[derive(Debug, Clone)]
pub struct KeyRequest {
    /// Whose.
    pub tenant: TenantId,
    /// The only persona it may act for.
    pub persona: Option<PersonaId>,
    /// Whose hands it will be in.
    pub person: Option<PersonId>,
    /// What people call it.
    pub label: String,
    /// What it may do.
    pub scopes: Scopes,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
    /// The key that makes it.
    pub created_by: Option<KeyId>,
}

/// Why there is no new key.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel gave no random bytes.
    #[error("get random bytes for a secret")]
    Random(#[source] getrandom::Error),
    /// The key could not be kept.
    #[error("keep the key")]
    Store(#[from] ringfence_store::Error),
    /// Its secret could not be kept for its owner.
    #[error("keep the secret of the key")]
    Secret(#[source] std::io::Error),
}

/// What the ledger says of a key.
pub(crate) fn told(key: &Key, event: &str, by: Option<KeyId>, at: Timestamp) -> Entry {
    let change = KeyChange {
        event: event.to_owned(),
        key: key.id,
        label: key.label.clone(),
        scopes: key.scopes.clone(),
        persona: key.persona.clone(),
        person: key.person.clone(),
        expires_at: key.expires_at,
        by,
        fingerprint: Some(KeyChange::fingerprint_of(key.secret)),
    };
    Entry::key(key.tenant.clone(), at, &change)
}

/// Makes a key.
pub async fn create_key(engine: &Engine, request: KeyRequest) -> Result<NewKey, Error> {
    let new = draw(engine, request)?;
    add(engine, &new.key).await?;
    Ok(new)
}

/// A key that nobody knows yet.
fn draw(engine: &Engine, request: KeyRequest) -> Result<NewKey, Error> {
    let secret = secret()?;
    let key = Key {
        id: KeyId(Uuid::new_v4()),
        tenant: request.tenant,
        persona: request.persona,
        person: request.person.as_ref().map(PersonId::normalised),
        label: request.label,
        prefix: secret[..SHOWN].to_owned(),
        secret: Digest::of(secret.as_bytes()),
        scopes: request.scopes,
        created_at: engine.clock().now(),
        created_by: request.created_by,
        expires_at: request.expires_at,
        revoked_at: None,
        last_used_at: None,
    };
    Ok(NewKey { key, secret: Secret(secret) })
}

async fn add(engine: &Engine, key: &Key) -> Result<(), ringfence_store::Error> {
    let pen = engine.ledger().pen().await;
    let entry = pen.seal(told(key, "created", key.created_by, key.created_at))?;
    engine.store().add_key(key.clone(), entry).await
}

/// Makes the first admin key if no key can make others: on the first start, or after all of them
/// ended. Its owner gets the secret before anybody honours it: a crash in between leaves a secret
/// that is good for nothing and is replaced, never a key whose secret is lost.
pub async fn ensure_admin_key(
    engine: &Engine,
    keep: impl FnOnce(&Secret) -> std::io::Result<()>,
) -> Result<Option<NewKey>, Error> {
    let tenant: TenantId = OPERATOR_TENANT.parse().expect("our own name is valid");
    let now = engine.clock().now();
    let keys = engine.store().keys(Some(&tenant)).await?;
    if keys.iter().any(|key| is_usable_admin(key, now)) {
        return Ok(None);
    }
    let request = KeyRequest {
        tenant,
        persona: None,
        person: None,
        label: "first admin key".to_owned(),
        scopes: Scopes::from(Scope::ALL.to_vec()),
        expires_at: None,
        created_by: None,
    };
    let new = draw(engine, request)?;
    keep(&new.secret).map_err(Error::Secret)?;
    add(engine, &new.key).await?;
    Ok(Some(new))
}

/// Whether the key can make keys for good.
pub(crate) fn is_usable_admin(key: &Key, now: Timestamp) -> bool {
    key.revoked_at.is_none()
        && key.expires_at.is_none_or(|end| end > now)
        && key.scopes.allow(Scope::Admin)
        && key.tenant.as_str() == OPERATOR_TENANT
}

fn secret() -> Result<String, Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(Error::Random)?;
    Ok(format!("{SECRET_PREFIX}{}", base64::encode_url(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_has_256_random_bits_and_hides_itself() {
        let one = secret().unwrap();
        assert_eq!(one.len(), SECRET_LENGTH);
        assert!(one.starts_with(SECRET_PREFIX));
        assert_ne!(one, secret().unwrap());
        assert_eq!(format!("{:?}", Secret(one)), "***");
    }
}
