//! Making, listing and revoking keys.
//!
//! An admin of the operator's tenant manages keys of every tenant; any other admin those of its
//! own. A key that is bound to a persona makes keys for that persona only.

use std::io;

use ringfence_ledger::{Entry, KeyChange};
use ringfence_store::{Revocation, Revoked};
use ringfence_types::{KeyId, PersonId, PersonaId, Principal, Scope, Scopes, TenantId, Timestamp};
use uuid::Uuid;

use crate::{Access, Key, OPERATOR_TENANT, Secret, StoreError, is_operator};

/// A key that was just made, with its secret.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// The key as it is kept.
    pub key: Key,
    /// Its secret, which is kept nowhere.
    pub secret: Secret,
}

/// A key to be made.
#[derive(Debug, Clone)]
pub struct KeyRequest {
    /// The tenant of the key.
    pub tenant: TenantId,
    /// The only persona it may act for.
    pub persona: Option<PersonaId>,
    /// The person who will hold it.
    pub person: Option<PersonId>,
    /// Label for people.
    pub label: String,
    /// Scopes of the key.
    pub scopes: Scopes,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
    /// The key that makes it.
    pub created_by: Option<KeyId>,
}

/// Actions on other keys that a key may not do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAllowed {
    /// The keys of another tenant belong to the operator.
    #[error("this needs an admin key of tenant `{OPERATOR_TENANT}`")]
    OperatorRequired,
    /// It is bound to a persona.
    #[error("this key makes keys for persona `{0}` only")]
    ForeignPersona(PersonaId),
}

