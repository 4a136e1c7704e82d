//! Secrets of tenants, with their changes on the ledger.

use ringfence_ledger::{Entry, SecretChange};
use ringfence_types::{Principal, SecretName};

use crate::{Engine, NewSecret, SecretError, SecretInfo};

impl Engine {
    /// Secrets of the caller's tenant, without their values.
    pub async fn secrets(&self, who: &Principal) -> Result<Vec<SecretInfo>, SecretError> {
        self.inner.secrets.list(&who.tenant).await
    }

    /// Sets a secret, in the place of an earlier one of the same name. The change is on the ledger
    /// before it takes effect.
    pub async fn set_secret(
        &self,
        who: &Principal,
        new: NewSecret,
    ) -> Result<SecretInfo, SecretError> {
        let inner = &self.inner;
        let at = inner.parts.clock.now();
        let prepared = inner.secrets.prepare(&who.tenant, new, who.key, at).await?;
        let change = SecretChange {
            event: "set".to_owned(),
            name: prepared.name.clone(),
            rule: Some(prepared.rule.clone()),
            by: who.key,
        };
        inner.parts.ledger.append(vec![Entry::secret(who.tenant.clone(), at, &change)]).await?;
        inner.secrets.set(prepared).await
    }

    /// Removes a secret; `false` if there was none.
    pub async fn remove_secret(
        &self,
        who: &Principal,
        name: &SecretName,
    ) -> Result<bool, SecretError> {
        let inner = &self.inner;
        if !inner.secrets.remove(&who.tenant, name).await? {
            return Ok(false);
        }
        let at = inner.parts.clock.now();
        let change = SecretChange {
            event: "removed".to_owned(),
            name: name.clone(),
            rule: None,
            by: who.key,
        };
        inner.parts.ledger.append(vec![Entry::secret(who.tenant.clone(), at, &change)]).await?;
        Ok(true)
    }

    /// Encrypts all secrets of all tenants anew; returns how many changed.
    pub async fn rotate_secret_key(&self, who: &Principal) -> Result<usize, SecretError> {
        let resealed = self.inner.secrets.rotate().await?;
        tracing::info!(resealed, by = %who.key, "secrets were encrypted with another key");
        Ok(resealed)
    }
}
