//! Secret of a tenant, as it is stored: encrypted.

use ringfence_types::{KeyId, SecretName, SecretRule, TenantId, Timestamp};

/// Secret of a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretRow {
    /// Tenant of the secret.
    pub tenant: TenantId,
    /// Its name, unique in the tenant.
    pub name: SecretName,
    /// Where it may go.
    pub rule: SecretRule,
    /// Its value, encrypted.
    pub seal: SecretSeal,
    /// Time at which the value was set.
    pub set_at: Timestamp,
    /// Key that set it.
    pub set_by: KeyId,
}

/// Encrypted value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretSeal {
    /// Id of the encryption key.
    pub key: String,
    /// Nonce and ciphertext.
    pub bytes: Vec<u8>,
}