/// Why a key was not made.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The key that asks may not make it.
    #[error(transparent)]
    NotAllowed(#[from] NotAllowed),
    /// The kernel gave no random bytes.
    #[error("get random bytes for a secret")]
    Random(#[source] getrandom::Error),
    /// The key could not be stored.
    #[error("store the key")]
    Store(#[from] StoreError),
    /// Its secret could not be handed to its owner.
    #[error("keep the secret of the key")]
    Secret(#[source] io::Error),
}

/// Why keys were not listed.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The key that asks may not see them.
    #[error(transparent)]
    NotAllowed(#[from] NotAllowed),
    /// The store failed.
    #[error("read keys")]
    Store(#[from] StoreError),
}

/// Why a key was not revoked.
#[derive(Debug, thiserror::Error)]
pub enum RevokeError {
    /// There is none of this id that the key may revoke.
    #[error("there is no such key")]
    NotFound,
    /// Without it no key could make keys.
    #[error("make another admin key first")]
    LastAdminKey,
    /// The store failed.
    #[error("revoke the key")]
    Store(#[from] StoreError),
}

impl Access {
    /// Makes a key.
    pub async fn create(&self, request: KeyRequest) -> Result<NewKey, CreateError> {
        let new = self.draw(request)?;
        self.add(&new.key).await?;
        Ok(new)
    }

    /// Makes a key as asked for by another one, if that may make it.
    pub async fn create_by(
        &self,
        who: &Principal,
        request: KeyRequest,
    ) -> Result<NewKey, CreateError> {
        check_tenant(who, &request.tenant)?;
        check_persona(who, request.persona.as_ref())?;
        self.create(KeyRequest { created_by: Some(who.key), ..request }).await
    }

    /// Makes the first admin key if no key can make others: on the first start, or after all of them
    /// ended. `keep` gets the secret before the key is valid: a crash in between leaves a useless
    /// secret that is replaced, never a key whose secret is lost.
    pub async fn ensure_admin_key(
        &self,
        keep: impl FnOnce(&Secret) -> io::Result<()>,
    ) -> Result<Option<NewKey>, CreateError> {
        if !self.admin_keys().await?.is_empty() {
            return Ok(None);
        }
        let new = self.draw(KeyRequest {
            tenant: operator_tenant(),
            persona: None,
            person: None,
            label: "first admin key".to_owned(),
            scopes: Scopes::from(Scope::ALL.to_vec()),
            expires_at: None,
            created_by: None,
        })?;
        keep(&new.secret).map_err(CreateError::Secret)?;
        self.add(&new.key).await?;
        Ok(Some(new))
    }

    /// The key of this id, of any tenant, revoked and expired ones included.
    pub async fn key(&self, id: KeyId) -> Result<Option<Key>, StoreError> {
        self.0.store.key(id).await
    }

    /// Keys, oldest first: of one tenant, or of all that the key which asks may see.
    pub async fn list_by(
        &self,
        who: &Principal,
        tenant: Option<TenantId>,
    ) -> Result<Vec<Key>, ListError> {
        let tenant = match tenant {
            None if is_operator(who) => None,
            None => Some(who.tenant.clone()),
            Some(tenant) => {
                check_tenant(who, &tenant)?;
                Some(tenant)
            }
        };
        Ok(self.0.store.keys(tenant.as_ref()).await?)
    }

    /// Revokes a key, at once and for good, and ends the streams under it. Doors revoke through the
    /// engine, which also decides held calls again.
    pub async fn revoke_by(&self, who: &Principal, id: KeyId) -> Result<(), RevokeError> {
        let tenant = (!is_operator(who)).then_some(&who.tenant);
        let revoked = self.commit_revocation(who, tenant, id).await?;
        // After the commit and before the answer: the client that gets the answer cannot use the
        // key any more.
        self.0.cache.forget(id);
        match revoked {
            Revoked::NotFound => return Err(RevokeError::NotFound),
            Revoked::LastAdmin => return Err(RevokeError::LastAdminKey),
            Revoked::Done => {}
        }
        self.0.cache.revoke(id);
        Ok(())
    }

    /// Ends what goes on under a key that another process revoked.
    pub fn revoked_elsewhere(&self, id: KeyId) {
        self.0.cache.forget(id);
        self.0.cache.revoke(id);
    }

    /// Revokes a key and puts it on the ledger, in one commit, unless it is the last that can make keys.
    async fn commit_revocation(
        &self,
        who: &Principal,
        tenant: Option<&TenantId>,
        id: KeyId,
    ) -> Result<Revoked, StoreError> {
        let keys = self.0.store.keys(tenant).await?;
        let Some(key) = keys.iter().find(|key| key.id == id) else { return Ok(Revoked::NotFound) };
        let at = self.now();
        let entry = entry(key, "revoked", Some(who.key), at);
        let (entry, _guard) = self.0.signer.sign(entry).await?;
        // Only the operator could revoke it, so only the operator learns which one it is.
        let keeps_admin_of = tenant.is_none().then(operator_tenant);
        let revocation = Revocation { key: id, tenant: tenant.cloned(), at, keeps_admin_of };
        self.0.store.revoke_key(revocation, entry).await
    }

    /// Keys that can make keys.
    async fn admin_keys(&self) -> Result<Vec<KeyId>, StoreError> {
        let keys = self.0.store.keys(Some(&operator_tenant())).await?;
        let now = self.now();
        Ok(keys.iter().filter(|key| is_usable_admin(key, now)).map(|key| key.id).collect())
    }

    /// A key that is not stored yet.
    fn draw(&self, request: KeyRequest) -> Result<NewKey, CreateError> {
        let secret = Secret::new().map_err(CreateError::Random)?;
        let key = Key {
            id: KeyId(Uuid::new_v4()),
            tenant: request.tenant,
            persona: request.persona,
            person: request.person.as_ref().map(PersonId::normalised),
            label: request.label,
            prefix: secret.prefix().to_owned(),
            secret: secret.digest(),
            scopes: request.scopes,
            created_at: self.now(),
            created_by: request.created_by,
            expires_at: request.expires_at,
            revoked_at: None,
            last_used_at: None,
        };
        Ok(NewKey { key, secret })
    }

    async fn add(&self, key: &Key) -> Result<(), StoreError> {
        let entry = entry(key, "created", key.created_by, key.created_at);
        let (entry, _guard) = self.0.signer.sign(entry).await?;
        self.0.store.add_key(key.clone(), entry).await
    }
}

/// The ledger entry about a change of a key.
fn entry(key: &Key, event: &str, by: Option<KeyId>, at: Timestamp) -> Entry {
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

fn operator_tenant() -> TenantId {
    OPERATOR_TENANT.parse().expect("our own name is valid")
}

fn check_tenant(who: &Principal, asked: &TenantId) -> Result<(), NotAllowed> {
    if *asked != who.tenant && !is_operator(who) {
        return Err(NotAllowed::OperatorRequired);
    }
    Ok(())
}

fn check_persona(who: &Principal, asked: Option<&PersonaId>) -> Result<(), NotAllowed> {
    match &who.persona {
        Some(own) if asked != Some(own) => Err(NotAllowed::ForeignPersona(own.clone())),
        _ => Ok(()),
    }
}

/// Whether the key can make keys now.
fn is_usable_admin(key: &Key, now: Timestamp) -> bool {
    key.revoked_at.is_none()
        && key.expires_at.is_none_or(|end| end > now)
        && key.scopes.allow(Scope::Admin)
        && key.tenant.as_str() == OPERATOR_TENANT
}
